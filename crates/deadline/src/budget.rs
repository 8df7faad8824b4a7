//! How much time a request has left, and where the rest went.
//!
//! Counted in spans since the request was born, never in instants: what one
//! machine's clock says means nothing to another's. A budget is a value; it
//! changes when a stage is added to it, not by itself ([`StageTimer`] does the
//! counting while a request is at a stage).
//! Source: D2P §3, the deadline field `(deadline, PU_flag)`.
//!
//! [`StageTimer`]: crate::Visit

use queueing::Span;

/// Stages that are told apart; what later ones take is added to the last.
pub const STAGES_MAX: usize = 8;

/// Where a request spent its time at one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// On the way to it: C of the hop before.
    pub network: Span,
    /// Waiting for its turn.
    pub queue: Span,
    /// Being served, calls to other services included.
    pub service: Span,
}

impl Stage {
    /// All of it: `C(S_{i-1}) + L(S_i)`.
    #[must_use]
    pub fn total(&self) -> Span {
        self.network + self.queue + self.service
    }
}

/// What a sub-request is expected to take once its turn has come, and the
/// slowest of those that are waited for together with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubrequestEstimate {
    /// This one.
    pub service: Span,
    /// The slowest of all, this one included.
    pub slowest: Span,
}

/// What is left of an expected deadline, or by how much it was missed.
///
/// Ordered by urgency: the least time left first, the longest overdue before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Time left, more than zero.
    Left(Span),
    /// Nothing left since this long; zero at the very instant. What to do
    /// then is the application's to decide (D2P §3).
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

    /// Whether nothing is left.
    #[must_use]
    pub fn is_missed(self) -> bool {
        matches!(self, Self::Missed(_))
    }
}

impl Ord for Remaining {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Left(mine), Self::Left(theirs)) => mine.cmp(theirs),
            (Self::Missed(mine), Self::Missed(theirs)) => theirs.cmp(mine),
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

/// A request's deadline field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    expected: Span,
    elapsed: Span,
    reserve: Span,
    split: bool,
    estimate: Option<SubrequestEstimate>,
    stages: [Stage; STAGES_MAX],
    stages_len: u8,
}

impl Budget {
    /// A request born now, whose user waits for `expected`
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

    /// A request that was born `elapsed` ago and passed `stages`, as far as
    /// that is known; those beyond [`STAGES_MAX`] are left out.
    #[must_use]
    pub fn restored(expected: Span, elapsed: Span, stages: &[Stage]) -> Self {
        let mut budget = Self { elapsed, ..Self::new(expected) };
        let known = stages.len().min(STAGES_MAX);
        budget.stages[..known].copy_from_slice(&stages[..known]);
        budget.stages_len = known as u8;
        budget
    }

    /// The response time the user asked for (`expected_deadline`).
    #[must_use]
    pub fn expected(&self) -> Span {
        self.expected
    }

    /// Time since the request was born (`elapsed_time`, D2P (2)).
    #[must_use]
    pub fn elapsed(&self) -> Span {
        self.elapsed
    }

    /// Kept for the aggregate phase; zero unless it was split.
    #[must_use]
    pub fn reserve(&self) -> Span {
        self.reserve
    }

    /// What this request may take altogether: what was expected less the reserve.
    #[must_use]
    pub fn granted(&self) -> Span {
        self.expected - self.reserve
    }

    /// What is left of it (`deadline`, D2P (3)).
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        Remaining::of(self.granted(), self.elapsed)
    }

    /// Whether it was split into sub-requests, so that the formulas of the
    /// parallel unit hold (`PU_flag`).
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.split
    }

    /// The stages it passed, in order; at most [`STAGES_MAX`].
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages[..self.stages_len as usize]
    }

    /// This budget after `stage`.
    #[must_use]
    pub fn after(mut self, stage: Stage) -> Self {
        self.elapsed += stage.total();
        let at = (self.stages_len as usize).min(STAGES_MAX - 1);
        let row = &mut self.stages[at];
        row.network += stage.network;
        row.queue += stage.queue;
        row.service += stage.service;
        self.stages_len = at as u8 + 1;
        self
    }

    /// This budget as it will arrive after `network` on the way: taken off,
    /// and shown under no stage, since nobody has measured it yet.
    #[must_use]
    pub fn delayed(mut self, network: Span) -> Self {
        self.elapsed += network;
        self
    }

    /// This budget for one of the sub-requests it is split into, which must be
    /// back `reserve` early: that much is kept for the aggregate phase, at the
    /// most everything.
    #[must_use]
    pub fn split(mut self, reserve: Span) -> Self {
        self.reserve = self.expected.min(self.reserve + reserve);
        self.split = true;
        self
    }

    /// This budget for one of the sub-requests, with what the aggregator
    /// expects of it: the worker orders and drops by that instead of by what
    /// it learned of all requests together. Holds for the next queue only.
    #[must_use]
    pub fn with_estimate(mut self, estimate: SubrequestEstimate) -> Self {
        self.estimate = Some(estimate);
        self
    }

    /// What the aggregator expects of this sub-request, if it said so.
    #[must_use]
    pub fn estimate(&self) -> Option<SubrequestEstimate> {
        self.estimate
    }

    /// This budget without what was expected of it.
    #[must_use]
    pub fn without_estimate(mut self) -> Self {
        self.estimate = None;
        self
    }

    /// This budget for the aggregate phase, for which the reserve was kept.
    #[must_use]
    pub fn for_aggregation(mut self) -> Self {
        self.reserve = Span::ZERO;
        self.estimate = None;
        self
    }

    /// This budget with at most `left` remaining: what a shorter timeout of
    /// the caller, or of a peer that is not trusted, leaves of it.
    #[must_use]
    pub fn capped(mut self, left: Span) -> Self {
        self.expected = self.expected.min(self.elapsed + self.reserve + left);
        self
    }
}
