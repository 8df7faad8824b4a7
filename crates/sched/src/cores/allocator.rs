//! A round: sense, decide, act. Allocates nothing once it is warm.

use queueing::{Span, Time};

use super::{Action, CoreAssignment, Cores, Policy, Signals, TaskId, TaskSpec};

/// A policy at work on a board.
pub struct Allocator {
    policy: Box<dyn Policy>,
    board: CoreAssignment,
    signals: Signals,
    actions: Vec<Action>,
}

impl Allocator {
    /// `policy` at work on `board`.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, board: CoreAssignment) -> Self {
        let signals = Signals::of(&board);
        Self { policy, board, signals, actions: Vec::new() }
    }

    /// How long from one round to the next.
    #[must_use]
    pub fn period(&self) -> Span {
        self.policy.period()
    }

    /// Who has which core.
    #[must_use]
    pub const fn board(&self) -> &CoreAssignment {
        &self.board
    }

    /// From the next round on, `task` has the thresholds of `spec`.
    pub fn set_thresholds(&mut self, task: TaskId, spec: &TaskSpec) {
        self.board.set_thresholds(task, spec);
    }

    /// What it saw in the last round.
    #[must_use]
    pub const fn signals(&self) -> &Signals {
        &self.signals
    }

    /// One round; how many actions it took.
    pub fn round(&mut self, now: Time, cores: &mut dyn Cores) -> usize {
        cores.sense(now, &mut self.signals);
        for core in self.board.topology().all() {
            if let Some(task) = self.signals.cores[core.0 as usize].yielded {
                self.board.yielded(now, core, task);
            }
        }
        self.policy.round(now, &self.signals, &mut self.board);
        self.board.actions(&mut self.actions);
        cores.act(now, &self.actions);
        self.actions.len()
    }
}
