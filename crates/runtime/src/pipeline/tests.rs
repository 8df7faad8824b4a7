//! Policy shared by the owners' tests.

use guard::{Limit, Policy, Signals};
use queueing::Time;

/// A policy with a constant limit.
pub(crate) struct Says(pub Limit);

impl Policy for Says {
    fn tick(&mut self, _now: Time, _signals: &Signals) -> Limit {
        self.0
    }
}
