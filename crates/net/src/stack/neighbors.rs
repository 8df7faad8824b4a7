//! Neighbour cache: hardware addresses of hosts on the link, for IPv4 (ARP) and IPv6 (NDP).
//!
//! Queues connections, not packets, until an address is resolved: a resolved connection is polled
//! again for what it would send. No queued packet can become stale, and a request needs no buffer.
//! Requests are repeated and given up by the cache's own deadline, whether or not traffic follows.
//!
//! Source: RFC 826, RFC 1122 §2.3.2, RFC 4861 §7.

use std::collections::BTreeMap;
use std::net::IpAddr;

use queueing::{Span, Time};
use wire::ethernet::Mac;

use super::event::ConnId;

/// Cache entry of a neighbour.
#[derive(Clone, Copy, Debug)]
struct Neighbor {
    mac: Option<Mac>,
    confirmed: Time,
    /// Contradicted by another host, or the peer does not respond: to be verified soon.
    doubted: bool,
    /// Requests sent without an answer.
    requests: u8,
    /// Time of the next request or of giving up; `Time::MAX` without a pending request.
    request_at: Time,
}

/// Result of a lookup: the action that reaches a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// Send to this address.
    Known(Mac),
    /// Send to this address, and send a request that verifies it.
    Refresh(Mac),
    /// Send a request, and wait.
    Ask,
    /// Wait: a request is pending.
    Wait,
}

/// Action due at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Repeat the request.
    Ask(IpAddr),
    /// The neighbour does not answer: connections that wait for it fail.
    Silent(IpAddr),
}

/// Policy for a neighbour that is not in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsolicitedPolicy {
    /// Add the neighbour: it sent a packet to this host.
    Welcome,
    /// Ignore the neighbour.
    Ignored,
}

/// Neighbour cache.
#[derive(Debug)]
pub(crate) struct Neighbors {
    known: BTreeMap<IpAddr, Neighbor>,
    /// Last lookup, for the common case of one gateway or one peer.
    last: Option<(IpAddr, Mac, Time)>,
    /// Connections (by slot) that wait for an address.
    waiting: Vec<(IpAddr, ConnId)>,
    /// Lower bound of the next deadline.
    due: Time,
}

impl Default for Neighbors {
    fn default() -> Self {
        Self { known: BTreeMap::new(), last: None, waiting: Vec::new(), due: Time::MAX }
    }
}

impl Neighbors {
    /// Maximum number of neighbours cached; a further one evicts an unresolved one or else the one confirmed
    /// longest ago.
    pub(crate) const KNOWN_MAX: usize = 1024;
    /// Maximum number of connections that wait; others retry when their timer fires.
    const WAITING_MAX: usize = 16_384;
    /// Number of requests before a neighbour counts as unreachable (RFC 4861 §10).
    const REQUESTS_MAX: u8 = 3;
    /// Time until the first repetition, which bounds the delay by a lost request.
    const REQUEST_FIRST: Span = Span::from_millis(250);
    const REQUEST_INTERVAL: Span = Span::from_secs(1);
    const FRESH: Span = Span::from_secs(60);

    #[inline]
    pub(crate) fn reach(&mut self, now: Time, addr: IpAddr) -> Resolution {
        match self.recent(now, addr) {
            Some(mac) => Resolution::Known(mac),
            None => self.look_up(now, addr),
        }
    }

    /// Hardware address of `addr` if it was the last one looked up and is fresh.
    #[inline]
    pub(crate) fn recent(&self, now: Time, addr: IpAddr) -> Option<Mac> {
        let (last, mac, until) = self.last?;
        (last == addr && now < until).then_some(mac)
    }

