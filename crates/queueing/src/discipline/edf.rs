//! EDF: earliest deadline first.
//!
//! The deadline is the push time plus the label's remaining budget. An entry
//! without a deadline, or with a later one, is due `budget_max` after its push;
//! this bounds starvation. Does not shed entries that cannot meet their
//! deadline; admission control does.
//! Source: Liu and Layland, JACM 1973, §7.

use super::rank_index::RankIndex;
use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the entry with the earliest deadline; ties in order of arrival.
///
/// Starvation: no entry pushed more than `budget_max` later is served first.
#[derive(Clone, Debug)]
pub struct Edf<T> {
    queue: RankIndex<T>,
    budget_max: Span,
}

impl<T> Edf<T> {
    /// Queue of at most `capacity` entries, each due at most `budget_max` after its push.
    ///
    /// # Panics
    /// If `capacity` is zero or 2^32 - 1 and more.
    #[must_use]
    pub fn new(capacity: usize, budget_max: Span) -> Self {
        Self { queue: RankIndex::new(capacity), budget_max }
    }

    /// Earliest deadline of the queued entries.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.queue.rank().map(Time::from_nanos)
    }
}

impl<T: Entry> Discipline<T> for Edf<T> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        let budget = entry.label().deadline.unwrap_or(self.budget_max).min(self.budget_max);
        self.queue.push(now, (now + budget).as_nanos(), entry)
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

impl<T: Entry> SelectiveDequeue<T> for Edf<T> {
    fn pop_among(&mut self, _now: Time, wanted: PrioritySet) -> Option<T> {
        self.queue.pop(wanted)
    }
}
