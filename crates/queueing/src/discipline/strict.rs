//! Strict priority: nothing waits behind something less urgent.
//!
//! Any discipline serves as a level, so FISH's queue is strict over round
//! robin over FIFO. A bitmap of the levels in use makes push and pop O(1).
//! Starves the less urgent by design; who cannot accept that takes [`Drr`].
//! Source: ADPS §2.3 (receive buffer and event queue).
//!
//! [`Drr`]: super::Drr

use super::{Discipline, Entry, Pushed, Selective, Starvation};
use crate::{Priority, PrioritySet, Time};

/// Serves the most urgent non-empty level first; `D` orders each level.
///
/// Starvation: unbounded for every level but the most urgent, whose bound is
/// that of its `D`. With push-out an entry of those levels may also have to
/// leave without service, and comes back to the caller.
#[derive(Clone, Debug)]
pub struct Strict<D> {
    levels: [D; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    capacity: usize,
    push_out: bool,
}

impl<D> Strict<D> {
    /// At most `capacity` entries over all levels; `level` makes each level's
    /// queue, whose own capacity holds too.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize, mut level: impl FnMut(Priority) -> D) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        let levels =
            std::array::from_fn(|i| level(Priority::new(i as u8).expect("an array index is a level")));
        Self { levels, used: PrioritySet::NONE, len: 0, capacity, push_out: false }
    }

    /// When full, lets a more urgent entry take the place of one from the
    /// least urgent level instead of refusing it.
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.push_out = true;
        self
    }

    /// The levels at which something waits.
    #[must_use]
    pub const fn levels_used(&self) -> PrioritySet {
        self.used
    }

    #[inline]
    fn take<T: Entry>(&mut self, priority: Priority, take: impl FnOnce(&mut D) -> Option<T>) -> Option<T>
    where
        D: Discipline<T>,
    {
        let level = &mut self.levels[priority.index()];
        let entry = take(level)?;
        if level.is_empty() {
            self.used = self.used.without(priority);
        }
        self.len -= 1;
        Some(entry)
    }
}

impl<T: Entry, D: Discipline<T>> Discipline<T> for Strict<D> {
    #[inline]
    fn push(&mut self, now: Time, entry: T) -> Pushed<T> {
        let priority = entry.label().priority;
        let full = self.len == self.capacity;
        if full && !(self.push_out && self.used.last().is_some_and(|least| least > priority)) {
            return Pushed::Refused(entry);
        }
        let outcome = self.levels[priority.index()].push(now, entry);
        if !matches!(outcome, Pushed::Queued) {
            return outcome;
        }
        self.used = self.used.with(priority);
        self.len += 1;
        if full { self.evict(now).map_or(Pushed::Queued, Pushed::PushedOut) } else { Pushed::Queued }
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<T> {
        self.pop_among(now, PrioritySet::ALL)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn oldest(&self) -> Option<Time> {
        self.used.iter().filter_map(|priority| self.levels[priority.index()].oldest()).min()
    }

    fn starvation(&self) -> Starvation {
        match self.levels[0].starvation() {
            Starvation::Unbounded { from: Priority::HIGHEST } => {
                Starvation::Unbounded { from: Priority::HIGHEST }
            }
            _ => Starvation::Unbounded { from: Priority::new(1).expect("there are eight levels") },
        }
    }

    /// One of the least urgent level.
    fn evict(&mut self, now: Time) -> Option<T> {
        let least = self.used.last()?;
        self.take(least, |level| level.evict(now))
    }
}

impl<T: Entry, D: Discipline<T>> Selective<T> for Strict<D> {
    #[inline]
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T> {
        let priority = self.used.and(wanted).first()?;
        self.take(priority, |level| level.pop(now))
    }
}