    fn look_up(&mut self, now: Time, addr: IpAddr) -> Resolution {
        if !self.known.contains_key(&addr) {
            self.evict_one();
        }
        let neighbor = self.known.entry(addr).or_insert(Neighbor {
            mac: None,
            confirmed: now,
            doubted: false,
            requests: 0,
            request_at: Time::MAX,
        });
        let stale = neighbor.doubted || now.since(neighbor.confirmed) >= Self::FRESH;
        match neighbor.mac {
            Some(mac) if !stale => {
                self.last = Some((addr, mac, neighbor.confirmed + Self::FRESH));
                Resolution::Known(mac)
            }
            Some(mac) if neighbor.requests > 0 => Resolution::Known(mac),
            None if neighbor.requests > 0 => Resolution::Wait,
            mac => {
                neighbor.requests = 1;
                neighbor.request_at = now + Self::REQUEST_FIRST;
                self.due = self.due.min(neighbor.request_at);
                mac.map_or(Resolution::Ask, Resolution::Refresh)
            }
        }
    }

    /// Time when [`Neighbors::poll`] is due at the earliest.
    pub(crate) fn deadline(&self) -> Time {
        self.due
    }

    /// The next action due at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Due> {
        if now < self.due {
            return None;
        }
        let Some((&addr, neighbor)) = self.known.iter_mut().find(|(_, n)| n.request_at <= now) else {
            self.due = self.known.values().map(|n| n.request_at).min().unwrap_or(Time::MAX);
            return None;
        };
        if neighbor.requests < Self::REQUESTS_MAX {
            neighbor.requests += 1;
            neighbor.request_at = now + Self::REQUEST_INTERVAL;
            return Some(Due::Ask(addr));
        }
        self.known.remove(&addr);
        self.last = None;
        Some(Due::Silent(addr))
    }

    fn evict_one(&mut self) {
        if self.known.len() >= Self::KNOWN_MAX
            && let Some((&oldest, _)) = self.known.iter().min_by_key(|(_, n)| (n.mac.is_some(), n.confirmed))
        {
            self.known.remove(&oldest);
        }
    }

    /// Marks `addr` for verification at its next use: its entry may be wrong.
    pub(crate) fn doubt(&mut self, addr: IpAddr) {
        if let Some(neighbor) = self.known.get_mut(&addr) {
            neighbor.doubted = true;
            self.last = None;
        }
    }

    /// Records that `addr` has `mac`. An unsolicited contradiction of an entry does not replace it,
    /// but marks it for verification.
    pub(crate) fn learn(&mut self, now: Time, addr: IpAddr, mac: Mac, unsolicited: UnsolicitedPolicy) {
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        if !unicast || !(unsolicited == UnsolicitedPolicy::Welcome || self.known.contains_key(&addr)) {
            return;
        }
        match self.known.get(&addr) {
            Some(known) if known.requests == 0 && known.mac.is_some_and(|other| other != mac) => {
                self.doubt(addr);
                return;
            }
            Some(_) => {}
            None => self.evict_one(),
        }
        let neighbor =
            Neighbor { mac: Some(mac), confirmed: now, doubted: false, requests: 0, request_at: Time::MAX };
        self.known.insert(addr, neighbor);
        self.last = None;
    }

    /// Hardware address of `addr`, if known.
    pub(crate) fn known(&self, addr: IpAddr) -> Option<Mac> {
        self.known.get(&addr)?.mac
    }

    /// True if `addr` is unknown or has `mac`.
    pub(crate) fn agrees(&self, addr: IpAddr, mac: Mac) -> bool {
        self.known(addr).is_none_or(|known| known == mac)
    }

    /// Lets connection `id` wait for `addr`; `false` if too many wait.
    pub(crate) fn park(&mut self, addr: IpAddr, id: ConnId) -> bool {
        let has_space = self.waiting.len() < Self::WAITING_MAX;
        if has_space {
            self.waiting.push((addr, id));
        }
        has_space
    }

    /// Removes connection `id`, which has ended, from those that wait.
    pub(crate) fn forget(&mut self, id: ConnId) {
        self.waiting.retain(|(_, waits)| *waits != id);
    }

    /// Removes and returns the connections that waited for `addr`.
    pub(crate) fn unpark(&mut self, addr: IpAddr) -> Vec<ConnId> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let (ready, waiting) = self.waiting.drain(..).partition(|(a, _)| *a == addr);
        self.waiting = waiting;
        let ready: Vec<(IpAddr, ConnId)> = ready;
        ready.into_iter().map(|(_, id)| id).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

