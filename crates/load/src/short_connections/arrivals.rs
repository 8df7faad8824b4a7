//! Arrival process of short connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use queueing::{Rng, Span, Time};

use super::outcome::Slice;

/// Arrival process.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// Open loop: Poisson arrivals, independent of the server.
    Open {
        /// Requests per second outside of bursts.
        rate_per_s: f64,
        /// Periodic bursts.
        burst: Option<LoadBurst>,
    },
    /// Closed loop: each client sends again some time after its last request.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Mean time from the end of a request to the client's next (exponential).
        think: Span,
    },
}

/// Periodic burst of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBurst {
    /// Factor of the normal rate.
    pub times: f64,
    /// Duration of a burst.
    pub length: Span,
    /// Time between starts of bursts; the first starts after a quarter of it.
    pub period: Span,
}

impl LoadBurst {
    /// Mean recovery time: from the end of a burst until nine of ten requests succeed in every
    /// slice up to the next burst. `slices` of length `slice` begin `warmup` after the start.
    /// `None` if no burst ends in them.
    #[must_use]
    pub fn recovery(&self, warmup: Span, slice: Span, slices: &[Slice]) -> Option<Span> {
        let mut times: Vec<Span> = Vec::new();
        let mut was = None;
        for (n, piece) in (0..).zip(slices) {
            let from = warmup + slice * n;
            let (in_burst, until) = self.at(from);
            if !in_burst && was == Some(true) {
                times.push(Span::ZERO);
            }
            was = Some(in_burst);
            if let Some(time) = times.last_mut().filter(|_| !in_burst && piece.good * 10 < piece.due * 9) {
                // From the end of the last burst to the end of this slice.
                let next = until.saturating_sub(from);
                *time = (self.period.saturating_sub(self.length) + slice).saturating_sub(next);
            }
        }
        let sum: Span = times.iter().copied().sum();
        (!times.is_empty()).then(|| sum / times.len() as u64)
    }

    /// True if a burst is on at `since` the start; and the time of the next change.
    fn at(&self, since: Span) -> (bool, Span) {
        let (period, lead) = (self.period.as_nanos(), self.period.as_nanos() / 4);
        let (round, within) = (since.as_nanos() / period, since.as_nanos() % period);
        let end = lead + self.length.as_nanos();
        let (in_burst, until) = match within {
            _ if within < lead => (false, lead),
            _ if within < end => (true, end),
            _ => (false, period + lead),
        };
        (in_burst, Span::from_nanos(round * period + until))
    }
}

/// Iterator over due times.
pub(super) struct ScheduledArrivals {
    pace: ArrivalModel,
    rng: Rng,
    start: Time,
    /// Open loop: time since the start, in ns.
    offset_ns: f64,
    next: Option<Time>,
    /// Closed loop: due times of waiting clients.
    waiting: BinaryHeap<Reverse<Time>>,
}

impl ScheduledArrivals {
    pub(super) fn new(pace: ArrivalModel, seed: u64) -> Self {
        let (rng, waiting) = (Rng::seeded(seed), BinaryHeap::new());
        Self { pace, rng, start: Time::ZERO, offset_ns: 0.0, next: None, waiting }
    }

    /// Starts the process at `now`.
    pub(super) fn start(&mut self, now: Time) {
        self.start = now;
        match self.pace {
            ArrivalModel::Open { .. } => self.advance(),
            ArrivalModel::Closed { clients, .. } => (0..clients).for_each(|_| self.on_settled(now)),
        }
    }

    /// Due time of the next request that is due at `now`.
    pub(super) fn next(&mut self, now: Time) -> Option<Time> {
        match self.pace {
            ArrivalModel::Open { .. } => {
                let due = self.next.filter(|due| *due <= now)?;
                self.advance();
                Some(due)
            }
            ArrivalModel::Closed { .. } => {
                self.waiting.peek().filter(|due| due.0 <= now)?;
                self.waiting.pop().map(|due| due.0)
            }
        }
    }

    /// Records that a request was settled.
    pub(super) fn on_settled(&mut self, now: Time) {
        if let ArrivalModel::Closed { think, .. } = self.pace {
            let think_ns = self.rng.exponential() * think.as_nanos() as f64;
            self.waiting.push(Reverse(now + Span::from_nanos(think_ns as u64)));
        }
    }

