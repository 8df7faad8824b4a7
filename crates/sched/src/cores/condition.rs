//! Interference that cannot be managed here (C8).
//!
//! LC waits too long and no core is left to take, or DRAM is over its limit and
//! BE runs nowhere any more. When that has lasted, somebody above has to know: the one
//! who decides what runs on which machine. Breaks shorter than a quarter of the
//! time are no breaks, and it is over once it has been gone for all of it.
//! Source: Caladan (OSDI '20) §4.

use queueing::{Span, Time};

use super::{Board, Hold, Settings, Signals, TaskId};

/// What cannot be managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The task's threads or requests wait longer than its THRESH_QD.
    Queue(TaskId),
    /// This socket's DRAM is over THRESH_BW.
    Bandwidth(usize),
}

/// What became of a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has lasted.
    Raised(Trouble),
    /// It is over.
    Cleared(Trouble),
}

/// Watches for what cannot be managed.
#[derive(Clone, Debug)]
pub struct Watch {
    after: Span,
    bandwidth_max: f64,
    watched: Vec<(Trouble, State)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When it began.
    since: Option<Time>,
    /// When it was there last.
    last: Time,
    raised: bool,
}

impl Watch {
    /// For the tasks and sockets of `board`; a trouble is raised once it has lasted for `after`.
    #[must_use]
    pub fn new(after: Span, settings: &Settings, board: &Board) -> Self {
        let tasks = board.ids().filter(|&task| board.spec(task).is_critical()).map(Trouble::Queue);
        let sockets = (0..board.topology().sockets()).map(Trouble::Bandwidth);
        let watched = tasks.chain(sockets).map(|trouble| (trouble, State::default())).collect();
        Self { after, bandwidth_max: settings.bandwidth_max, watched }
    }

    /// From now on a trouble is raised once it has lasted for `after`.
    pub fn set_after(&mut self, after: Span) {
        self.after = after;
    }

    /// Looks once a round, after the policy; what changed is added to `changes`.
    pub fn round(&mut self, now: Time, signals: &Signals, board: &Board, changes: &mut Vec<Change>) {
        let (after, bandwidth_max) = (self.after, self.bandwidth_max);
        for (trouble, state) in &mut self.watched {
            let is_there = match *trouble {
                Trouble::Queue(task) => signals.task(task).asks(board.spec(task)) && !can_grow(board, task),
                Trouble::Bandwidth(socket) => {
                    signals.bandwidth[socket].is_some_and(|used| used > bandwidth_max)
                        && !can_shrink(board, socket)
                }
            };
            if is_there {
                state.last = now;
                let since = *state.since.get_or_insert(now);
                if !state.raised && now.since(since) >= after {
                    state.raised = true;
                    changes.push(Change::Raised(*trouble));
                }
                continue;
            }
            let gone = now.since(state.last);
            if state.raised && gone >= after {
                *state = State::default();
                changes.push(Change::Cleared(*trouble));
            } else if !state.raised && gone > after / 4 {
                state.since = None;
            }
        }
    }

    /// What has been raised and is not over.
    pub fn raised(&self) -> impl Iterator<Item = Trouble> + '_ {
        self.watched.iter().filter(|(_, state)| state.raised).map(|&(trouble, _)| trouble)
    }
}

/// Whether a policy could still give `task` a core: one that is free or BE's.
fn can_grow(board: &Board, task: TaskId) -> bool {
    let is_left = |core| match board.hold(core) {
        Hold::Free => true,
        Hold::Run(holder) | Hold::Quiet(holder) => !board.spec(holder).is_critical(),
        Hold::Keep(_) | Hold::Shared => false,
    };
    board.held(task) < board.spec(task).cores_max() && board.topology().all().any(is_left)
}

/// Whether BE still runs on `socket` where a policy could take it away.
fn can_shrink(board: &Board, socket: usize) -> bool {
    let takes = |&core| matches!(board.hold(core), Hold::Run(holder) if !board.spec(holder).is_critical());
    board.topology().on_socket(socket).iter().any(takes)
}
