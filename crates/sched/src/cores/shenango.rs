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
    /// Policy for the tasks of `assignment`.
    #[must_use]
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        let period = settings.period_shenango;
        Self { period, top: Top::new(settings, assignment).blind(period) }
    }
}

impl Policy for Shenango {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        self.top.round(now, signals, assignment, &|_, _, _| true);
    }

    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: Some(self.top.starvation()) }
    }
}
