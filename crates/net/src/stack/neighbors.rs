//! Hardware addresses of hosts on the link (ARP cache).
//!
//! What waits for an answer is a connection, not a packet: once the answer is
//! here, the connection is asked again for what it would send. So nothing is
//! queued that could grow old, and a question costs no buffer.
//! Source: RFC 826, RFC 1122 §2.3.2.

use std::collections::BTreeMap;
use std::net::IpAddr;

use queueing::{Span, Time};

use crate::wire::ethernet::Mac;

/// What is known of one neighbour.
#[derive(Clone, Copy, Debug)]
struct Neighbor {
    mac: Option<Mac>,
    confirmed: Time,
    /// Someone says otherwise, or nothing comes back: to be asked soon.
    doubted: bool,
    asked: Option<Time>,
}

/// What to do to reach a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Send to this address.
    Known(Mac),
    /// Send to this address, and ask whether it is still right.
    Refresh(Mac),
    /// Ask who it is, and wait.
    Ask,
    /// Wait: the question is out.
    Wait,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    known: BTreeMap<IpAddr, Neighbor>,
    /// The last answer, for the many who talk to one gateway or one peer.
    last: Option<(IpAddr, Mac, Time)>,
    /// Connections (by slot) that wait for an answer, and for whose.
    waiting: Vec<(IpAddr, u32)>,
}

impl Neighbors {
    /// Most neighbours kept; the one confirmed longest ago makes room.
    pub(crate) const KNOWN_MAX: usize = 1024;
    /// Most connections that wait; others try again when their timer fires.
    const WAITING_MAX: usize = 16_384;
    const ASK_INTERVAL: Span = Span::from_millis(500);
    const FRESH: Span = Span::from_secs(60);

    #[inline]
    pub(crate) fn reach(&mut self, now: Time, addr: IpAddr) -> Reach {
        if let Some((last, mac, until)) = self.last
            && last == addr
            && now < until
        {
            return Reach::Known(mac);
        }
        if !self.known.contains_key(&addr) {
            self.make_room();
        }
        let neighbor = self.known.entry(addr).or_insert(Neighbor {
            mac: None,
            confirmed: now,
            doubted: false,
            asked: None,
        });
        let may_ask = neighbor.asked.is_none_or(|asked| now.since(asked) >= Self::ASK_INTERVAL);
        let stale = neighbor.doubted || now.since(neighbor.confirmed) >= Self::FRESH;
        match neighbor.mac {
            Some(mac) if !stale => {
                self.last = Some((addr, mac, neighbor.confirmed + Self::FRESH));
                Reach::Known(mac)
            }
            Some(mac) if !may_ask => Reach::Known(mac),
            None if !may_ask => Reach::Wait,
            mac => {
                neighbor.asked = Some(now);
                mac.map_or(Reach::Ask, Reach::Refresh)
            }
        }
    }

    fn make_room(&mut self) {
        if self.known.len() >= Self::KNOWN_MAX
            && let Some((&oldest, _)) = self.known.iter().min_by_key(|(_, n)| (n.mac.is_some(), n.confirmed))
        {
            self.known.remove(&oldest);
        }
    }

    /// Asks for `addr` again when it is next sent to: what is known may be wrong.
    pub(crate) fn doubt(&mut self, addr: IpAddr) {
        if let Some(neighbor) = self.known.get_mut(&addr) {
            neighbor.doubted = true;
            self.last = None;
        }
    }

    /// Takes note that `addr` has `mac`. Strangers are remembered only if
    /// `may_add`; who contradicts what is known without having been asked is
    /// not believed, but makes us ask.
    pub(crate) fn learn(&mut self, now: Time, addr: IpAddr, mac: Mac, may_add: bool) {
        let unicast = mac[0] & 1 == 0 && mac != [0; 6];
        if !unicast || !(may_add || self.known.contains_key(&addr)) {
            return;
        }
        match self.known.get(&addr) {
            Some(known) if known.asked.is_none() && known.mac.is_some_and(|other| other != mac) => {
                self.doubt(addr);
                return;
            }
            Some(_) => {}
            None => self.make_room(),
        }
        self.known.insert(addr, Neighbor { mac: Some(mac), confirmed: now, doubted: false, asked: None });
        self.last = None;
    }

    /// Lets the connection in slot `index` wait for `addr`; `false` when too many do.
    pub(crate) fn park(&mut self, addr: IpAddr, index: u32) -> bool {
        let room = self.waiting.len() < Self::WAITING_MAX;
        if room {
            self.waiting.push((addr, index));
        }
        room
    }

    /// Who waited for `addr`.
    pub(crate) fn unpark(&mut self, addr: IpAddr) -> Vec<u32> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let (ready, waiting) = self.waiting.drain(..).partition(|(a, _)| *a == addr);
        self.waiting = waiting;
        let ready: Vec<(IpAddr, u32)> = ready;
        ready.into_iter().map(|(_, index)| index).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_bounded_and_keeps_the_answered() {
        let mut neighbors = Neighbors::default();
        let here = IpAddr::from([10, 0, 0, 1]);
        neighbors.learn(Time::ZERO, here, [2; 6], true);
        for i in 0..5000 {
            let _ =
                neighbors.reach(Time::from_nanos(i), IpAddr::from((0x0b00_0000 + i as u32).to_be_bytes()));
        }
        assert_eq!(neighbors.len(), Neighbors::KNOWN_MAX);
        assert_eq!(neighbors.reach(Time::from_nanos(5000), here), Reach::Known([2; 6]));
    }

    #[test]
    fn question_is_repeated_only_after_a_while() {
        let mut neighbors = Neighbors::default();
        let there = IpAddr::from([10, 0, 0, 2]);
        let mut at = |ms| neighbors.reach(Time::ZERO + Span::from_millis(ms), there);
        assert_eq!((at(0), at(499), at(500)), (Reach::Ask, Reach::Wait, Reach::Ask));
    }

    #[test]
    fn old_answer_is_used_while_it_is_checked() {
        let mut neighbors = Neighbors::default();
        let there = IpAddr::from([10, 0, 0, 2]);
        neighbors.learn(Time::ZERO, there, [2; 6], true);
        let mut at = |s| neighbors.reach(Time::ZERO + Span::from_secs(s), there);
        assert_eq!(
            (at(59), at(61), at(61)),
            (Reach::Known([2; 6]), Reach::Refresh([2; 6]), Reach::Known([2; 6]))
        );
    }
}
