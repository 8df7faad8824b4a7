//! IPv6 interface: addresses, on-link prefixes, and routers.
//!
//! State only: router advertisements and the time in, requests to send out. Bounds: [`ADDRS_MAX`]
//! addresses, [`PREFIXES_MAX`] prefixes, [`ROUTERS_MAX`] routers. Entries beyond them are ignored,
//! so that a flood of advertisements cannot evict working ones; a new redirect evicts the oldest.
//!
//! Source: RFC 4861 §6.3 and §8, RFC 4862 §5, RFC 7217, RFC 6724 (its rules 1–3 and 8).

mod router_advertisement;

use std::hash::Hasher;
use std::net::Ipv6Addr;

use queueing::{Span, Time};
use siphasher::sip::SipHasher13;
use wire::ethernet::Mac;
use wire::ipv6::{ALL_NODES, solicited_node};
use wire::mld::{AddressRecord, Query};

use super::mld::Reports;
use super::redirects::Redirects;
use crate::stack::config::{Config, InterfaceId, Ipv6};

pub(crate) const ADDRS_MAX: usize = 16;
pub(crate) const PREFIXES_MAX: usize = 16;
pub(crate) const ROUTERS_MAX: usize = 8;

/// Interval of duplicate address detection probes (RFC 4861 §10, RetransTimer).
const PROBE_INTERVAL: Span = Span::from_secs(1);
/// Interval and number of router solicitations (RFC 4861 §10).
const SOLICIT_INTERVAL: Span = Span::from_secs(4);
const SOLICITS_MAX: u8 = 3;
/// Maximum number of further interface identifiers tried after a conflict (RFC 7217 §6).
const CONFLICTS_MAX: u8 = 3;

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// An address of this host.
#[derive(Clone, Copy, Debug)]
struct Address {
    addr: Ipv6Addr,
    prefix: u8,
    /// Time of the next duplicate address detection probe, and number of those sent; `None` once
    /// the address is assigned.
    tentative: Option<(Time, u8)>,
    preferred_until: Time,
    deprecated: bool,
    valid_until: Time,
    /// Self-generated, with the identifier after this many conflicts.
    made: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct OnLink {
    addr: Ipv6Addr,
    len: u8,
    until: Time,
}

#[derive(Clone, Copy, Debug)]
struct Router {
    addr: Ipv6Addr,
    until: Time,
}

/// Action due at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send a duplicate address detection probe for this address.
    Probe(Ipv6Addr),
    /// Send a router solicitation.
    Solicit,
    /// This address is assigned.
    Ours(Ipv6Addr),
    /// This address expired.
    Gone(Ipv6Addr),
    /// Send this record of this multicast group.
    Report(AddressRecord, Ipv6Addr),
}

/// State of one interface.
#[derive(Debug)]
pub(crate) struct Interface {
    mac: Mac,
    secret: [u8; 16],
    config: Ipv6,
    addrs: Vec<Address>,
    prefixes: Vec<OnLink>,
    routers: Vec<Router>,
    solicits: u8,
    due: Time,
    solicit_at: Time,
    /// Link MTU by router advertisements.
    mtu: Option<u16>,
    redirects: Redirects,
    reports: Reports,
}

impl Interface {
    /// An interface that probes its addresses for duplicates from its first poll on.
    pub(crate) fn new(mac: Mac, secret: [u8; 16], config: Ipv6) -> Self {
        let mut interface = Self {
            mac,
            secret,
            addrs: Vec::new(),
            prefixes: Vec::new(),
            routers: Vec::new(),
            solicits: 0,
            due: Time::ZERO,
            solicit_at: if config.slaac { Time::ZERO } else { Time::MAX },
            mtu: None,
            redirects: Redirects::default(),
            reports: Reports::default(),
            config,
        };
        let link_local = interface.made_in(LINK_LOCAL, 0);
        interface.add(Time::ZERO, link_local, 64, Some(0), [Time::MAX; 2]);
        for (addr, prefix) in interface.config.addrs.clone() {
            interface.add(Time::ZERO, addr, prefix.min(128), None, [Time::MAX; 2]);
        }
        interface
    }

    fn add(
        &mut self,
        now: Time,
        addr: Ipv6Addr,
        prefix: u8,
        made: Option<u8>,
        [preferred, valid]: [Time; 2],
    ) {
        let unicast = !addr.is_multicast() && !addr.is_unspecified() && !addr.is_loopback();
        if self.addrs.len() < ADDRS_MAX && unicast && !self.addrs.iter().any(|a| a.addr == addr) {
            let tentative = (self.config.probes > 0).then_some((now, 0));
            let group = solicited_node(addr);
            if !self.listens_to(group) {
                self.reports.on_change(now, group, AddressRecord::Joined);
            }
            self.addrs.push(Address {
                addr,
                prefix,
                tentative,
                preferred_until: preferred,
                deprecated: false,
                valid_until: valid,
                made,
            });
            self.due = now;
        }
    }

