//! ACK rate limit: a bound on the ACKs sent for unacceptable segments.
//!
//! An unacceptable segment is answered with an ACK of the expected sequence number. Two peers out
//! of sync would answer each other's ACKs without end (an ACK loop). A connection therefore sends
//! only a few per half second, and a loop ends once either peer has used up its budget. Segments
//! with data are not limited: they arrive only as often as the peer sends data, and the peer waits
//! for the ACK.
//!
//! Source: RFC 9293 §3.10.7.4, RFC 5961 §7; the interval is Linux's `tcp_invalid_ratelimit`.

use queueing::Time;

/// ACKs sent in the current half second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckRateLimit {
    /// Index of the current half second, modulo 2¹⁶. After exactly nine hours of silence the index
    /// repeats and the old count is used once more.
    span: u16,
    sent: u8,
}

impl AckRateLimit {
    const SPAN_NS: u64 = 500_000_000;

    /// True if one more of at most `max` ACKs may be sent at `now`; counts it.
    pub(crate) fn allow(&mut self, now: Time, max: u8) -> bool {
        let span = (now.as_nanos() / Self::SPAN_NS) as u16;
        if self.span != span {
            *self = Self { span, sent: 0 };
        }
        let allowed = self.sent < max;
        self.sent += u8::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_once_in_each_half_second() {
        let mut answers = AckRateLimit::default();
        let mut sent =
            |ms: u64| (0..10).filter(|_| answers.allow(Time::from_nanos(ms * 1_000_000), 4)).count();
        assert_eq!([sent(1000), sent(1200), sent(1499), sent(1500), sent(9000)], [4, 0, 0, 4, 4]);
    }
}
