//! Router advertisements: routers, prefixes and MTU of the link, and redirects.
//!
//! Entries beyond the bounds are ignored, one advertisement cannot cut a valid lifetime short, and
//! a redirect counts only from the current first hop.
//!
//! Source: RFC 4861 §6.3.4 and §8.1, RFC 4862 §5.5.3.

use std::net::Ipv6Addr;

use queueing::{Span, Time};
use wire::ipv6::MTU_MIN;
use wire::ndp::{PrefixInformation, RouterAdvertisement};

use super::{Interface, OnLink, PREFIXES_MAX, ROUTERS_MAX, Router, within};

/// Shortest lifetime to which an unauthenticated advertisement can reduce an address's (RFC 4862
/// §5.5.3).
const SHORTENED_MIN: Span = Span::from_secs(2 * 3600);

impl Interface {
    /// Handles an advertisement of router `from`.
    pub(crate) fn on_advertisement(
        &mut self,
        now: Time,
        from: Ipv6Addr,
        advertised: &RouterAdvertisement<'_>,
    ) {
        if !self.config.slaac {
            return;
        }
        self.solicit_at = Time::MAX;
        let until = now + Span::from_secs(advertised.lifetime_s.into());
        let known = self.routers.iter().position(|r| r.addr == from);
        match known {
            Some(at) if advertised.lifetime_s == 0 => drop(self.routers.remove(at)),
            Some(at) => self.routers[at].until = until,
            None if advertised.lifetime_s > 0 && self.routers.len() < ROUTERS_MAX => {
                self.routers.push(Router { addr: from, until });
            }
            None => {}
        }
        if let Some(mtu) =
            advertised.mtu.and_then(|mtu| u16::try_from(mtu).ok()).filter(|mtu| *mtu >= MTU_MIN)
        {
            self.mtu = Some(mtu);
        }
        // A legitimate link has no more prefixes than this.
        advertised.prefixes().take(PREFIXES_MAX).for_each(|prefix| self.on_prefix(now, &prefix));
        self.due = now;
    }

    fn on_prefix(&mut self, now: Time, advertised: &PrefixInformation) {
        if advertised.addr.is_unicast_link_local() || advertised.addr.is_multicast() {
            return;
        }
        let until = end(now, advertised.valid_s);
        if advertised.on_link {
            let same = |p: &OnLink| p.len == advertised.len && within(advertised.addr, p.addr, p.len);
            match self.prefixes.iter().position(same) {
                Some(at) => self.prefixes[at].until = until,
                None if advertised.valid_s > 0 && self.prefixes.len() < PREFIXES_MAX => {
                    self.prefixes.push(OnLink { addr: advertised.addr, len: advertised.len, until });
                }
                None => {}
            }
        }
        if !advertised.autonomous || advertised.len != 64 || advertised.preferred_s > advertised.valid_s {
            return;
        }
        let preferred = end(now, advertised.preferred_s);
        let ours = self.addrs.iter_mut().find(|a| a.made.is_some() && within(a.addr, advertised.addr, 64));
        match ours {
            Some(ours) => {
                ours.preferred_until = preferred;
                if until > now + SHORTENED_MIN || until > ours.valid_until {
                    ours.valid_until = until;
                } else if ours.valid_until > now + SHORTENED_MIN {
                    ours.valid_until = now + SHORTENED_MIN;
                }
            }
            None if advertised.valid_s > 0 => {
                let addr = self.made_in(advertised.addr, 0);
                self.add(now, addr, 64, Some(0), [preferred, until]);
            }
            None => {}
        }
    }

    /// Handles router `from`'s redirect of `destination` to `target`. Returns true if it is valid:
    /// `from` is the first hop, and `target` is a router on this link or the destination (RFC 4861
    /// §8.1).
    pub(crate) fn on_redirect(
        &mut self,
        now: Time,
        from: Ipv6Addr,
        target: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> bool {
        let valid = from.is_unicast_link_local()
            && from != destination
            && self.next_hop(destination) == Some(from)
            && (target == destination || target.is_unicast_link_local())
            && !target.is_unspecified()
            && !self.addrs.iter().any(|a| a.addr == target);
        if valid {
            self.redirects.learn(now, destination, target);
            self.due = self.due.min(self.redirects.deadline());
        }
        valid
    }
}

/// End of a lifetime of `seconds`; all ones is infinite.
fn end(now: Time, seconds: u32) -> Time {
    if seconds == u32::MAX { Time::MAX } else { now + Span::from_secs(seconds.into()) }
}
