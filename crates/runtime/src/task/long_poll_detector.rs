//! Long-poll detector: decides that a poll is long, and when to check again.
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
    calm: u32,
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
/// Checks without a long poll that double the period.
const CALM_LOOKS: u32 = 64;

impl LongPollDetector {
    pub const fn new(quantum: Span) -> Self {
        Self { quantum, calm: 0 }
    }

    /// Verdict at `now` on the poll that began at `turn`, if there is one.
    pub fn look(&mut self, now: Time, turn: Option<Time>) -> PollVerdict {
        let taken = turn.map_or(Span::ZERO, |began| now.since(began));
        if turn.is_some() && taken >= self.quantum {
            self.calm = 0;
            return PollVerdict::HandOver;
        }
        self.calm = self.calm.saturating_add(1);
        let period = self.quantum * (1 << (self.calm / CALM_LOOKS).min(PERIOD_MAX.ilog2()));
        // A poll that may become long is checked when it does, but not at once.
        PollVerdict::Again(period.saturating_sub(taken).max(Span::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTUM: Span = Span::from_micros(100);

    /// Checks polls of these lengths, with gaps between them. Returns the time after which each one
    /// was called long, if it was.
    fn watched(turns: &[(Span, Span)]) -> Vec<Option<Span>> {
        let mut watch = LongPollDetector::new(QUANTUM);
        let (mut begin, mut look) = (Time::ZERO, Time::ZERO);
        let mut called = Vec::new();
        for &(gap, len) in turns {
            begin += gap;
            let mut long = None;
            while look < begin + len {
                match watch.look(look, (look >= begin).then_some(begin)) {
                    PollVerdict::HandOver => {
                        long = Some(look.since(begin));
                        break;
                    }
                    PollVerdict::Again(span) => look += span,
                }
            }
            called.push(long);
            begin += len;
            look = look.max(begin);
        }
        called
    }

    #[test]
    fn checks_are_rarer_without_long_polls_and_frequent_after_one() {
        let mut watch = LongPollDetector::new(QUANTUM);
        let mut periods: Vec<u64> = Vec::new();
        for _ in 0..400 {
            let PollVerdict::Again(span) = watch.look(Time::ZERO, None) else {
                panic!("nothing is being taken")
            };
            periods.push(span.as_nanos() / QUANTUM.as_nanos());
        }
        periods.dedup();
        assert_eq!(periods, [1, 2, 4]);
        assert_eq!(watch.look(Time::ZERO + QUANTUM, Some(Time::ZERO)), PollVerdict::HandOver);
        assert_eq!(watch.look(Time::ZERO, None), PollVerdict::Again(QUANTUM));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn long_polls_are_detected_in_time_and_short_ones_never(
            turns in proptest::collection::vec((0u64..2_000, 0u64..2_000), 1..200),
        ) {
            let span = |us| Span::from_micros(us);
            let turns: Vec<_> = turns.into_iter().map(|(gap, len)| (span(gap), span(len))).collect();
            for ((_, len), called) in turns.iter().zip(watched(&turns)) {
                let late = QUANTUM * (1 + PERIOD_MAX);
                match called {
                    Some(after) => prop_assert!(after >= QUANTUM && after <= late),
                    None => prop_assert!(*len <= late, "a poll of {len} was not detected"),
                }
            }
        }
    }
}
