//! Long-poll detector: decides that the poll of a task's future is long, and when to check again.
//!
//! The watching thread checks about once per quantum after recent long polls, and less often after
//! a while without any, up to [`PERIOD_MAX`] quanta apart, because a check costs a wake-up. A poll
//! is thus called long after one quantum at the earliest and after [`PERIOD_MAX`] more at the
//! latest. No clock, no thread.
//! Source: the idea of sysmon in Go's scheduler (`runtime/proc.go`).

use queueing::{Span, Time};

/// Detector for one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongPollDetector {
    quantum: Span,
    /// Checks since the last long poll.
    checks_since_long_poll: u32,
}

/// Verdict on a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollVerdict {
    /// The poll is long: another thread takes over the shard.
    HandOver,
    /// Not long; check again after this span.
    Again(Span),
}

/// Maximum quanta between two checks.
pub(crate) const PERIOD_MAX: u64 = 4;
/// Number of checks without a long poll after which the period doubles.
const CHECKS_PER_DOUBLING: u32 = 64;

impl LongPollDetector {
    pub const fn new(quantum: Span) -> Self {
        Self { quantum, checks_since_long_poll: 0 }
    }

    /// Verdict at `now` on the poll that began at `poll_start`, if there is one.
    pub fn check(&mut self, now: Time, poll_start: Option<Time>) -> PollVerdict {
        let elapsed = poll_start.map_or(Span::ZERO, |began| now.since(began));
        if poll_start.is_some() && elapsed >= self.quantum {
            self.checks_since_long_poll = 0;
            return PollVerdict::HandOver;
        }
        self.checks_since_long_poll = self.checks_since_long_poll.saturating_add(1);
        let period =
            self.quantum * (1 << (self.checks_since_long_poll / CHECKS_PER_DOUBLING).min(PERIOD_MAX.ilog2()));
        // A poll that may become long is checked when it does, but not at once.
        PollVerdict::Again(period.saturating_sub(elapsed).max(Span::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTUM: Span = Span::from_micros(100);

    /// Checks polls of these lengths, with gaps between them. Returns the time after which each one
    /// was called long, if it was.
    fn watched(polls: &[(Span, Span)]) -> Vec<Option<Span>> {
        let mut detector = LongPollDetector::new(QUANTUM);
        let (mut begin, mut check) = (Time::ZERO, Time::ZERO);
        let mut called = Vec::new();
        for &(gap, len) in polls {
            begin += gap;
            let mut long = None;
            while check < begin + len {
                match detector.check(check, (check >= begin).then_some(begin)) {
                    PollVerdict::HandOver => {
                        long = Some(check.since(begin));
                        break;
                    }
                    PollVerdict::Again(span) => check += span,
                }
            }
            called.push(long);
            begin += len;
            check = check.max(begin);
        }
        called
    }

    #[test]
    fn checks_are_rarer_without_long_polls_and_frequent_after_one() {
        let mut detector = LongPollDetector::new(QUANTUM);
        let mut periods: Vec<u64> = Vec::new();
        for _ in 0..400 {
            let PollVerdict::Again(span) = detector.check(Time::ZERO, None) else {
                panic!("nothing is being taken")
            };
            periods.push(span.as_nanos() / QUANTUM.as_nanos());
        }
        periods.dedup();
        assert_eq!(periods, [1, 2, 4]);
        assert_eq!(detector.check(Time::ZERO + QUANTUM, Some(Time::ZERO)), PollVerdict::HandOver);
        assert_eq!(detector.check(Time::ZERO, None), PollVerdict::Again(QUANTUM));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn long_polls_are_detected_in_time_and_short_ones_never(
            polls in proptest::collection::vec((0u64..2_000, 0u64..2_000), 1..200),
        ) {
            let span = |us| Span::from_micros(us);
            let polls: Vec<_> = polls.into_iter().map(|(gap, len)| (span(gap), span(len))).collect();
            for ((_, len), called) in polls.iter().zip(watched(&polls)) {
                let late = QUANTUM * (1 + PERIOD_MAX);
                match called {
                    Some(after) => prop_assert!(after >= QUANTUM && after <= late),
                    None => prop_assert!(*len <= late, "a poll of {len} was not detected"),
                }
            }
        }
    }
}
