//! One label per request, for all queues on its path.
//!
//! The peer's requested label is limited to its grant: a client can lower its own priority and
//! shorten its own budget, never raise or extend them ([`Grant`]). On the way a label rises one
//! level if the remaining budget is likely too short for the remaining work, and falls if
//! enough is left to lose a packet ([`deadline::Slack`]). It is read by switches (as DSCP),
//! receive buffer, event queues and the core allocator, and returns with the response. Source:
//! D2P §3 (budget), ADPS §2.3 (priority that travels).

use deadline::codec::field;
use deadline::{Budget, BudgetHeader, BudgetValidator, Limits, ReceivedBudget};
use queueing::{Priority, Span};

/// Limits of a peer's labels.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    level: Priority,
    validator: BudgetValidator,
}

impl Grant {
    /// Limits level to `level` or lower, and budget to `longest`.
    pub fn new(level: Priority, longest: Span) -> Self {
        let limits = Limits { longest, ..Limits::default() };
        Self { level, validator: BudgetValidator::new(limits) }
    }

    /// Level and budget of a request that asks for `level` and `expected`.
    pub fn admit(&mut self, level: Priority, expected: Span) -> (Priority, Budget) {
        // Passed as on the wire: a text field with untrusted contents.
        let text = field::write(&Budget::new(expected));
        let line = |header| (header == BudgetHeader::Greenwave).then_some(text.as_bytes());
        let budget = self.validator.validate(ReceivedBudget::read(line));
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
        for (requested, granted) in
            [((0, 5), (3, 5)), ((3, 10), (3, 10)), ((6, 10), (6, 10)), ((0, 500), (3, 10))]
        {
            let (level, budget) = grant.admit(at(requested.0), ms(requested.1));
            assert_eq!((level, budget.expected()), (at(granted.0), ms(granted.1)), "{requested:?}");
        }
    }
}
