//! Earliest deadline first.
//!
//! An entry falls due at its push plus its label's remaining budget. Nobody
//! may be more patient than the queue: an entry without a deadline, or with a
//! longer one, falls due `patience` after its push, which is what keeps it
//! from starving. Does not shed what can no longer be on time; that is
//! admission's business.
//! Source: Liu and Layland, JACM 1973, §7.

use super::rank_index::RankIndex;
use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the entry that falls due first; ties in order of arrival.
///
/// Starvation: nothing pushed more than `patience` after an entry goes before it.
#[derive(Clone, Debug)]
pub struct Edf<T> {
    queue: RankIndex<T>,
    patience: Span,
}

impl<T> Edf<T> {
    /// At most `capacity` entries, each due at most `patience` after its push.
    ///
    /// # Panics
    /// When `capacity` is zero or 2³² − 1 and more.
    #[must_use]
    pub fn new(capacity: usize, patience: Span) -> Self {
        Self { queue: RankIndex::new(capacity), patience }
    }

    /// The earliest deadline among the waiting.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.queue.rank().map(Time::from_nanos)
    }
}

impl<T: Entry> Discipline<T> for Edf<T> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        let budget = entry.label().deadline.unwrap_or(self.patience).min(self.patience);
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
        StarvationBound::Window { span: self.patience }
    }
}

impl<T: Entry> SelectiveDequeue<T> for Edf<T> {
    fn pop_among(&mut self, _now: Time, wanted: PrioritySet) -> Option<T> {
        self.queue.pop(wanted)
    }
}
