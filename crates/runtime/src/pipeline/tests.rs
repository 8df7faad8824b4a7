//! What the owners' tests share.

use guard::{Limit, Policy, Signals};
use queueing::Time;

/// Says one thing, whatever it sees.
pub(crate) struct Says(pub Limit);

impl Policy for Says {
    fn tick(&mut self, _now: Time, _signals: &Signals) -> Limit {
        self.0
    }
}
