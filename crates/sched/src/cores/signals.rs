//! What can be measured in microseconds (C2).
//!
//! A sensor that a machine lacks leaves `None`; policies do without.

use queueing::{Span, Time};

use super::{CoreAssignment, TaskId, TaskSpec};

/// All that a policy sees, once per round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// By task.
    pub tasks: Vec<TaskSignals>,
    /// By core.
    pub cores: Vec<CoreSignals>,
    /// By socket: bytes per second between DRAM and caches since the last round.
    pub bandwidth: Vec<Option<f64>>,
}

/// Of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSignals {
    /// Queueing delay: the longest, over its cores, of what the oldest
    /// element of each of a core's queues has waited, added up.
    pub delay: Span,
    /// Somebody there has less left of his budget than what he came for may still take.
    pub behind: bool,
    /// Cores that it could keep busy now.
    pub runnable: u32,
    /// Its p99.9 latency since the last round, where clients measure it.
    pub tail: Option<Span>,
}

impl TaskSignals {
    /// Whether LC of `spec` asks for a core: its queue has grown old, or somebody is behind.
    #[must_use]
    pub fn asks(&self, spec: &TaskSpec) -> bool {
        self.behind || self.delay > spec.delay_max
    }
}

/// Of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSignals {
    /// The task that gave it back since the last round. Of the present grant
    /// only: who was preempted has given nothing back.
    pub yielded: Option<TaskId>,
    /// When the request that runs there began.
    pub request_since: Option<Time>,
    /// The answer to [`Action::Sample`](super::Action::Sample) of the last round.
    pub sample: Option<Sample>,
}

/// A core's cache-miss counter, read on that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Misses of the last-level cache since some beginning.
    pub misses: u64,
    /// When that core read it.
    pub at: Time,
}

impl Signals {
    /// Of a machine in which nothing happens.
    #[must_use]
    pub fn of(board: &CoreAssignment) -> Self {
        Self {
            tasks: vec![TaskSignals::default(); board.tasks().len()],
            cores: vec![CoreSignals::default(); board.topology().cores()],
            bandwidth: vec![None; board.topology().sockets()],
        }
    }

    /// The signals of `task`.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &TaskSignals {
        &self.tasks[task.index()]
    }
}
