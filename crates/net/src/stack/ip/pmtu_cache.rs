//! Path MTU cache: the largest packet that gets through to a peer.
//!
//! Bounded: one search ([`plpmtu`](super::plpmtu)) for each peer whose path reported or showed a
//! limit, shared by all connections to it and dropped after ten minutes without use. Never below
//! the minimum of every path, so that a forged error cannot reduce packets further.
//!
//! Source: RFC 1191 §6.3, RFC 8201 §4, RFC 8899 §4.

use std::collections::BTreeMap;
use std::net::IpAddr;

use queueing::Time;
use wire::ipv6;

use super::plpmtu::{BASE, Event, Plpmtud};

/// Maximum number of peers cached; a further one evicts the least recently used.
pub(crate) const PATHS_MAX: usize = 1024;
/// Usual MTUs of links, descending (RFC 1191 §7.1, and the minimum of IPv6).
const PLATEAUS: [u16; 8] = [8166, 4352, 2002, 1492, 1280, 1006, 552, 296];

/// Path MTU cache.
#[derive(Debug, Default)]
pub(crate) struct PmtuCache {
    /// Search per peer, and time of its last use.
    known: BTreeMap<IpAddr, (Plpmtud, Time)>,
}

impl PmtuCache {
    /// Largest packet to `remote`, at most `mtu`.
    #[inline]
    pub(crate) fn mtu(&self, now: Time, remote: IpAddr, mtu: u16) -> u16 {
        if self.known.is_empty() {
            return mtu;
        }
        match self.known.get(&remote) {
            Some((search, _)) if !search.is_stale(now) => mtu.min(search.size()),
            _ => mtu,
        }
    }

    /// Applies `event` to the path to `remote`, whose link carries `mtu` bytes.
    pub(crate) fn on(&mut self, now: Time, remote: IpAddr, mtu: u16, event: Event) {
        let known = self.known.get_mut(&remote).filter(|(search, _)| !search.is_stale(now));
        if let Some((search, looked)) = known {
            search.on(now, event);
            *looked = now;
            return;
        }
        if self.known.len() >= PATHS_MAX && !self.known.contains_key(&remote) {
            let oldest = self.known.iter().min_by_key(|(_, (_, looked))| *looked).map(|(addr, _)| *addr);
            oldest.map(|oldest| self.known.remove(&oldest));
        }
        let mut search = Plpmtud::new(mtu);
        search.on(now, event);
        self.known.insert(remote, (search, now));
    }

    /// Search on the path to `remote`, if one exists.
    pub(crate) fn search(&mut self, now: Time, remote: IpAddr) -> Option<&mut Plpmtud> {
        let (search, looked) = self.known.get_mut(&remote)?;
        *looked = now;
        (!search.is_stale(now)).then_some(search)
    }
}

/// Minimum MTU of a path to `remote`: 1280 for IPv6; for IPv4 the reassembly buffer that each host
/// must have, less the overhead of tunnels. The 68 bytes that RFC 791 requires of routers occur on
/// no path and would help an attacker.
pub(crate) fn mtu_min(remote: IpAddr) -> u16 {
    if remote.is_ipv4() { 552 } else { ipv6::MTU_MIN }
}

/// Fallback size after a black hole at `mtu`: a size that nearly every path carries, then one that
/// each path carries.
pub(crate) fn mtu_base(remote: IpAddr, mtu: u16) -> u16 {
    if mtu > BASE { BASE } else { mtu_min(remote) }
}

/// The next smaller plateau.
pub(crate) fn plateau_below(remote: IpAddr, mtu: u16) -> u16 {
    let below = PLATEAUS.into_iter().find(|plateau| *plateau < mtu);
    below.unwrap_or(0).max(mtu_min(remote))
}

#[cfg(test)]
mod tests {
    use queueing::Span;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn an_entry_that_is_not_used_expires() {
        let mut paths = PmtuCache::default();
        paths.on(Time::ZERO, PEER, 1500, Event::TooBig(1400));
        let at = |s| Time::ZERO + Span::from_secs(s);
        assert_eq!([1199, 1200].map(|s| paths.mtu(at(s), PEER, 1500)), [1400, 1500]);
        assert_eq!(paths.mtu(at(0), PEER, 1300), 1300);
    }

    #[test]
    fn the_number_of_cached_paths_is_bounded() {
        let mut paths = PmtuCache::default();
        for i in 0..5000u32 {
            let peer = IpAddr::from(i.to_be_bytes());
            paths.on(Time::from_nanos(i.into()), peer, 1500, Event::TooBig(1280));
        }
        assert_eq!(paths.known.len(), PATHS_MAX);
        assert_eq!(paths.mtu(Time::ZERO, IpAddr::from(4999u32.to_be_bytes()), 1500), 1280);
    }

    #[test]
    fn plateaus_end_at_the_minimum_mtu() {
        let steps = |remote: IpAddr| {
            let mut mtu = 1500;
            std::array::from_fn::<u16, 5, _>(|_| {
                mtu = plateau_below(remote, mtu);
                mtu
            })
        };
        assert_eq!(steps(PEER), [1492, 1280, 1006, 552, 552]);
        assert_eq!(steps("::1".parse().unwrap()), [1492, 1280, 1280, 1280, 1280]);
    }
}
