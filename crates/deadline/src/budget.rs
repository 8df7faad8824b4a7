//! Time budget of a request: time left, and time spent per stage.
//!
//! Counted in spans since the request was created, never as an instant, because clocks of
//! machines differ. A budget is a plain value: it changes only when a stage is added.
//! [`StageTimer`](crate::StageTimer) measures the stages.
//! Source: D2P §3, the deadline field `(deadline, PU_flag)`.

use queueing::Span;

/// Maximum number of recorded stages; time of later stages is added to the last one.
pub const STAGES_MAX: usize = 8;

/// Time that a request spent at one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Network delay into the stage: C of the hop before.
    pub network: Span,
    /// Queueing time.
    pub queue: Span,
    /// Service time, calls to other services included.
    pub service: Span,
}

impl StageTime {
    /// Sum of the three: `C(S_{i-1}) + L(S_i)`.
    #[must_use]
    pub fn total(&self) -> Span {
        self.network + self.queue + self.service
    }
}

/// Expected service time of a sub-request and of its slowest sibling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubrequestEstimate {
    /// This sub-request.
    pub service: Span,
    /// Slowest of all sub-requests of the request, this one included.
    pub slowest: Span,
}

/// Time left until a deadline, or time since it was missed.
///
/// Ordered by urgency: the longest missed first, then the least time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Time left, more than zero.
    Left(Span),
    /// Time since the deadline; zero at the deadline itself. The application decides
    /// how to react (D2P §3).
    Missed(Span),
}

impl Remaining {
    /// `expected − elapsed`.
    #[must_use]
    pub fn of(expected: Span, elapsed: Span) -> Self {
        if elapsed < expected { Self::Left(expected - elapsed) } else { Self::Missed(elapsed - expected) }
    }

    /// Time left; zero when missed.
    #[must_use]
    pub fn left(self) -> Span {
        match self {
            Self::Left(span) => span,
            Self::Missed(_) => Span::ZERO,
        }
    }

    /// True if no time is left.
    #[must_use]
    pub fn is_missed(self) -> bool {
        matches!(self, Self::Missed(_))
    }
}

impl Ord for Remaining {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Left(a), Self::Left(b)) => a.cmp(b),
            (Self::Missed(a), Self::Missed(b)) => b.cmp(a),
            (Self::Missed(_), Self::Left(_)) => std::cmp::Ordering::Less,
            (Self::Left(_), Self::Missed(_)) => std::cmp::Ordering::Greater,
        }
    }
}

impl PartialOrd for Remaining {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Deadline field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    expected: Span,
    elapsed: Span,
    reserve: Span,
    split: bool,
    estimate: Option<SubrequestEstimate>,
    stages: [StageTime; STAGES_MAX],
    stages_len: u8,
}

impl Budget {
    /// Budget of a request created now with response time limit `expected`
    /// (`expected_deadline`).
    #[must_use]
    pub fn new(expected: Span) -> Self {
        Self {
            expected,
            elapsed: Span::ZERO,
            reserve: Span::ZERO,
            split: false,
            estimate: None,
            stages: Default::default(),
            stages_len: 0,
        }
    }

    /// True if the request has a deadline; false if its limit is `Span::MAX`.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.expected < Span::MAX
    }

    /// Budget of a request created `elapsed` ago with known `stages`; stages beyond
    /// [`STAGES_MAX`] are discarded.
    #[must_use]
    pub fn restored(expected: Span, elapsed: Span, stages: &[StageTime]) -> Self {
        let mut budget = Self { elapsed, ..Self::new(expected) };
        let known = stages.len().min(STAGES_MAX);
        budget.stages[..known].copy_from_slice(&stages[..known]);
        budget.stages_len = known as u8;
        budget
    }

    /// Response time limit set by the user (`expected_deadline`).
    #[must_use]
    pub fn expected(&self) -> Span {
        self.expected
    }

    /// Time since the request was created (`elapsed_time`, D2P (2)).
    #[must_use]
    pub fn elapsed(&self) -> Span {
        self.elapsed
    }

    /// Time reserved for the aggregate phase; zero for requests that were not split.
    #[must_use]
    pub fn reserve(&self) -> Span {
        self.reserve
    }

    /// Total time for this request: expected less reserve.
    #[must_use]
    pub fn granted(&self) -> Span {
        self.expected - self.reserve
    }

    /// Remaining part of [`granted`](Self::granted) (`deadline` in D2P, equation 3).
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        Remaining::of(self.granted(), self.elapsed)
    }

    /// True if the request was split into sub-requests (`PU_flag`), so the formulas of the
    /// parallel-unit model apply.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.split
    }

    /// Stages passed, in order; at most [`STAGES_MAX`].
    #[must_use]
    pub fn stages(&self) -> &[StageTime] {
        &self.stages[..self.stages_len as usize]
    }

    /// Budget after `stage`.
    #[must_use]
    pub fn after(mut self, stage: StageTime) -> Self {
        self.elapsed += stage.total();
        let at = (self.stages_len as usize).min(STAGES_MAX - 1);
        let row = &mut self.stages[at];
        row.network += stage.network;
        row.queue += stage.queue;
        row.service += stage.service;
        self.stages_len = at as u8 + 1;
        self
    }

    /// Budget after a network delay of `network`. The delay is an estimate, so it is
    /// recorded under no stage.
    #[must_use]
    pub fn delayed(mut self, network: Span) -> Self {
        self.elapsed += network;
        self
    }

    /// Budget of a sub-request. `reserve`, capped at all of the budget, is kept for the
    /// aggregate phase.
    #[must_use]
    pub fn split(mut self, reserve: Span) -> Self {
        self.reserve = self.expected.min(self.reserve + reserve);
        self.split = true;
        self
    }

    /// Budget of a sub-request with the aggregator's estimate of its service time. The
    /// worker uses it, instead of its own average, to order and drop. Valid for the next
    /// queue only.
    #[must_use]
    pub fn with_estimate(mut self, estimate: SubrequestEstimate) -> Self {
        self.estimate = Some(estimate);
        self
    }

    /// Estimate set by the aggregator, if any.
    #[must_use]
    pub fn estimate(&self) -> Option<SubrequestEstimate> {
        self.estimate
    }

    /// Budget without the aggregator's estimate.
    #[must_use]
    pub fn without_estimate(mut self) -> Self {
        self.estimate = None;
        self
    }

    /// Budget for the aggregate phase: without reserve and estimate.
    #[must_use]
    pub fn for_aggregation(mut self) -> Self {
        self.reserve = Span::ZERO;
        self.estimate = None;
        self
    }

    /// Budget of a new request with the time that this one has left: nothing elapsed, no stages.
    #[must_use]
    pub fn without_past(self) -> Self {
        let left = self.granted() - self.elapsed;
        let expected = if self.is_limited() { self.reserve + left } else { self.expected };
        let (reserve, split, estimate) = (self.reserve, self.split, self.estimate);
        Self { reserve, split, estimate, ..Self::new(expected) }
    }

    /// Budget with at most `left` remaining: the caller has a shorter timeout, or the peer
    /// is not trusted.
    #[must_use]
    pub fn capped(mut self, left: Span) -> Self {
        self.expected = self.expected.min(self.elapsed + self.reserve + left);
        self
    }
}
