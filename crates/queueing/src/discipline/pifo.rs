//! PIFO: serves entries in order of a rank computed at the push.
//!
//! Least rank first, ties in order of arrival. FIFO, LIFO, deadlines or an
//! application's own order are one line each. A rank says nothing of age, so
//! aging bounds the wait: while the oldest entry is older than `age_max`, it is
//! served after [`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW) others.
//! Source: PIFO (Sivaraman et al., SIGCOMM '16) §2, the push-in first-out queue.

use super::aging::Aging;
use super::rank_index::RankIndex;
use super::{Discipline, Entry, EntryHandle, PushResult, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the least rank first, with aging.
///
/// Starvation: after `age_max`, at most
/// `(`[`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW)` + 1) × capacity - 1` entries are served first.
#[derive(Clone, Debug)]
pub struct Pifo<T, F> {
    queue: RankIndex<T>,
    rank: F,
    aging: Aging,
    capacity: usize,
}

impl<T, F> Pifo<T, F> {
    /// Queue of at most `capacity` entries, in the order of `rank(now, &entry)` at
    /// the push. Entries older than `age_max` are old.
    ///
    /// # Panics
    /// If `capacity` is zero or 2^32 - 1 and more.
    #[must_use]
    pub fn new(capacity: usize, age_max: Span, rank: F) -> Self {
        Self { queue: RankIndex::new(capacity), rank, aging: Aging::new(age_max), capacity }
    }

    /// Entry of the least rank. Aging may serve the oldest before it.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.queue.peek()
    }

    /// Oldest entry.
    #[must_use]
    pub fn peek_oldest(&self) -> Option<&T> {
        self.queue.peek_oldest()
    }

    /// Removes the oldest entry, whatever its rank.
    pub fn pop_oldest(&mut self) -> Option<T> {
        self.queue.pop_oldest()
    }

    /// Handle of the newest entry, unless it has left.
    #[must_use]
    pub fn newest(&self) -> Option<EntryHandle> {
        self.queue.newest()
    }

    /// Removes the entry of `handle`, whatever its rank; `None` if it has left.
    /// O(log n), amortised.
    pub fn remove(&mut self, handle: EntryHandle) -> Option<T> {
        self.queue.remove(handle)
    }
}

impl<T: Entry, F: FnMut(Time, &T) -> u64> Discipline<T> for Pifo<T, F> {
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        let rank = (self.rank)(now, &entry);
        self.queue.push(now, rank, entry)
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        let for_age = self.oldest().is_some_and(|pushed| self.aging.is_due(now, pushed));
        self.aging.on_pop(for_age);
        if for_age { self.queue.pop_oldest() } else { self.queue.pop(PrioritySet::ALL) }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    fn starvation(&self) -> StarvationBound {
        self.aging.starvation(self.capacity)
    }
}
