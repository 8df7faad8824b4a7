//! What shares a machine, and what each was promised (C1).

use queueing::Span;

/// A task's number, its place in the list of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u16);

impl TaskId {
    /// Its place in lists of tasks.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How urgent a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// LC: somebody waits for each of its requests.
    Critical,
    /// BE: lives on what is left.
    BestEffort,
}

/// What a task is, and what it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// LC or BE.
    pub class: Class,
    /// Cores that are its whenever it has work; BE has 0.
    pub guaranteed: u16,
    /// Cores that it may have beyond that.
    pub burstable: u16,
    /// THRESH_QD: a longer queueing delay asks for a core.
    pub delay_max: Span,
    /// THRESH_HT: a request that runs longer has its physical core alone; `None` for never.
    pub request_max: Option<Span>,
    /// The tail latency that `parties` is to keep.
    pub tail_target: Span,
}

impl TaskSpec {
    /// An LC task with `guaranteed` cores and as many more as there are: 10 µs of queueing delay
    /// (Caladan §7), no limit on requests (its setting for memcached), a tail of 100 µs.
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

    /// A BE task with as many cores as there are.
    #[must_use]
    pub const fn best_effort() -> Self {
        Self { class: Class::BestEffort, ..Self::critical(0) }
    }

    /// Takes over when `other` asks for a core, has one alone, or has its target;
    /// what it is and how many cores it may have stay.
    pub fn set_thresholds(&mut self, other: &Self) {
        self.delay_max = other.delay_max;
        self.request_max = other.request_max;
        self.tail_target = other.tail_target;
    }

    /// Whether it is LC.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        matches!(self.class, Class::Critical)
    }

    /// Cores that it may have in all.
    #[must_use]
    pub const fn cores_max(&self) -> u16 {
        self.guaranteed.saturating_add(self.burstable)
    }
}