//~ ip: ARP answers requests, caches within a bound, and re-checks old or contradicted entries (RFC 826, 5227)
#[cfg(test)]
mod tests {
    use super::*;

    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn cache_is_bounded_and_keeps_resolved_entries() {
        let mut neighbors = Neighbors::default();
        neighbors.learn(Time::ZERO, THERE, [2; 6], UnsolicitedPolicy::Welcome);
        for i in 0..5000u32 {
            let other = IpAddr::from((0x0b00_0000 + i).to_be_bytes());
            let _ = neighbors.reach(Time::from_nanos(i.into()), other);
        }
        assert_eq!(neighbors.len(), Neighbors::KNOWN_MAX);
        assert_eq!(neighbors.reach(Time::from_nanos(5000), THERE), Resolution::Known([2; 6]));
    }

    #[test]
    fn pending_resolutions_are_bounded() {
        let mut neighbors = Neighbors::default();
        let id = |index| ConnId { index, generation: 0 };
        let parked = (0..20_000).filter(|index| neighbors.park(THERE, id(*index))).count();
        assert_eq!((parked, neighbors.unpark(THERE).len()), (Neighbors::WAITING_MAX, Neighbors::WAITING_MAX));
        assert!(neighbors.park(THERE, id(0)) && neighbors.park(THERE, id(1)), "there is room again");
        neighbors.forget(id(0));
        assert_eq!(neighbors.unpark(THERE), [id(1)]);
    }

    #[test]
    fn request_is_repeated_by_the_clock_and_fails_after_three() {
        let mut neighbors = Neighbors::default();
        assert_eq!(neighbors.reach(at(0), THERE), Resolution::Ask);
        assert_eq!(neighbors.deadline(), at(250));
        let mut poll = |ms| (neighbors.reach(at(ms), THERE), neighbors.poll(at(ms)), neighbors.poll(at(ms)));
        assert_eq!(poll(249), (Resolution::Wait, None, None));
        assert_eq!(poll(250), (Resolution::Wait, Some(Due::Ask(THERE)), None));
        assert_eq!(poll(1249), (Resolution::Wait, None, None));
        assert_eq!(poll(1250), (Resolution::Wait, Some(Due::Ask(THERE)), None));
        assert_eq!(poll(2250), (Resolution::Wait, Some(Due::Silent(THERE)), None));
        assert_eq!((neighbors.deadline(), neighbors.len()), (Time::MAX, 0));
    }

    #[test]
    fn stale_entry_is_used_while_it_is_probed_and_dropped_without_a_reply() {
        let mut neighbors = Neighbors::default();
        neighbors.learn(Time::ZERO, THERE, [2; 6], UnsolicitedPolicy::Welcome);
        assert_eq!(neighbors.reach(at(59_000), THERE), Resolution::Known([2; 6]));
        assert_eq!(neighbors.reach(at(61_000), THERE), Resolution::Refresh([2; 6]));
        assert_eq!(neighbors.reach(at(61_000), THERE), Resolution::Known([2; 6]));
        for ms in [61_250, 62_250, 63_250] {
            assert!(neighbors.poll(at(ms)).is_some());
        }
        assert_eq!(neighbors.reach(at(63_250), THERE), Resolution::Ask);
    }

    #[test]
    fn unsolicited_contradiction_is_not_accepted_but_triggers_a_probe() {
        let mut neighbors = Neighbors::default();
        neighbors.learn(Time::ZERO, THERE, [2; 6], UnsolicitedPolicy::Welcome);
        neighbors.learn(Time::ZERO, THERE, [4; 6], UnsolicitedPolicy::Welcome);
        assert_eq!(neighbors.reach(Time::ZERO, THERE), Resolution::Refresh([2; 6]));
        neighbors.learn(Time::ZERO, THERE, [4; 6], UnsolicitedPolicy::Ignored);
        assert_eq!(neighbors.reach(Time::ZERO, THERE), Resolution::Known([4; 6]));
        neighbors.learn(Time::ZERO, THERE, [5; 6], UnsolicitedPolicy::Ignored);
        assert!(neighbors.agrees(THERE, [4; 6]) && !neighbors.agrees(THERE, [5; 6]));
    }
}
