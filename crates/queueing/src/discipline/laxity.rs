//! LLF: least laxity first.
//!
//! Laxity is the remaining budget minus the service time, so of two requests
//! with one deadline the longer starts first. It is computed at the push, since
//! the laxity of all queued entries shrinks equally. The budget is at most the
//! queue's `budget_max`, as in [`Edf`]. An entry that can no longer meet its
//! deadline is due now, not overdue: a long service time must not overtake
//! entries that already wait.
//! Source: Mok, MIT PhD thesis 1983 (least laxity).
//!
//! [`Edf`]: super::Edf

use super::rank_index::RankIndex;
use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the entry with the earliest latest start; ties in order of arrival.
///
/// Starvation: no entry pushed more than `budget_max` later is served first.
#[derive(Clone, Debug)]
pub struct Laxity<T> {
    queue: RankIndex<T>,
    budget_max: Span,
}

impl<T> Laxity<T> {
    /// Queue of at most `capacity` entries, each with a budget of at most `budget_max`.
    ///
    /// # Panics
    /// If `capacity` is zero or 2^32 - 1 and more.
    #[must_use]
    pub fn new(capacity: usize, budget_max: Span) -> Self {
        Self { queue: RankIndex::new(capacity), budget_max }
    }

    /// Earliest latest start of the queued entries.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.queue.rank().map(Time::from_nanos)
    }
}

impl<T: Entry> Discipline<T> for Laxity<T> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        let budget = entry.label().deadline.unwrap_or(self.budget_max).min(self.budget_max);
        let start_max = now + budget.saturating_sub(entry.service());
        self.queue.push(now, start_max.as_nanos(), entry)
    }

    fn pop(&mut self, _now: Time) -> Option<T> {
        self.queue.pop(PrioritySet::ALL)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    fn starvation(&self) -> StarvationBound {
        StarvationBound::Window { span: self.budget_max }
    }
}

impl<T: Entry> SelectiveDequeue<T> for Laxity<T> {
    fn pop_among(&mut self, _now: Time, wanted: PrioritySet) -> Option<T> {
        self.queue.pop(wanted)
    }
}
