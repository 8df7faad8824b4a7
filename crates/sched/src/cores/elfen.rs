//! Elfen: BE runs only beside idle LC lanes.
//!
//! LC has the first lane of every physical core, BE the others, which idle while LC
//! runs on the first. So LC never shares a physical core, not even with itself, and
//! loses half of the lanes. Physical cores with a single lane serve both, by
//! priority.
//! Source: Elfen (ATC '16), as Caladan (OSDI '20) §7.3 compares with its rule. Here
//! the scheduler enforces the rule, so BE need not be trusted.

use queueing::{CoreId, Span, Time};

use super::caladan::top::Top;
use super::{CoreAssignment, CoreState, CoresConfigError, Guarantees, Policy, Settings, Signals, TaskId};

/// Policy of the sibling rule.
#[derive(Clone, Debug)]
pub struct Elfen {
    period: Span,
    top: Top,
}

impl Elfen {
    /// Policy for the tasks of `board`.
    ///
    /// # Errors
    /// If more cores are guaranteed than there are first lanes.
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Result<Self, CoresConfigError> {
        let guaranteed: usize = board.tasks().iter().map(|task| usize::from(task.guaranteed)).sum();
        let lanes = board.topology().physical_cores();
        if guaranteed > lanes {
            return Err(CoresConfigError(format!(
                "{guaranteed} cores are guaranteed; elfen allows one for each of {lanes} physical cores"
            )));
        }
        Ok(Self { period: settings.period, top: Top::new(settings, board) })
    }
}

/// True if LC runs on another lane of the same physical core.
fn beside_critical(board: &CoreAssignment, core: CoreId) -> bool {
    let critical = |task: TaskId| board.spec(task).is_critical();
    board.topology().siblings(core).any(|sibling| board.hold(sibling).running().is_some_and(critical))
}

/// True if the rule lets `task` run on `core`.
fn allows(board: &CoreAssignment, core: CoreId, task: TaskId) -> bool {
    let alone = board.topology().lanes(board.topology().physical(core)).len() == 1;
    match (alone, board.spec(task).is_critical()) {
        (true, _) => true,
        (false, true) => board.topology().leads(core),
        (false, false) => !board.topology().leads(core) && !beside_critical(board, core),
    }
}

impl Policy for Elfen {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment) {
        self.top.round(now, signals, board, &allows);
        for core in board.topology().all() {
            let Some(task) = board.hold(core).running() else { continue };
            if !board.spec(task).is_critical() && beside_critical(board, core) {
                board.set(now, core, CoreState::Free);
            }
        }
    }

    /// BE waits while LC runs on every first lane.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
