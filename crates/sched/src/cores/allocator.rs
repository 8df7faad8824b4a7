//! Allocator: one round of sense, decide, act. A warm allocator does not allocate memory.

use queueing::{Span, Time};

use super::{Action, CoreAssignment, Cores, Policy, Signals, TaskId, TaskSpec};

/// Policy with its core assignment.
pub struct Allocator {
    policy: Box<dyn Policy>,
    assignment: CoreAssignment,
    signals: Signals,
    actions: Vec<Action>,
}

impl Allocator {
    /// Allocator of `policy` for `assignment`.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, assignment: CoreAssignment) -> Self {
        let signals = Signals::of(&assignment);
        Self { policy, assignment, signals, actions: Vec::new() }
    }

    /// Time between two rounds.
    #[must_use]
    pub fn period(&self) -> Span {
        self.policy.period()
    }

    /// Current assignment.
    #[must_use]
    pub const fn assignment(&self) -> &CoreAssignment {
        &self.assignment
    }

    /// Sets `task`'s thresholds to those of `spec`, from the next round on.
    pub fn set_thresholds(&mut self, task: TaskId, spec: &TaskSpec) {
        self.assignment.set_thresholds(task, spec);
    }

    /// Signals of the last round.
    #[must_use]
    pub const fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Runs one round; returns the number of actions.
    pub fn round(&mut self, now: Time, cores: &mut dyn Cores) -> usize {
        cores.sense(now, &mut self.signals);
        for core in self.assignment.topology().all() {
            if let Some(task) = self.signals.cores[core.0 as usize].yielded {
                self.assignment.yielded(now, core, task);
            }
        }
        self.policy.round(now, &self.signals, &mut self.assignment);
        self.assignment.actions(&mut self.actions);
        cores.act(now, &self.actions);
        self.actions.len()
    }
}
