//! No manager: the kernel shares all cores, BE in its idle class.
//!
//! LC takes a core from BE whenever it wakes up; nobody watches siblings,
//! bandwidth or queues. What the kernel then does is the machine's matter.
//! Source: Caladan (OSDI '20) §7, `SCHED_IDLE`.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Guarantees, Policy, Signals};

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Policy for Linux {
    fn period(&self) -> Span {
        Span::from_millis(500)
    }

    fn round(&mut self, now: Time, _signals: &Signals, board: &mut CoreAssignment) {
        for core in board.topology().all() {
            board.set(now, core, CoreState::Shared);
        }
    }

    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: false, starvation: None }
    }
}
