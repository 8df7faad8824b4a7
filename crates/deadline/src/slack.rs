//! How a request stands against its budget, and at which level it goes for that.
//!
//! A level says whose request it is; the budget, what it can bear. So of two requests of
//! one level the one that is [behind](Standing::Behind) goes a level above, and the one
//! that could [lose a packet](Standing::Ahead) on its way, and again what is sent in its
//! place, and still be in time goes a level below: where a port is full it is the one to lose.
//! Source: D2P §3.2 for what a budget is good for at a stage; the rule is ours (ADR 0062).

use queueing::{Priority, Span, Time};

/// How a request stands against its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// Less is left than twice what remains to be done is expected to take, or nothing.
    Behind,
    /// Neither.
    OnTime,
    /// So much is left beyond the rest that a packet may be lost twice.
    Ahead,
}

impl Slack {
    /// Who has `left`, when what remains to be done is expected to take `rest`, and a packet
    /// that is lost on the way comes `loss` later: a timeout of the transport. Who does not
    /// know one of the two gives nothing, and nobody stands as that would say.
    #[must_use]
    pub fn of(left: Span, rest: Option<Span>, loss: Option<Span>) -> Self {
        match (rest, loss) {
            (Some(rest), _) if left < (rest * 2).max(Span::from_nanos(1)) => Self::Behind,
            (Some(rest), Some(loss)) if left >= rest + loss * 2 => Self::Ahead,
            _ => Self::OnTime,
        }
    }

    /// The same where `expected` says of the rest that nobody knows it by being zero, as
    /// estimates and queues do.
    #[must_use]
    pub fn of_expected(left: Span, expected: Span, loss: Option<Span>) -> Self {
        Self::of(left, Some(expected).filter(|rest| *rest > Span::ZERO), loss)
    }

    /// The level at which a request of `level` goes that stands so: one above, its own, or
    /// one below. The most urgent is kept for what carries no data.
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

/// Whether who has not begun and is due at `due` is behind; what serving him takes is not
/// known where it is zero.
pub(crate) fn is_late(now: Time, due: Time, service: Span) -> bool {
    Slack::of_expected(due.since(now), service, None) == Slack::Behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u8) -> Priority {
        Priority::new(n).expect("a level")
    }

    #[test]
    fn who_can_bear_two_losses_is_ahead_and_who_has_less_than_twice_the_rest_behind() {
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
        assert_eq!(slack(1_000_000, rest, None), Slack::OnTime, "nobody knows what a loss costs");
        assert_eq!(slack(1_000_000, None, loss), Slack::OnTime, "nor what the rest takes");
        assert_eq!(slack(1, None, loss), Slack::OnTime);
        assert_eq!(slack(15, rest, Some(Span::ZERO)), Slack::Behind, "before anything else");
    }

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