    fn remove(&mut self, now: Time, at: usize) -> Address {
        let lost = self.addrs.remove(at);
        let group = solicited_node(lost.addr);
        if !self.listens_to(group) {
            self.reports.on_change(now, group, AddressRecord::Left);
        }
        lost
    }

    /// Schedules reports in response to a querier's request for multicast listeners.
    pub(crate) fn on_query(&mut self, now: Time, query: &Query) {
        let groups = self.addrs.iter().map(|a| solicited_node(a.addr));
        for group in groups.filter(|group| query.group.is_unspecified() || query.group == *group) {
            // Delays are spread over hosts by their secrets, and over time.
            let mut hasher = SipHasher13::new_with_key(&self.secret);
            hasher.write(&group.octets());
            hasher.write_u64(now.as_nanos());
            self.reports.on_query(now, group, query.within, hasher.finish() as u8);
        }
        self.due = self.due.min(self.reports.deadline());
    }

    /// Self-generated address in the /64 of `prefix`.
    fn made_in(&self, prefix: Ipv6Addr, conflicts: u8) -> Ipv6Addr {
        let mut octets = prefix.octets();
        let [a, b, c, d, e, f] = self.mac;
        let id = match self.config.interface_id {
            InterfaceId::Eui64 => [a ^ 2, b, c, 0xff, 0xfe, d, e, f],
            InterfaceId::Stable => {
                let mut hasher = SipHasher13::new_with_key(&self.secret);
                hasher.write(b"interface identifier");
                hasher.write(&octets[..8]);
                hasher.write(&self.mac);
                hasher.write_u8(conflicts);
                hasher.finish().to_be_bytes()
            }
        };
        octets[8..].copy_from_slice(&id);
        octets.into()
    }

    /// True if `addr` is assigned to this host.
    #[inline]
    pub(crate) fn owns(&self, addr: Ipv6Addr) -> bool {
        self.addrs.iter().any(|a| a.addr == addr && a.tentative.is_none())
    }

    /// True if `addr` is still being checked for duplicates.
    pub(crate) fn is_tentative(&self, addr: Ipv6Addr) -> bool {
        self.addrs.iter().any(|a| a.addr == addr && a.tentative.is_some())
    }

    /// True if packets to the group `addr` are accepted.
    pub(crate) fn listens_to(&self, addr: Ipv6Addr) -> bool {
        addr == ALL_NODES || self.addrs.iter().any(|a| solicited_node(a.addr) == addr)
    }

    /// Assigned addresses, without tentative ones.
    pub(crate) fn addrs(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addrs.iter().filter(|a| a.tentative.is_none()).map(|a| a.addr)
    }

    /// The smaller of `mtu` and the link MTU by router advertisements.
    pub(crate) fn mtu(&self, mtu: u16) -> u16 {
        self.mtu.map_or(mtu, |advertised| advertised.min(mtu))
    }

    /// Source address of a packet to `target`; a tentative one only without an alternative.
    pub(crate) fn source(&self, target: Ipv6Addr) -> Option<Ipv6Addr> {
        let local = target.is_unicast_link_local() || target.is_multicast();
        let shared = |a: &Address| (a.addr.to_bits() ^ target.to_bits()).leading_zeros().min(64);
        let fits = self.addrs.iter().filter(|a| local || !a.addr.is_unicast_link_local());
        let rank = |a: &&Address| {
            let scope = a.addr.is_unicast_link_local() == local;
            (a.addr == target, a.tentative.is_none(), scope, !a.deprecated, shared(a))
        };
        fits.max_by_key(rank).map(|a| a.addr)
    }

    /// Next hop of a packet to `target`.
    #[inline]
    pub(crate) fn next_hop(&self, target: Ipv6Addr) -> Option<Ipv6Addr> {
        if target.is_multicast() || target.is_unspecified() || target.is_loopback() {
            return None;
        }
        if let Some(hop) = self.redirects.hop(target) {
            return Some(hop);
        }
        if self.is_on_link(target) {
            return Some(target);
        }
        self.config.gateway.or_else(|| self.routers.first().map(|r| r.addr))
    }

    fn is_on_link(&self, target: Ipv6Addr) -> bool {
        let ours = self.addrs.iter().filter(|a| a.made.is_none()).map(|a| (a.addr, a.prefix));
        target.is_unicast_link_local()
            || ours
                .chain(self.prefixes.iter().map(|p| (p.addr, p.len)))
                .any(|(a, len)| within(target, a, len))
    }

