//! Fault model: outcome of the next frame, by rates and seed.

use queueing::{Rng, Span, Time};

use super::Rates;

/// Fault model of one direction of a path, for devices and simulated links.
///
/// Each kind of fault draws once per frame from its own random stream, so that paths with the same
/// seed are comparable: frames lost at 0.1 % are also lost at 1 %, and reordering does not change
/// losses.
#[derive(Clone, Debug)]
pub struct FaultModel {
    rates: Rates,
    loss: Rng,
    burst: Rng,
    duplicate: Rng,
    corrupt: Rng,
    reorder: Rng,
    delay: Rng,
    in_burst: bool,
    /// Earliest arrival of a frame that is not reordered.
    in_order_at: Time,
    counters: Counters,
}

/// Outcome of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FaultAction {
    /// The frame is lost.
    Lost,
    /// The frame arrives.
    Arrives {
        /// Time of arrival.
        at: Time,
        /// Flipped bit, counted from the frame's first.
        flipped: Option<usize>,
        /// Time of arrival of a duplicate.
        again: Option<Time>,
    },
}

/// Counts of outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames for which an outcome was drawn.
    pub frames: u64,
    /// Frames lost, in bursts or alone.
    pub lost: u64,
    /// Frames duplicated.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames reordered.
    pub reordered: u64,
    /// Delayed frames dropped because too many were held.
    pub overflowed: u64,
}

impl FaultModel {
    /// A path with these rates; the same `rng` gives the same outcomes.
    #[must_use]
    pub fn new(rates: Rates, rng: &Rng) -> Self {
        Self {
            rates,
            loss: rng.fork(1),
            burst: rng.fork(2),
            duplicate: rng.fork(3),
            corrupt: rng.fork(4),
            reorder: rng.fork(5),
            delay: rng.fork(6),
            in_burst: false,
            in_order_at: Time::ZERO,
            counters: Counters::default(),
        }
    }

    /// Outcome of a frame of `len` bytes that enters the path at `now`.
    pub fn decide(&mut self, now: Time, len: usize) -> FaultAction {
        self.counters.frames += 1;
        let lost = chance(&mut self.loss, self.rates.loss);
        let (within, flipped, twice) = (self.in_burst(), self.flip(len), self.is_doubled());
        let at = self.arrival(now);
        if lost || within {
            self.counters.lost += 1;
            return FaultAction::Lost;
        }
        self.counters.corrupted += u64::from(flipped.is_some());
        self.counters.duplicated += u64::from(twice);
        FaultAction::Arrives { at, flipped, again: twice.then_some(at) }
    }

    /// Counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub(super) fn on_overflow(&mut self) {
        self.counters.overflowed += 1;
    }

    fn in_burst(&mut self) -> bool {
        let Some(burst) = self.rates.burst else { return false };
        self.in_burst |= chance(&mut self.burst, burst.begin);
        let within = self.in_burst;
        self.in_burst &= !(within && chance(&mut self.burst, burst.end));
        within
    }

    fn flip(&mut self, len: usize) -> Option<usize> {
        (len > 0 && chance(&mut self.corrupt, self.rates.corrupt))
            .then(|| self.corrupt.below(len as u64 * 8) as usize)
    }

    fn is_doubled(&mut self) -> bool {
        chance(&mut self.duplicate, self.rates.duplicate)
    }

    fn arrival(&mut self, now: Time) -> Time {
        let (least, most) = self.rates.delay;
        let spread = if least < most { between(&mut self.delay, most - least) } else { Span::ZERO };
        let at = (now + least + spread).max(self.in_order_at);
        self.in_order_at = at;
        if !chance(&mut self.reorder, self.rates.reorder) {
            return at;
        }
        self.counters.reordered += 1;
        at + between(&mut self.reorder, self.rates.late)
    }
}

/// A span in 0..=`most`.
fn between(rng: &mut Rng, most: Span) -> Span {
    Span::from_nanos(rng.below(most.as_nanos().saturating_add(1)))
}

/// True with probability `p`; draws nothing for 0.
fn chance(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.chance(p)
}

#[cfg(test)]
mod tests {
    use super::super::BurstLoss;
    use super::*;

