//! Interference that cannot be managed here (C8).
//!
//! LC waits too long and no core is left to take, or DRAM is over its limit and
//! BE runs nowhere any more. When that has lasted, somebody above has to know: the one
//! who decides what runs on which machine. Breaks shorter than a quarter of the
//! time are no breaks, and it is over once it has been gone for all of it.
//! Source: Caladan (OSDI '20) §4.

use queueing::{Span, Time};

use super::{CoreAssignment, CoreState, Settings, Signals, TaskId};

/// What cannot be managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// The task's threads or requests wait longer than its THRESH_QD.
    Queue(TaskId),
    /// This socket's DRAM is over THRESH_BW.
    Bandwidth(usize),
}

/// What became of a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has lasted.
    Raised(Contention),
    /// It is over.
    Cleared(Contention),
}

/// Watches for what cannot be managed.
#[derive(Clone, Debug)]
pub struct ContentionAlarm {
    after: Span,
    bandwidth_max: f64,
    watched: Vec<(Contention, State)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When it began.
    since: Option<Time>,
    /// When it was there last.
    last: Time,
    raised: bool,
}

impl ContentionAlarm {
    /// For the tasks and sockets of `board`; a trouble is raised once it has lasted for `after`.
    #[must_use]
    pub fn new(after: Span, settings: &Settings, board: &CoreAssignment) -> Self {
        let tasks = board.ids().filter(|&task| board.spec(task).is_critical()).map(Contention::Queue);
        let sockets = (0..board.topology().sockets()).map(Contention::Bandwidth);
        let watched = tasks.chain(sockets).map(|trouble| (trouble, State::default())).collect();
        Self { after, bandwidth_max: settings.bandwidth_max, watched }
    }

    /// From now on a trouble is raised once it has lasted for `after`.
    pub fn set_after(&mut self, after: Span) {
        self.after = after;
    }

    /// Looks once a round, after the policy; what changed is added to `changes`.
    pub fn round(&mut self, now: Time, signals: &Signals, board: &CoreAssignment, changes: &mut Vec<Change>) {
        let (after, bandwidth_max) = (self.after, self.bandwidth_max);
        for (trouble, state) in &mut self.watched {
            let is_there = match *trouble {
                Contention::Queue(task) => {
                    signals.task(task).asks(board.spec(task)) && !can_grow(board, task)
                }
                Contention::Bandwidth(socket) => {
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
    pub fn raised(&self) -> impl Iterator<Item = Contention> + '_ {
        self.watched.iter().filter(|(_, state)| state.raised).map(|&(trouble, _)| trouble)
    }
}

/// Whether a policy could still give `task` a core: one that is free or BE's.
fn can_grow(board: &CoreAssignment, task: TaskId) -> bool {
    let is_left = |core| match board.hold(core) {
        CoreState::Free => true,
        CoreState::Granted(holder) | CoreState::SiblingIdle(holder) => !board.spec(holder).is_critical(),
        CoreState::Reserved(_) | CoreState::Shared => false,
    };
    board.held(task) < board.spec(task).cores_max() && board.topology().all().any(is_left)
}

/// Whether BE still runs on `socket` where a policy could take it away.
fn can_shrink(board: &CoreAssignment, socket: usize) -> bool {
    let takes =
        |&core| matches!(board.hold(core), CoreState::Granted(holder) if !board.spec(holder).is_critical());
    board.topology().on_socket(socket).iter().any(takes)
}
