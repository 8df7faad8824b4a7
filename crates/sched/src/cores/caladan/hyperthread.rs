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
    /// Controller for the cores of `board`.
    pub fn new(board: &CoreAssignment) -> Self {
        Self { long: Vec::with_capacity(board.topology().cores()) }
    }

    /// Runs one round.
    pub fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment) {
        for core in board.topology().all() {
            let CoreState::SiblingIdle(owner) = board.hold(core) else { continue };
            let needed =
                |sibling| overdue(now, signals, board, sibling).is_some_and(|(_, task)| task == owner);
            if !board.topology().siblings(core).any(needed) {
                board.set(now, core, CoreState::Free);
            }
        }
        self.long.clear();
        let long =
            board.topology().all().filter_map(|core| Some((overdue(now, signals, board, core)?.0, core)));
        self.long.extend(long);
        self.long.sort_unstable_by_key(|&(ran, core)| (std::cmp::Reverse(ran), core));
        for place in 0..self.long.len() {
            let (ran, core) = self.long[place];
            // A lane idled in this round for a longer request has no task.
            let Some(owner) = board.hold(core).running() else { continue };
            if signals.task(owner).asks(board.spec(owner)) {
                continue;
            }
            let lanes = board.topology().lanes(board.topology().physical(core)).len();
            for lane in 0..lanes {
                let sibling = board.topology().lanes(board.topology().physical(core))[lane];
                if sibling != core && may_quiet(now, signals, board, sibling, owner, ran) {
                    board.set(now, sibling, CoreState::SiblingIdle(owner));
                }
            }
        }
    }
}

/// Running time and task of the request on `core`, if above THRESH_HT.
fn overdue(now: Time, signals: &Signals, board: &CoreAssignment, core: CoreId) -> Option<(Span, TaskId)> {
    let task = board.hold(core).running()?;
    let ran = now.since(signals.cores[core.0 as usize].request_since?);
    let request_max = board.spec(task).request_max.filter(|_| board.spec(task).is_critical())?;
    (ran >= request_max).then_some((ran, task))
}

/// True if `lane` may be idled for `owner`, whose request beside it has run for `ran`.
fn may_quiet(
    now: Time,
    signals: &Signals,
    board: &CoreAssignment,
    lane: CoreId,
    owner: TaskId,
    ran: Span,
) -> bool {
    let room = board.held(owner) < board.spec(owner).cores_max();
    match board.hold(lane) {
        CoreState::Free => room,
        CoreState::Granted(other) if other == owner => {
            overdue(now, signals, board, lane).is_none_or(|(theirs, _)| theirs <= ran)
        }
        CoreState::Granted(_) => room && board.spared(lane) && !board.leased(now, lane),
        CoreState::Reserved(_) | CoreState::SiblingIdle(_) | CoreState::Shared => false,
    }
}
