//! Closes above a share of memory: for servers that run out of memory first.

use queueing::Time;

use super::{Latch, Params, Policy};
use crate::{Limit, Signals};

/// Sheds every arrival while memory use is above a bound.
#[derive(Clone, Debug)]
pub struct Memory {
    share_max: f64,
    full: Latch,
}

impl Memory {
    /// Policy with the bound of `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self { share_max: params.memory_share_max, full: Latch::default() }
    }
}

impl Policy for Memory {
    fn tick(&mut self, _now: Time, signals: &Signals) -> Limit {
        if self.full.update(signals.memory_share, self.share_max) { Limit::Closed } else { Limit::Open }
    }

    fn needs_system_signals(&self) -> bool {
        true
    }
}
