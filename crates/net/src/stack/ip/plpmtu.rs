//! PLPMTUD: search for the largest packet that a path carries, from below.
//!
//! One search per destination, shared by its connections. A connection sends a probe as ordinary
//! data and reports its outcome; ICMP errors and black holes are events of the same table. Does not
//! judge congestion: the connection decides whether a lost probe was only too large. A path without
//! problems uses the link's MTU and is not searched: its first large segments are the probe, as in
//! classical discovery. Sizes are those of whole IP packets.
//!
//! Source: RFC 8899 §5, for TCP RFC 4821 §7.

use queueing::{Span, Time};
use wire::ipv6::MTU_MIN;

/// Number of losses in a row after which a size counts as too large (MAX_PROBES).
pub(crate) const PROBES_MAX: u8 = 3;
/// Size that nearly every path carries (BASE_PLPMTU; RFC 8899 §5.1.2 has 1200, or the minimum MTU
/// for IPv6, which serves both).
pub(crate) const BASE: u16 = MTU_MIN;
/// Validity of a completed search (PMTU_RAISE_TIMER).
pub(crate) const RAISE_AFTER: Span = Span::from_secs(600);
/// Smallest gain worth a probe, in bytes.
pub(crate) const GRAIN: u16 = 4;
/// Time for one connection to send its probe and report the outcome before another one may probe.
const LEASE: Span = Span::from_secs(5);
/// Pause after a lost probe.
const PAUSE: Span = Span::from_millis(100);
/// Usual MTUs of links and tunnels: PPPoE, IPv6 in IPv4, GRE and similar, WireGuard, IPsec, and
/// data centres; of two at the same distance the larger comes first.
const USUAL: [u16; 14] = [9000, 8166, 4352, 2002, 1500, 1492, 1480, 1472, 1440, 1420, 1400, 1380, 1280, 1006];

/// States of RFC 8899 §5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No problem was reported: the link's MTU is used without a search.
    Disabled,
    /// Large packets were lost; BASE_PLPMTU is not confirmed yet.
    Base,
    /// A larger size may get through.
    Searching,
    /// No larger size gets through, as far as known.
    SearchComplete,
    /// Not even BASE_PLPMTU gets through.
    Error,
}

/// Event on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A validated ICMP error: a router forwards at most this many bytes (PTB).
    TooBig(u16),
    /// Black hole: packets were lost without an error; fall back to this size.
    BlackHole(u16),
    /// A packet of this size was acknowledged.
    Acked(u16),
    /// A packet of this size was lost, and no other.
    Lost(u16),
    /// A completed search is [`RAISE_AFTER`] old.
    Raise,
}

/// Next step of a connection for the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeProbe {
    /// Send a packet of `size` bytes before `until`.
    Probe { size: u16, until: Time },
    /// Ask again at this time.
    Wait(Time),
}

/// Search on one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plpmtud {
    state: State,
    /// PLPMTU.
    size: u16,
    /// Upper bound: a router reported it, or larger probes were lost.
    most: u16,
    /// True if `most` is a good guess, tried first.
    hinted: bool,
    /// PROBE_COUNT: losses in a row of this size.
    lost: (u16, u8),
    /// Earliest time of the next probe: end of the lease of a pending one, or of a pause; in a
    /// completed search, the time of the next search.
    next_at: Time,
}

impl Plpmtud {
    pub(crate) const fn new(mtu: u16) -> Self {
        let next_at = Time::ZERO;
        Self { state: State::Disabled, size: mtu, most: u16::MAX, hinted: false, lost: (0, 0), next_at }
    }

    #[cfg(test)]
    fn state(&self) -> State {
        self.state
    }

