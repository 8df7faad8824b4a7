//! Handshakes: how many of the admitted SYNs become connections.
//!
//! A policy limits connections, and a driver admits SYNs. In a SYN flood from false addresses few SYNs
//! become connections. If each SYN counted as one, the flood would use up the limit, and clients would be
//! shed although the server has time for them. [`Handshakes`] converts counts and limits from SYNs to
//! connections and back: a SYN counts as much as the recent share of admitted SYNs that were
//! completed. Without a flood that share is one, and nothing changes.
//!
//! A handshake takes a round trip, so a crowd that has just come has completed few. SYNs above the rate of
//! the last [`CROWD_S`] count as connections.
//!
//! Decision: `docs/adr/0093-syns-count-by-completed-handshakes.md`.

use queueing::Span;

use crate::{Limit, Signals};

/// Recent share of admitted SYNs whose handshake was completed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshakes {
    /// Decaying counts, and the time that they cover.
    admitted: f64,
    completed: f64,
    seconds: f64,
    /// SYNs per second: of the last moments, and of the last [`CROWD_S`].
    offered_now_per_s: f64,
    offered_per_s: f64,
    /// Shed connections below one, not yet in the signals.
    shed_rest: f64,
}

/// Ends of handshakes since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandshakeEnds {
    /// Handshakes completed.
    pub completed: u64,
    /// Admitted SYNs dropped at a full accept queue, which do not tell whether their handshake would have
    /// been completed.
    pub dropped: u64,
}

impl HandshakeEnds {
    /// Completed handshakes only.
    #[must_use]
    pub const fn completed(completed: u64) -> Self {
        Self { completed, dropped: 0 }
    }

    /// Counts of these totals since the totals `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            completed: self.completed.saturating_sub(before.completed),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

impl Handshakes {
    /// Converts `signals` with SYNs in `offered` and `admitted` to signals with connections, given `ends`
    /// of handshakes in the `interval` since the last call.
    #[must_use]
    pub fn signals(&mut self, interval: Span, ends: HandshakeEnds, signals: Signals) -> Signals {
        let HandshakeEnds { completed, dropped } = ends;
        let interval_s = interval.as_secs_f64();
        let per_s = signals.offered as f64 / interval_s.max(f64::MIN_POSITIVE);
        for (mean, memory_s) in [(&mut self.offered_now_per_s, NOW_S), (&mut self.offered_per_s, CROWD_S)] {
            let keep = (-interval_s / memory_s).exp();
            *mean = keep * *mean + if interval_s > 0.0 { (1.0 - keep) * per_s } else { 0.0 };
        }
        let answered = signals.admitted.saturating_sub(dropped);
        self.record(interval_s, answered as f64, completed as f64);
        let shed = self.shed_rest + signals.offered.saturating_sub(signals.admitted) as f64 * self.share();
        self.shed_rest = shed.fract();
        let admitted = completed.saturating_add(dropped);
        Signals { offered: admitted.saturating_add(shed as u64), admitted, ..signals }
    }

    /// Converts a limit on connections to one on SYNs.
    #[must_use]
    pub fn limit(&self, limit: Limit) -> Limit {
        match limit {
            Limit::Rate { per_s, burst } => {
                let share = self.share();
                Limit::Rate { per_s: per_s / share, burst: burst / share }
            }
            Limit::Open | Limit::Concurrency { .. } | Limit::Closed => limit,
        }
    }

    /// Recent share of admitted SYNs whose handshake was completed, above 0 and at most 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let completed = ((self.completed + 1.0) / (self.admitted + 1.0)).min(1.0);
        let known = (self.offered_per_s / self.offered_now_per_s.max(f64::MIN_POSITIVE)).min(1.0);
        1.0 - known * (1.0 - completed)
    }

    fn record(&mut self, interval_s: f64, admitted: f64, completed: f64) {
        let per_s = self.completed / self.seconds.max(f64::MIN_POSITIVE);
        let memory_s = (MEMORY_COMPLETED / per_s).clamp(MEMORY_S, MEMORY_MAX_S);
        let keep = (-interval_s / memory_s).exp();
        self.admitted = self.admitted * keep + admitted;
        self.completed = self.completed * keep + completed;
        self.seconds = self.seconds * keep + interval_s;
    }
}

/// Time constant of the share: this many completed handshakes, within these bounds. A shorter one would
/// follow chance, a longer one would admit too many connections after a flood.
const MEMORY_COMPLETED: f64 = 32.0;
const MEMORY_S: f64 = 0.2;
const MEMORY_MAX_S: f64 = 5.0;
/// Time within which most handshakes are completed, and the last moments.
const CROWD_S: f64 = 0.3;
const NOW_S: f64 = 0.05;

