//! Shenango: core allocation by queueing delay alone.
//!
//! Caladan's top level without its controllers, with a shorter period, and blind to
//! hyperthread siblings. Does not detect a slow core, only its queue.
//! Source: Shenango (NSDI '19) §4, as Caladan (OSDI '20) §7 compares with it.

use queueing::{Span, Time};

use super::caladan::top::Top;
use super::{CoreAssignment, Guarantees, Policy, Settings, Signals};

/// Policy by queueing delay alone.
#[derive(Clone, Debug)]
pub struct Shenango {
    period: Span,
    top: Top,
}

impl Shenango {
    /// Policy for the tasks of `board`.
    #[must_use]
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Self {
        let period = settings.period_shenango;
        Self { period, top: Top::new(settings, board).blind(period) }
    }
}

impl Policy for Shenango {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment) {
        self.top.round(now, signals, board, &|_, _, _| true);
    }

    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: Some(self.top.starvation()) }
    }
}