    /// True if `due` is in a burst.
    pub(super) fn is_burst(&self, due: Time) -> bool {
        match self.pace {
            ArrivalModel::Open { burst: Some(burst), .. } => burst.at(due.since(self.start)).0,
            _ => false,
        }
    }

    /// Draws the next arrival. If the rate changes before it, draws again from the change: the
    /// exponential distribution is memoryless.
    fn advance(&mut self) {
        let ArrivalModel::Open { rate_per_s, burst } = self.pace else { return };
        if rate_per_s <= 0.0 {
            self.next = None;
            return;
        }
        loop {
            let since = Span::from_nanos(self.offset_ns as u64);
            let (in_burst, until) = burst.map_or((false, Span::MAX), |burst| burst.at(since));
            let rate = rate_per_s * burst.filter(|_| in_burst).map_or(1.0, |burst| burst.times);
            let at = self.offset_ns + self.rng.exponential() / rate * 1e9;
            if at < until.as_nanos() as f64 {
                self.offset_ns = at;
                break;
            }
            self.offset_ns = until.as_nanos() as f64;
        }
        self.next = Some(self.start + Span::from_nanos(self.offset_ns as u64));
    }
}

//~ guard: every visit to a real server ends in one of seven counted results
#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(pace: ArrivalModel, until: Span) -> Vec<Time> {
        let mut arrivals = ScheduledArrivals::new(pace, 7);
        arrivals.start(Time::ZERO);
        std::iter::from_fn(|| arrivals.next(Time::ZERO + until))
            .take_while(|due| due.since(Time::ZERO) < until)
            .collect()
    }

    #[test]
    fn a_burst_multiplies_the_arrival_rate() {
        let burst = LoadBurst { times: 9.0, length: Span::from_millis(500), period: Span::from_secs(2) };
        let all =
            arrivals(ArrivalModel::Open { rate_per_s: 1000.0, burst: Some(burst) }, Span::from_secs(20));
        let within = all.iter().filter(|due| burst.at(due.since(Time::ZERO)).0).count() as f64;
        let beside = all.len() as f64 - within;
        // 10 bursts of half a second; sixteen standard deviations would be 3 %.
        assert!((within / 45_000.0 - 1.0).abs() < 0.03, "{within}");
        assert!((beside / 15_000.0 - 1.0).abs() < 0.05, "{beside}");
        assert!(all.is_sorted());
    }

    #[test]
    fn a_burst_starts_a_quarter_period_after_the_start() {
        let ms = Span::from_millis;
        let burst = LoadBurst { times: 2.0, length: ms(100), period: ms(400) };
        let at = |since| burst.at(ms(since));
        assert_eq!((at(0), at(99)), ((false, ms(100)), (false, ms(100))));
        assert_eq!((at(100), at(199)), ((true, ms(200)), (true, ms(200))));
        assert_eq!((at(200), at(450)), ((false, ms(500)), (false, ms(500))));
        assert_eq!(at(500), (true, ms(600)));
    }

    #[test]
    fn recovery_lasts_from_the_bursts_end_to_the_last_bad_slices_end() {
        let ms = Span::from_millis;
        let burst = LoadBurst { times: 9.0, length: ms(100), period: ms(400) };
        let (good, bad) = (Slice { due: 10, good: 9, answers: 0 }, Slice { due: 10, good: 8, answers: 0 });
        // Bursts are 100..200 and 500..600; slices begin at 100.
        let slices = [bad, bad, bad, good, bad, good, good, good, bad, bad, good, good];
        assert_eq!(burst.recovery(ms(100), ms(50), &slices), Some(ms(75)), "150 and 0");
        assert_eq!(burst.recovery(ms(100), ms(50), &slices[..2]), None);
    }

    #[test]
    fn a_closed_loop_client_reconnects_only_after_its_request_ends() {
        let mut arrivals = ScheduledArrivals::new(ArrivalModel::Closed { clients: 3, think: Span::ZERO }, 1);
        arrivals.start(Time::ZERO);
        let now = Time::ZERO + Span::from_secs(1);
        assert_eq!(std::iter::from_fn(|| arrivals.next(now)).count(), 3);
        arrivals.on_settled(now);
        assert_eq!((arrivals.next(now), arrivals.next(now)), (Some(now), None));
    }
}
