//! Slack class of a request, and the priority level that follows from it.
//!
//! The level of a request is its importance; slack is how much delay it can bear. A request
//! with [low slack](Slack::Behind) goes one level above its own. A request that can
//! [lose a packet twice](Slack::Ahead) and still meet its deadline goes one level below, so
//! it takes the drops where a port is full.
//! Source: D2P §3.2 for the use of budgets at a stage; the rule is greenwave's (ADR 0062).

use queueing::{Priority, Span, Time};

/// Slack class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// Time left is zero, or less than twice the expected remaining work.
    Behind,
    /// Neither `Behind` nor `Ahead`.
    OnTime,
    /// Time left covers the remaining work plus two packet losses.
    Ahead,
}

impl Slack {
    /// Class for `left` until the deadline, expected remaining work `rest`, and `loss`, the
    /// delay of a retransmission (a timeout of the transport). `OnTime` if the value needed
    /// is unknown.
    #[must_use]
    pub fn of(left: Span, rest: Option<Span>, loss: Option<Span>) -> Self {
        match (rest, loss) {
            (Some(rest), _) if left < (rest * 2).max(Span::from_nanos(1)) => Self::Behind,
            (Some(rest), Some(loss)) if left >= rest + loss * 2 => Self::Ahead,
            _ => Self::OnTime,
        }
    }

    /// [`of`](Self::of) with an `expected` remaining work of zero meaning unknown, as in
    /// estimates and queues.
    #[must_use]
    pub fn of_expected(left: Span, expected: Span, loss: Option<Span>) -> Self {
        Self::of(left, Some(expected).filter(|rest| *rest > Span::ZERO), loss)
    }

    /// Priority level for a request of `level`: one above, unchanged, or one below. The
    /// highest level is reserved for packets without data.
    #[must_use]
    pub fn level(self, level: Priority) -> Priority {
        let to = match self {
            Self::Behind => {
                Priority::new(level.level().saturating_sub(1)).filter(|to| *to > Priority::HIGHEST)
            }
            Self::OnTime => None,
            Self::Ahead => Priority::new(level.level() + 1),
        };
        to.unwrap_or(level)
    }
}

/// True if a request that waits and is due at `due` has low slack; a `service` of zero
/// means unknown.
pub(crate) fn is_late(now: Time, due: Time, service: Span) -> bool {
    Slack::of_expected(due.since(now), service, None) == Slack::Behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u8) -> Priority {
        Priority::new(n).expect("a level")
    }

    //~ platform: a request that can bear two losses drops a level and costs no other of its level
    #[test]
    fn slack_for_two_losses_is_ahead_and_less_than_twice_the_rest_is_behind() {
        let us = Span::from_micros;
        let slack = |left, rest, loss| Slack::of(us(left), rest, loss);
        let (rest, loss) = (Some(us(10)), Some(us(100)));
        for (left, expected) in [
            (0, Slack::Behind),
            (19, Slack::Behind),
            (20, Slack::OnTime),
            (209, Slack::OnTime),
            (210, Slack::Ahead),
        ] {
            assert_eq!(slack(left, rest, loss), expected, "{left}");
        }
        assert_eq!(slack(1_000_000, rest, None), Slack::OnTime, "unknown cost of a loss");
        assert_eq!(slack(1_000_000, None, loss), Slack::OnTime, "unknown remaining work");
        assert_eq!(slack(1, None, loss), Slack::OnTime);
        assert_eq!(slack(15, rest, Some(Span::ZERO)), Slack::Behind, "low slack takes precedence");
    }

    //~ platform: a request that can bear two losses drops a level and costs no other of its level
    #[test]
    fn levels_move_by_one_within_those_of_data() {
        for (level, [behind, on_time, ahead]) in
            [(0, [0, 0, 1]), (1, [1, 1, 2]), (2, [1, 2, 3]), (6, [5, 6, 7]), (7, [6, 7, 7])]
        {
            assert_eq!(Slack::Behind.level(at(level)), at(behind));
            assert_eq!(Slack::OnTime.level(at(level)), at(on_time));
            assert_eq!(Slack::Ahead.level(at(level)), at(ahead));
        }
    }
}
