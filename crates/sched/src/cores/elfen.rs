//! Elfen: BE runs only beside idle LC lanes.
//!
//! LC has the first lane of every physical core, BE the others, which idle while LC
//! runs on the first. LC never shares a physical core, not even with itself, and
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
    /// Policy for the tasks of `assignment`.
    ///
    /// # Errors
    /// If more cores are guaranteed than there are first lanes.
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Result<Self, CoresConfigError> {
        let guaranteed: usize = assignment.tasks().iter().map(|task| usize::from(task.guaranteed)).sum();
        let lanes = assignment.topology().physical_cores();
        if guaranteed > lanes {
            return Err(CoresConfigError(format!(
                "{guaranteed} cores are guaranteed; elfen allows one for each of {lanes} physical cores"
            )));
        }
        Ok(Self { period: settings.period, top: Top::new(settings, assignment) })
    }
}

/// True if LC runs on another lane of the same physical core.
fn beside_critical(assignment: &CoreAssignment, core: CoreId) -> bool {
    let critical = |task: TaskId| assignment.spec(task).is_critical();
    assignment
        .topology()
        .siblings(core)
        .any(|sibling| assignment.state(sibling).running().is_some_and(critical))
}

/// True if the rule lets `task` run on `core`.
fn allows(assignment: &CoreAssignment, core: CoreId, task: TaskId) -> bool {
    let alone = assignment.topology().lanes(assignment.topology().physical(core)).len() == 1;
    match (alone, assignment.spec(task).is_critical()) {
        (true, _) => true,
        (false, true) => assignment.topology().is_first_lane(core),
        (false, false) => !assignment.topology().is_first_lane(core) && !beside_critical(assignment, core),
    }
}

impl Policy for Elfen {
    fn period(&self) -> Span {
        self.period
    }

    fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        self.top.round(now, signals, assignment, &allows);
        for core in assignment.topology().all() {
            let Some(task) = assignment.state(core).running() else { continue };
            if !assignment.spec(task).is_critical() && beside_critical(assignment, core) {
                assignment.set(now, core, CoreState::Free);
            }
        }
    }

    /// BE waits while LC runs on every first lane.
    fn promise(&self) -> Guarantees {
        Guarantees { guarantees: true, starvation: None }
    }
}
