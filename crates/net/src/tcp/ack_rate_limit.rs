//! How often a connection answers what fits nowhere.
//!
//! A segment outside the window is answered with what we expect instead. Two
//! peers that have lost each other would answer each other's answers without
//! end; so a connection gives only a few in each half second, and a loop
//! between any two peers dies once either has given its last. Segments that
//! bring data are answered always: they come as often as the peer sends data,
//! and their sender waits for the answer. Source: RFC 9293 §3.10.7.4,
//! RFC 5961 §7; the interval is that of Linux (`tcp_invalid_ratelimit`).

use queueing::Time;

/// Answers given in the current half second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckRateLimit {
    /// Which half second, of those of nine hours: two that are taken for the same
    /// one cost the later one answers, once.
    span: u16,
    given: u8,
}

impl AckRateLimit {
    const SPAN_NS: u64 = 500_000_000;

    /// Whether one more of `max` may be given at `now`; counts it.
    pub(crate) fn allow(&mut self, now: Time, max: u8) -> bool {
        let span = (now.as_nanos() / Self::SPAN_NS) as u16;
        if self.span != span {
            *self = Self { span, given: 0 };
        }
        let allowed = self.given < max;
        self.given += u8::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_once_in_each_half_second() {
        let mut answers = AckRateLimit::default();
        let mut given =
            |ms: u64| (0..10).filter(|_| answers.allow(Time::from_nanos(ms * 1_000_000), 4)).count();
        assert_eq!([given(1000), given(1200), given(1499), given(1500), given(9000)], [4, 0, 0, 4, 4]);
    }
}