    const FRAMES: usize = 100_000;

    fn actions(rates: Rates, seed: u64) -> Vec<FaultAction> {
        let mut faults = FaultModel::new(rates, &Rng::seeded(seed));
        (0..FRAMES as u64).map(|n| faults.decide(Time::from_nanos(n * 1000), 100)).collect()
    }

    fn lost(actions: &[FaultAction]) -> Vec<bool> {
        actions.iter().map(|action| *action == FaultAction::Lost).collect()
    }

    #[test]
    fn a_path_without_faults_changes_nothing() {
        for (n, action) in actions(Rates::NONE, 1).into_iter().enumerate() {
            let at = Time::from_nanos(n as u64 * 1000);
            assert_eq!(action, FaultAction::Arrives { at, flipped: None, again: None });
        }
    }

    #[test]
    fn faults_occur_at_the_configured_rates() {
        let rates = Rates { loss: 0.05, duplicate: 0.02, corrupt: 0.01, reorder: 0.1, ..Rates::NONE };
        let mut faults = FaultModel::new(rates, &Rng::seeded(7));
        for n in 0..FRAMES as u64 {
            let _ = faults.decide(Time::from_nanos(n), 100);
        }
        let Counters { frames, lost, duplicated, corrupted, reordered, overflowed } = faults.counters();
        assert_eq!((frames, overflowed), (FRAMES as u64, 0));
        for (count, expected) in
            [(lost, 5000.0), (duplicated, 1900.0), (corrupted, 950.0), (reordered, 10_000.0)]
        {
            // Five standard deviations.
            assert!((count as f64 - expected).abs() < 5.0 * f64::sqrt(expected), "{count}, not {expected}");
        }
    }

    #[test]
    fn one_seed_loses_more_of_the_same_at_higher_rates() {
        let at = |loss, reorder| lost(&actions(Rates { loss, reorder, ..Rates::NONE }, 3));
        let (few, many) = (at(0.001, 0.0), at(0.01, 0.0));
        assert!(few.iter().zip(&many).all(|(few, many)| !few || *many));
        assert_eq!(many, at(0.01, 0.3), "reordering is another source");
        assert_ne!(many, lost(&actions(Rates { loss: 0.01, ..Rates::NONE }, 4)));
    }

    #[test]
    fn bursts_have_the_configured_length_and_rate() {
        let burst = Some(BurstLoss { begin: 0.002, end: 0.2 });
        let lost = lost(&actions(Rates { burst, ..Rates::NONE }, 5));
        let bursts = lost.windows(2).filter(|pair| pair[1] && !pair[0]).count();
        let length = lost.iter().filter(|lost| **lost).count() as f64 / bursts as f64;
        assert!((4.0..6.0).contains(&length), "mean burst of {length} frames, not 1 / 20 %");
        assert!((150..250).contains(&bursts), "{bursts} bursts, not 0.2 % of {FRAMES}");
    }

    #[test]
    fn varying_delay_keeps_the_order_and_reordering_breaks_it() {
        let arrivals = |rates| -> Vec<Time> {
            let at = |action| if let FaultAction::Arrives { at, .. } = action { Some(at) } else { None };
            actions(rates, 6).into_iter().filter_map(at).collect()
        };
        let delay = (Span::from_micros(10), Span::from_micros(20));
        let jittery = arrivals(Rates { delay, ..Rates::NONE });
        assert!(jittery.is_sorted());
        for (n, at) in jittery.iter().enumerate() {
            let duration = at.since(Time::from_nanos(n as u64 * 1000));
            assert!(delay.0 <= duration && duration <= delay.1, "{duration}");
        }
        let late = Span::from_micros(50);
        let mixed = arrivals(Rates { reorder: 0.1, late, ..Rates::NONE });
        let overtaken = mixed.windows(2).filter(|pair| pair[1] < pair[0]).count();
        // One of ten is delayed, 49 of 50 of these beyond the next frame.
        assert!((8000..11_000).contains(&overtaken), "{overtaken}");
        for (n, at) in mixed.iter().enumerate() {
            assert!(at.since(Time::from_nanos(n as u64 * 1000)) <= late);
        }
    }
}
