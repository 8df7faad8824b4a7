//! No allocator: the kernel shares all cores, with BE in its idle class.
//!
//! LC preempts BE at wake-up. Siblings, bandwidth and queues are not managed.
//! Source: Caladan (OSDI '20) §7, `SCHED_IDLE`.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Guarantees, Policy, Signals};

/// Policy that leaves all cores to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Policy for Linux {
    fn period(&self) -> Span {
        Span::from_millis(500)
    }

    fn round(&mut self, now: Time, _signals: &Signals, assignment: &mut CoreAssignment) {
        for core in assignment.topology().all() {
            assignment.set(now, core, CoreState::Shared);
        }
    }

    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: false, starvation: None }
    }
}
