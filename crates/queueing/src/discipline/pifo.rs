//! Any order that a function of the entry gives.
//!
//! The rank is fixed at the push, least first, ties in order of arrival; so
//! first come, last come, deadline order and an application's own mixture are
//! each one line. A rank says nothing of age, so age is looked after here: as
//! long as the oldest entry has waited longer than `age_max`, it has a turn
//! after [`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW) others, which bounds every wait.
//! Source: PIFO (Sivaraman et al., SIGCOMM '16) §2, a queue one pushes into by rank.

use super::aging::Aging;
use super::rank_index::RankIndex;
use super::{Discipline, Entry, EntryHandle, PushResult, StarvationBound};
use crate::{PrioritySet, Span, Time};

/// Serves the least rank first; the old in between.
///
/// Starvation: after `age_max` at most `(`[`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW)` + 1) × capacity - 1` entries go first.
#[derive(Clone, Debug)]
pub struct Pifo<T, F> {
    queue: RankIndex<T>,
    rank: F,
    aging: Aging,
    capacity: usize,
}

impl<T, F> Pifo<T, F> {
    /// At most `capacity` entries in the order of `rank(now, &entry)` at the
    /// push. Entries older than `age_max` are old.
    ///
    /// # Panics
    /// When `capacity` is zero or 2³² − 1 and more.
    #[must_use]
    pub fn new(capacity: usize, age_max: Span, rank: F) -> Self {
        Self { queue: RankIndex::new(capacity), rank, aging: Aging::new(age_max), capacity }
    }

    /// The entry that is next by its rank; where the oldest is old, that one may come before.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.queue.peek()
    }

    /// The entry that was pushed first.
    #[must_use]
    pub fn peek_oldest(&self) -> Option<&T> {
        self.queue.peek_oldest()
    }

    /// Takes the entry that was pushed first, whosever turn it is.
    pub fn pop_oldest(&mut self) -> Option<T> {
        self.queue.pop_oldest()
    }

    /// Names the entry that was pushed last, if it still waits.
    #[must_use]
    pub fn newest(&self) -> Option<EntryHandle> {
        self.queue.newest()
    }

    /// Takes the entry that `ticket` names, whosever turn it is; `None` when
    /// it has left. O(log n) over time.
    pub fn remove(&mut self, ticket: EntryHandle) -> Option<T> {
        self.queue.remove(ticket)
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