    /// PLPMTU: size of packets to send.
    #[inline]
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// True if the path was unused until its result became outdated.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        now >= self.next_at + RAISE_AFTER
    }

    /// Applies an event.
    pub(crate) fn on(&mut self, now: Time, event: Event) {
        use State::{Base, Disabled, Error, SearchComplete, Searching};
        let as_before = (self.state, self.next_at);
        (self.state, self.next_at) = match (self.state, event) {
            (_, Event::TooBig(mtu)) if mtu < self.size => {
                (self.size, self.most) = (mtu, mtu);
                (SearchComplete, now + RAISE_AFTER)
            }
            // A router rejected a probe and reported the size to try next.
            (Searching, Event::TooBig(mtu)) => {
                (self.most, self.hinted) = (self.most.min(mtu), true);
                (Searching, now)
            }
            (_, Event::TooBig(_)) => as_before,
            (_, Event::BlackHole(fallback)) if fallback >= self.size => as_before,
            (_, Event::BlackHole(fallback)) => {
                (self.size, self.most, self.hinted) = (fallback, u16::MAX, false);
                (if fallback < BASE { Error } else { Base }, now)
            }
            (Disabled, Event::Acked(_) | Event::Lost(_) | Event::Raise) => as_before,
            (_, Event::Acked(size)) if size < self.size => as_before,
            (_, Event::Acked(size)) => {
                (self.size, self.most) = (size, self.most.max(size));
                (Searching, now)
            }
            (Searching, Event::Lost(size)) => {
                let count = if self.lost.0 == size { self.lost.1 + 1 } else { 1 };
                self.lost = (size, count);
                if count >= PROBES_MAX {
                    (self.most, self.hinted) = (self.most.min(size - 1), false);
                }
                (Searching, now + PAUSE)
            }
            (Base | Error | SearchComplete, Event::Lost(_)) => as_before,
            (SearchComplete, Event::Raise) => {
                (self.most, self.hinted) = (u16::MAX, true);
                (Searching, now)
            }
            (Base | Error | Searching, Event::Raise) => as_before,
        };
    }

    /// Next step at `now` of a connection with packets of up to `max` bytes, which exceeds
    /// [`Plpmtud::size`].
    pub(crate) fn ask(&mut self, now: Time, max: u16) -> SizeProbe {
        if now < self.next_at {
            return SizeProbe::Wait(self.next_at);
        }
        if self.state == State::SearchComplete {
            self.on(now, Event::Raise);
        }
        let size = match self.state {
            // The current size is to be confirmed.
            State::Base | State::Error => Some(self.size),
            State::Searching => self.candidate(max),
            State::Disabled | State::SearchComplete => None,
        };
        if let Some(size) = size {
            self.next_at = now + LEASE;
            return SizeProbe::Probe { size, until: self.next_at };
        }
        (self.state, self.next_at) = (State::SearchComplete, now + RAISE_AFTER);
        SizeProbe::Wait(self.next_at)
    }

    /// Ends the lease of a probe without a conclusion.
    pub(crate) fn give_back(&mut self, now: Time) {
        if self.state != State::SearchComplete {
            self.next_at = self.next_at.min(now + PAUSE);
        }
    }

    /// The next size to try (RFC 8899 §5.3.2): the upper bound if a router reported it or the
    /// search was raised; else the usual size nearest to the middle of the open range; else that
    /// middle.
    fn candidate(&self, max: u16) -> Option<u16> {
        let most = self.most.min(max);
        let gain = most.saturating_sub(self.size);
        if self.hinted && gain > 0 {
            return Some(most);
        }
        if gain < GRAIN {
            return None;
        }
        let middle = self.size + gain.div_ceil(2);
        let open = USUAL.into_iter().filter(|size| *size > self.size && *size <= most);
        Some(open.min_by_key(|size| size.abs_diff(middle)).unwrap_or(middle))
    }
}