//~ guard: a SYN counts as much as the share of admitted SYNs whose handshake is completed
#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    const TICK: Span = Span::from_millis(10);

    /// Signals of a tick with `offered` SYNs, of which `admitted` were admitted.
    fn syns(offered: u64, admitted: u64) -> Signals {
        Signals { offered, admitted, ..Signals::default() }
    }

    proptest! {
        #[test]
        fn without_a_flood_nothing_changes(
            ticks in proptest::collection::vec((0..50_u64, 0..50_u64, 0..50_u64), 1..200),
        ) {
            let mut handshakes = Handshakes::default();
            for (completed, dropped, shed) in ticks {
                let signals = syns(completed + dropped + shed, completed + dropped);
                assert_eq!(handshakes.signals(TICK, HandshakeEnds { completed, dropped }, signals), signals);
                let limit = Limit::Rate { per_s: 200.0, burst: 8.0 };
                assert_eq!(handshakes.limit(limit), limit);
            }
        }

        #[test]
        fn a_flood_uses_up_no_limit(
            real in 1..40_u64, flood in 1..4_000_u64, admitted_share in 0.05..1.0_f64, seed in 0..1_000_u64,
        ) {
            let (mut handshakes, mut rng) = (Handshakes::default(), queueing::Rng::seeded(seed));
            let mut admit = |syns| (0..syns).filter(|_| rng.chance(admitted_share)).count() as u64;
            let (mut offered, mut completed_of_all) = (0, 0);
            for tick in 0..800 {
                let (completed, admitted_flood) = (admit(real), admit(flood));
                let signals = syns(real + flood, completed + admitted_flood);
                let seen = handshakes.signals(TICK, HandshakeEnds::completed(completed), signals);
                if tick >= 400 {
                    offered += seen.offered;
                    completed_of_all += completed;
                    assert_eq!(seen.admitted, completed);
                }
            }
            let share = 400.0 * real as f64 / offered as f64;
            prop_assert!((0.75..1.25).contains(&share), "offered {offered}, real {}", 400 * real);
            let Limit::Rate { per_s, .. } = handshakes.limit(Limit::Rate { per_s: 100.0, burst: 4.0 }) else {
                panic!("a rate stays a rate");
            };
            // As many SYNs as contain about 100 connections.
            let connections = per_s * real as f64 / (real + flood) as f64;
            prop_assert!((40.0..250.0).contains(&connections), "{connections}, completed {completed_of_all}");
        }
    }

    //~ guard: SYNs of a crowd count as connections while their handshakes may take a round trip of up to 0.1 s
    #[test]
    fn a_crowd_that_has_just_come_is_no_flood() {
        for (before, crowd) in [(0, 10), (2, 20), (1, 100), (10, 1_000)] {
            let mut handshakes = Handshakes::default();
            for _ in 0..100 {
                let _ = handshakes.signals(TICK, HandshakeEnds::completed(before), syns(before, before));
            }
            for tick in 0..100 {
                // A round trip of ten ticks.
                let completed = if tick < 10 { before } else { crowd };
                let _ = handshakes.signals(TICK, HandshakeEnds::completed(completed), syns(crowd, crowd));
                assert!(
                    handshakes.share() > 0.6,
                    "{crowd} after {before}, tick {tick}: {}",
                    handshakes.share()
                );
            }
        }
    }

    #[test]
    fn after_a_flood_a_syn_soon_counts_as_a_connection_again() {
        let mut handshakes = Handshakes::default();
        for _ in 0..500 {
            let _ = handshakes.signals(TICK, HandshakeEnds::completed(2), syns(200, 200));
        }
        assert!(handshakes.share() < 0.02);
        let ticks = (0..200).take_while(|_| {
            let _ = handshakes.signals(TICK, HandshakeEnds::completed(4), syns(4, 4));
            handshakes.share() < 0.5
        });
        assert!(ticks.count() < 100);
    }

    #[test]
    fn other_limits_do_not_depend_on_syns() {
        let mut handshakes = Handshakes::default();
        let _ = handshakes.signals(TICK, HandshakeEnds::default(), syns(1_000, 1_000));
        for limit in [Limit::Open, Limit::Closed, Limit::Concurrency { max: 9 }] {
            assert_eq!(handshakes.limit(limit), limit);
        }
    }
}