    /// Handles an unreachable neighbour: removes redirects to it, and moves on to the next router
    /// if it is the current one.
    pub(crate) fn on_silent(&mut self, addr: Ipv6Addr) {
        self.redirects.forget(addr);
        if self.routers.first().is_some_and(|router| router.addr == addr) {
            self.routers.rotate_left(1);
        }
    }

    /// Handles another host's claim to the tentative `addr`. Returns true if it was tentative.
    pub(crate) fn on_conflict(&mut self, now: Time, addr: Ipv6Addr) -> bool {
        let Some(at) = self.addrs.iter().position(|a| a.addr == addr && a.tentative.is_some()) else {
            return false;
        };
        let lost = self.remove(now, at);
        // The departure from its group is reported to routers.
        self.due = now;
        if let (Some(conflicts), InterfaceId::Stable) = (lost.made, self.config.interface_id)
            && conflicts < CONFLICTS_MAX
        {
            let other = self.made_in(addr, conflicts + 1);
            self.add(now, other, 64, Some(conflicts + 1), [lost.preferred_until, lost.valid_until]);
        }
        true
    }

    /// Time when [`Interface::poll`] is due.
    pub(crate) fn deadline(&self) -> Time {
        self.due
    }

    /// The next action due at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Due> {
        if now < self.due {
            return None;
        }
        self.routers.retain(|router| router.until > now);
        self.prefixes.retain(|prefix| prefix.until > now);
        self.redirects.expire(now);
        if let Some(at) = self.addrs.iter().position(|a| a.valid_until <= now) {
            return Some(Due::Gone(self.remove(now, at).addr));
        }
        if let Some((record, group)) = self.reports.poll(now) {
            return Some(Due::Report(record, group));
        }
        for address in &mut self.addrs {
            match &mut address.tentative {
                Some((at, probes)) if *at <= now && *probes < self.config.probes => {
                    (*at, *probes) = (now + PROBE_INTERVAL, *probes + 1);
                    return Some(Due::Probe(address.addr));
                }
                Some((at, _)) if *at <= now => {
                    address.tentative = None;
                    let addr = address.addr;
                    self.announce(now, addr);
                    return Some(Due::Ours(addr));
                }
                _ => {}
            }
            address.deprecated = address.preferred_until <= now;
        }
        if self.solicit_at <= now {
            self.solicits += 1;
            let again = self.solicits < SOLICITS_MAX;
            self.solicit_at = if again { now + SOLICIT_INTERVAL } else { Time::MAX };
            return Some(Due::Solicit);
        }
        let next = |a: &Address| {
            let preferred = if a.deprecated { Time::MAX } else { a.preferred_until };
            a.tentative.map_or(Time::MAX, |(at, _)| at).min(a.valid_until).min(preferred)
        };
        let addrs = self.addrs.iter().map(next);
        let others = self.routers.iter().map(|r| r.until).chain(self.prefixes.iter().map(|p| p.until));
        let soonest = addrs.chain(others).min().unwrap_or(Time::MAX);
        let others = self.redirects.deadline().min(self.reports.deadline());
        self.due = soonest.min(self.solicit_at).min(others);
        None
    }

    /// Repeats all reports once the link-local `addr` is assigned: those sent without a source
    /// address may have been ignored (RFC 3590 §4).
    fn announce(&mut self, now: Time, addr: Ipv6Addr) {
        if addr.is_unicast_link_local() {
            for a in &self.addrs {
                self.reports.on_query(now, solicited_node(a.addr), Span::ZERO, 0);
            }
        }
    }

    #[cfg(test)]
    fn sizes(&self) -> [usize; 4] {
        [self.addrs.len(), self.prefixes.len(), self.routers.len(), self.redirects.len()]
    }
}

impl Config {
    /// Self-generated link-local address of a stack with this configuration, unless it is a
    /// duplicate; `None` without IPv6.
    #[must_use]
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let ipv6 = self.ipv6.clone()?;
        Some(Interface::new(self.mac, self.secret, ipv6).made_in(LINK_LOCAL, 0))
    }
}

/// True if `addr` shares its first `len` bits with `prefix`.
fn within(addr: Ipv6Addr, prefix: Ipv6Addr, len: u8) -> bool {
    let differing = addr.to_bits() ^ prefix.to_bits();
    differing.checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
}

//~ ip: SLAAC forms stable addresses and detects duplicates (RFC 4862, 7217)
#[cfg(test)]
mod tests;
