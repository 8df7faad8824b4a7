//! Tasks that share a machine, and their guarantees (C1).

use queueing::Span;

/// Number of a task: its index in the list of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u16);

impl TaskId {
    /// Index in lists of tasks.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Class of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// LC: latency-critical; clients wait for its requests.
    Critical,
    /// BE: best-effort; uses spare cores.
    BestEffort,
}

/// Class, limits and thresholds of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// LC or BE.
    pub class: Class,
    /// Guaranteed cores, available whenever the task has work; 0 for BE.
    pub guaranteed: u16,
    /// Maximum number of additional cores.
    pub burstable: u16,
    /// THRESH_QD: queueing delay above which the task needs another core.
    pub delay_max: Span,
    /// THRESH_HT: running time above which a request has its physical core alone; `None` for never.
    pub request_max: Option<Span>,
    /// Tail latency that `parties` aims for.
    pub tail_target: Span,
}

impl TaskSpec {
    /// LC task with `guaranteed` cores and any number of additional ones. Defaults: 10 µs
    /// of queueing delay (Caladan §7), no limit on requests (its setting for memcached),
    /// a tail of 100 µs.
    #[must_use]
    pub const fn critical(guaranteed: u16) -> Self {
        Self {
            class: Class::Critical,
            guaranteed,
            burstable: u16::MAX,
            delay_max: Span::from_micros(10),
            request_max: None,
            tail_target: Span::from_micros(100),
        }
    }

    /// BE task with any number of cores.
    #[must_use]
    pub const fn best_effort() -> Self {
        Self { class: Class::BestEffort, ..Self::critical(0) }
    }

    /// Takes the thresholds of `other`; class and numbers of cores stay.
    pub fn set_thresholds(&mut self, other: &Self) {
        self.delay_max = other.delay_max;
        self.request_max = other.request_max;
        self.tail_target = other.tail_target;
    }

    /// True for LC.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        matches!(self.class, Class::Critical)
    }

    /// Guaranteed and additional cores.
    #[must_use]
    pub const fn cores_max(&self) -> u16 {
        self.guaranteed.saturating_add(self.burstable)
    }
}