//~ ip: path MTU is probed from below, survives black holes, and is shared by connections to one peer (RFC 4821, 8899)
#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u16 = 1500;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Runs the search on a path that carries `mtu` bytes until it is complete; returns the sizes
    /// tried and the time of its end.
    fn run(search: &mut Plpmtud, from: Time, max: u16, mtu: u16) -> (Vec<u16>, Time) {
        let (mut now, mut tried) = (from, Vec::new());
        for _ in 0..200 {
            match search.ask(now, max) {
                SizeProbe::Probe { size, .. } => {
                    tried.push(size);
                    search.on(now, if size <= mtu { Event::Acked(size) } else { Event::Lost(size) });
                }
                SizeProbe::Wait(_) if search.state() == State::SearchComplete => return (tried, now),
                SizeProbe::Wait(until) => now = until,
            }
            if search.size() == max {
                return (tried, now);
            }
        }
        panic!("{max} {mtu}: the search does not end: {tried:?}");
    }

    fn after_black_hole(mtu: u16) -> Plpmtud {
        let mut search = Plpmtud::new(mtu);
        search.on(at(0), Event::BlackHole(BASE));
        search
    }

    #[test]
    fn search_finds_the_path_mtu_in_few_probes() {
        for max in [1500, 9000] {
            for mtu in (BASE..=max).step_by(7) {
                let mut search = after_black_hole(max);
                let (tried, _) = run(&mut search, at(0), max, mtu);
                let found = search.size();
                assert!(found <= mtu && mtu - found < GRAIN, "{mtu} of {max}: {found} by {tried:?}");
                assert!(tried.len() <= if max == 1500 { 22 } else { 42 }, "{mtu} of {max}: {tried:?}");
            }
        }
    }

    #[test]
    fn usual_sizes_are_probed_first_and_three_losses_exclude_one() {
        let mut search = after_black_hole(MAX);
        let (tried, _) = run(&mut search, at(0), MAX, 1420);
        assert_eq!(tried[..6], [1280, 1400, 1440, 1440, 1440, 1420]);
        assert_eq!(search.size(), 1420);
    }

    #[test]
    fn every_state_handles_every_event() {
        use State::{Base, Disabled, Error, SearchComplete, Searching};
        let black_hole = [Event::BlackHole(BASE)];
        let ways: [(&[Event], State); 5] = [
            (&[], Disabled),
            (&black_hole, Base),
            (&[Event::BlackHole(BASE), Event::Acked(BASE)], Searching),
            (&[Event::TooBig(1400)], SearchComplete),
            (&[Event::BlackHole(BASE), Event::BlackHole(552)], Error),
        ];
        let events = [
            Event::TooBig(1300),
            Event::TooBig(1450),
            Event::BlackHole(BASE),
            Event::BlackHole(552),
            Event::Acked(1450),
            Event::Lost(1450),
            Event::Raise,
        ];
        // Rows by state, columns by event.
        let expected = [
            [SearchComplete, SearchComplete, Base, Error, Disabled, Disabled, Disabled],
            [Base, Base, Base, Error, Searching, Base, Base],
            [Searching, Searching, Searching, Error, Searching, Searching, Searching],
            [SearchComplete, SearchComplete, Base, Error, Searching, SearchComplete, Searching],
            [Error, Error, Error, Error, Searching, Error, Error],
        ];
        for ((way, state), row) in ways.into_iter().zip(expected) {
            for (event, next) in events.into_iter().zip(row) {
                let mut search = Plpmtud::new(MAX);
                way.iter().for_each(|event| search.on(at(0), *event));
                assert_eq!(search.state(), state);
                search.on(at(1), event);
                assert_eq!(search.state(), next, "{state:?}, {event:?}");
            }
        }
    }

    #[test]
    fn the_mtu_that_a_router_reports_is_probed_next() {
        let mut search = after_black_hole(MAX);
        search.on(at(0), Event::Acked(BASE));
        assert!(matches!(search.ask(at(0), MAX), SizeProbe::Probe { size: 1400, .. }));
        search.on(at(1), Event::TooBig(1333));
        assert!(matches!(search.ask(at(1), MAX), SizeProbe::Probe { size: 1333, .. }));
        search.on(at(2), Event::Acked(1333));
        assert_eq!(search.ask(at(2), MAX), SizeProbe::Wait(at(2) + RAISE_AFTER));
    }

    #[test]
    fn a_finished_search_restarts_with_the_link_mtu() {
        let mut search = Plpmtud::new(MAX);
        search.on(at(0), Event::TooBig(1400));
        assert_eq!(search.ask(at(1), MAX), SizeProbe::Wait(at(600_000)));
        let (tried, _) = run(&mut search, at(600_000), MAX, MAX);
        assert_eq!((tried, search.size()), (vec![MAX], MAX));
    }

    #[test]
    fn one_probe_is_in_flight_until_its_lease_ends() {
        let mut search = after_black_hole(MAX);
        assert_eq!(search.ask(at(0), MAX), SizeProbe::Probe { size: BASE, until: at(0) + LEASE });
        assert_eq!(search.ask(at(1), MAX), SizeProbe::Wait(at(0) + LEASE));
        assert!(matches!(search.ask(at(0) + LEASE, MAX), SizeProbe::Probe { .. }));
        search.give_back(at(6000));
        assert_eq!(search.ask(at(6000), MAX), SizeProbe::Wait(at(6000) + PAUSE));
    }
}
