//! Hyperthread controller: a physical core of its own for a long request (C5).
//!
//! While a request of an LC task runs longer than its THRESH_HT, the other lanes of
//! its physical core are idled; longest-running first. They count as the task's
//! cores. Tasks within their guarantee keep their lanes, and a task whose queue grows
//! keeps its own. The top-level allocator may take an idled lane.
//! Source: Caladan (OSDI '20) §5.2.3.

use queueing::{CoreId, Span, Time};

use crate::cores::{CoreAssignment, CoreState, Signals, TaskId};

/// Hyperthread controller.
#[derive(Clone, Debug)]
pub struct Hyperthread {
    /// Requests above THRESH_HT, with their running time and core.
    long: Vec<(Span, CoreId)>,
}

impl Hyperthread {
    /// Controller for the cores of `assignment`.
    pub fn new(assignment: &CoreAssignment) -> Self {
        Self { long: Vec::with_capacity(assignment.topology().cores()) }
    }

    /// Runs one round.
    pub fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        for core in assignment.topology().all() {
            let CoreState::SiblingIdle(owner) = assignment.state(core) else { continue };
            let needed =
                |sibling| overdue(now, signals, assignment, sibling).is_some_and(|(_, task)| task == owner);
            if !assignment.topology().siblings(core).any(needed) {
                assignment.set(now, core, CoreState::Free);
            }
        }
        self.long.clear();
        let long = assignment
            .topology()
            .all()
            .filter_map(|core| Some((overdue(now, signals, assignment, core)?.0, core)));
        self.long.extend(long);
        self.long.sort_unstable_by_key(|&(ran, core)| (std::cmp::Reverse(ran), core));
        for index in 0..self.long.len() {
            let (ran, core) = self.long[index];
            // A lane idled in this round for a longer request has no task.
            let Some(owner) = assignment.state(core).running() else { continue };
            if signals.task(owner).needs_core(assignment.spec(owner)) {
                continue;
            }
            let lanes = assignment.topology().lanes(assignment.topology().physical(core)).len();
            for lane in 0..lanes {
                let sibling = assignment.topology().lanes(assignment.topology().physical(core))[lane];
                if sibling != core && may_idle(now, signals, assignment, sibling, owner, ran) {
                    assignment.set(now, sibling, CoreState::SiblingIdle(owner));
                }
            }
        }
    }
}

/// Running time and task of the request on `core`, if above THRESH_HT.
fn overdue(
    now: Time,
    signals: &Signals,
    assignment: &CoreAssignment,
    core: CoreId,
) -> Option<(Span, TaskId)> {
    let task = assignment.state(core).running()?;
    let ran = now.since(signals.cores[core.0 as usize].request_since?);
    let request_max = assignment.spec(task).request_max.filter(|_| assignment.spec(task).is_critical())?;
    (ran >= request_max).then_some((ran, task))
}

/// True if `lane` may be idled for `owner`, whose request beside it has run for `ran`.
fn may_idle(
    now: Time,
    signals: &Signals,
    assignment: &CoreAssignment,
    lane: CoreId,
    owner: TaskId,
    ran: Span,
) -> bool {
    let has_capacity = assignment.held(owner) < assignment.spec(owner).cores_max();
    match assignment.state(lane) {
        CoreState::Free => has_capacity,
        CoreState::Granted(other) if other == owner => {
            overdue(now, signals, assignment, lane).is_none_or(|(other_ran, _)| other_ran <= ran)
        }
        CoreState::Granted(_) => {
            has_capacity && assignment.is_beyond_guarantee(lane) && !assignment.leased(now, lane)
        }
        CoreState::Reserved(_) | CoreState::SiblingIdle(_) | CoreState::Shared => false,
    }
}
