//! One label for a request, at every wait.
//!
//! A label begins as what its peer asks for, held to what that peer was granted:
//! a client can lower its own class and shorten its own time, never the other way
//! ([`Grant`]). On its way a label becomes more urgent, by a level, where less is
//! left of the budget than the rest is likely to take, and less urgent where so much is
//! left that it can lose a packet ([`deadline::Standing`]); it is read by switches as DSCP, by the
//! receive buffer, by event queues, by whoever divides cores, and goes back with the
//! response.
//! Source: D2P §3 for the budget, ADPS §2.3 for the priority that travels.

use deadline::codec::field;
use deadline::{Budget, BudgetValidator, Limits, Received};
use queueing::{Priority, Span};

/// What a peer may ask for.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    level: Priority,
    intake: BudgetValidator,
}

impl Grant {
    /// Nothing more urgent than `level`, and no more time than `longest`.
    pub fn new(level: Priority, longest: Span) -> Self {
        let limits = Limits { default: longest, trusted: false, ..Limits::default() };
        Self { level, intake: BudgetValidator::new(limits) }
    }

    /// What a request gets that asks for `level` and `expected`.
    pub fn admit(&mut self, level: Priority, expected: Span) -> (Priority, Budget) {
        // As it comes: a field of text, which may say anything.
        let text = field::write(&Budget::new(expected));
        let budget = self.intake.validate(Received { budget: Some(&text), ..Received::default() });
        (level.max(self.level), budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u8) -> Priority {
        Priority::new(n).expect("a level")
    }

    #[test]
    fn a_client_can_only_lower_its_own_class() {
        let ms = Span::from_millis;
        let mut grant = Grant::new(at(3), ms(10));
        for (asked, got) in [((0, 5), (3, 5)), ((3, 10), (3, 10)), ((6, 10), (6, 10)), ((0, 500), (3, 10))] {
            let (level, budget) = grant.admit(at(asked.0), ms(asked.1));
            assert_eq!((level, budget.expected()), (at(got.0), ms(got.1)), "{asked:?}");
        }
    }
}
