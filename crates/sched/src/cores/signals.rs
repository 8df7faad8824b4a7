//! Signals measurable in microseconds (C2).
//!
//! A missing sensor is `None`; policies work without it.

use queueing::{Span, Time};

use super::{CoreAssignment, TaskId, TaskSpec};

/// Input of a policy, once per round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Signals by task.
    pub tasks: Vec<TaskSignals>,
    /// Signals by core.
    pub cores: Vec<CoreSignals>,
    /// DRAM traffic by socket since the last round, in bytes per second.
    pub bandwidth: Vec<Option<f64>>,
}

/// Signals of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSignals {
    /// Queueing delay: for each core the sum of the ages of the oldest element in
    /// each queue; the maximum over the task's cores.
    pub delay: Span,
    /// True if some request has less budget left than its remaining service may take.
    pub late: bool,
    /// Cores that the task could keep busy now.
    pub runnable: u32,
    /// True if LC kept the cores busy while the task waited for `delay`: cores of BE would not shorten it.
    pub is_own_wait: bool,
    /// True if LC has kept nearly all cores busy lately, so that no core is left for the task.
    pub is_overload: bool,
    /// True if the task is known to have used no core since the last round.
    pub idle: bool,
    /// p99.9 latency since the last round, if clients measure it.
    pub tail: Option<Span>,
}

impl TaskSignals {
    /// True if an LC task of `spec` needs another core: its queueing delay exceeds
    /// THRESH_QD and is not of LC's own making, or a request is late.
    #[must_use]
    pub fn needs_core(&self, spec: &TaskSpec) -> bool {
        self.late || self.delay > spec.delay_max && !self.is_own_wait
    }

    /// True if the queueing delay of an LC task of `spec` exceeds THRESH_QD, or a request is late.
    #[must_use]
    pub fn waits_long(&self, spec: &TaskSpec) -> bool {
        self.late || self.delay > spec.delay_max
    }
}

/// Signals of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSignals {
    /// Task that yielded the core since the last round; `None` after a preemption.
    pub yielded: Option<TaskId>,
    /// Start of the current request.
    pub request_since: Option<Time>,
    /// Result of [`Action::Sample`](super::Action::Sample) of the last round.
    pub sample: Option<Sample>,
}

/// Reading of a core's cache-miss counter, taken on that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Last-level cache misses since an arbitrary start.
    pub misses: u64,
    /// Time of the reading, by that core's clock.
    pub at: Time,
}

impl Signals {
    /// Signals of an idle machine.
    #[must_use]
    pub fn of(assignment: &CoreAssignment) -> Self {
        Self {
            tasks: vec![TaskSignals::default(); assignment.tasks().len()],
            cores: vec![CoreSignals::default(); assignment.topology().cores()],
            bandwidth: vec![None; assignment.topology().sockets()],
        }
    }

    /// Signals of `task`.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &TaskSignals {
        &self.tasks[task.index()]
    }
}
