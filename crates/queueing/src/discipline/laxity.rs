//! Least laxity first: who must start soonest.
//!
//! Laxity is what is left of the budget once the service itself is taken off,
//! so of two requests due together the longer one starts first. It is fixed
//! at the push: among waiting entries laxity shrinks equally, so their order
//! never changes. As in [`Edf`], nobody is more patient than the queue, and
//! an entry that can no longer be on time counts as due now, not as overdue:
//! a long service must not buy a place ahead of those who waited.
//! Source: Mok, MIT PhD thesis 1983 (least laxity).
//!
//! [`Edf`]: super::Edf

use super::rank_index::RankIndex;
use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the entry whose latest start comes first; ties in order of arrival.
///
/// Starvation: nothing pushed more than `patience` after an entry goes before it.
#[derive(Clone, Debug)]
pub struct Laxity<T> {
    queue: RankIndex<T>,
    patience: Span,
}

impl<T> Laxity<T> {
    /// At most `capacity` entries, each with a budget of at most `patience`.
    ///
    /// # Panics
    /// When `capacity` is zero or 2³² − 1 and more.
    #[must_use]
    pub fn new(capacity: usize, patience: Span) -> Self {
        Self { queue: RankIndex::new(capacity), patience }
    }

    /// The earliest latest start among the waiting.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.queue.rank().map(Time::from_nanos)
    }
}

impl<T: Entry> Discipline<T> for Laxity<T> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        let budget = entry.label().deadline.unwrap_or(self.patience).min(self.patience);
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
        StarvationBound::Window { span: self.patience }
    }
}

impl<T: Entry> SelectiveDequeue<T> for Laxity<T> {
    fn pop_among(&mut self, _now: Time, wanted: PrioritySet) -> Option<T> {
        self.queue.pop(wanted)
    }
}
