//! Strict priority: no entry waits for a less urgent one.
//!
//! Any discipline serves as a level: FISH's queue is strict priority over round
//! robin over FIFO. Starves less urgent levels by design; [`Strict::with_age_max`]
//! adds aging, [`Drr`] shares instead.
//! Source: ADPS §2.3 (receive buffer and event queue). Aging is an addition.
//!
//! [`Drr`]: super::Drr

use super::aging::Aging;
use super::bands::Bands;
use super::{Discipline, Entry, Fifo, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Priority, PrioritySet, Span, Time};

/// Serves the most urgent non-empty level first; `D` orders each level.
///
/// Starvation: unbounded for every level but the most urgent, whose bound is
/// that of its `D`; bounded for all with aging. With push-out, an entry may also
/// leave those levels unserved; `push` returns it.
#[derive(Clone, Debug)]
pub struct Strict<D>(Bands<D>);

impl<T> Strict<Fifo<T>> {
    /// Serves the oldest entry, once it has waited for `age_max`, after
    /// [`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW) consecutive pops in order.
    #[must_use]
    pub const fn with_age_max(mut self, age_max: Span) -> Self {
        self.0.aging = Aging::new(age_max);
        self
    }
}

impl<D> Strict<D> {
    /// Queue of at most `capacity` entries over all levels. `level` makes each
    /// level's queue, whose own capacity applies too.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize, level: impl FnMut(Priority) -> D) -> Self {
        Self(Bands::new(capacity, level))
    }

    /// Lets a more urgent entry evict one of the least urgent level when the
    /// queue is full, instead of being refused. Within that level its own queue
    /// decides ([`Discipline::replace`]).
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.0.push_out = true;
        self
    }

    /// Levels with queued entries.
    #[must_use]
    pub const fn levels_used(&self) -> PrioritySet {
        self.0.used()
    }
}

impl<T: Entry, D: Discipline<T>> Discipline<T> for Strict<D> {
    #[inline]
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        self.0.push(now, entry)
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<T> {
        self.pop_among(now, PrioritySet::ALL)
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.0.oldest::<T>()
    }

    fn starvation(&self) -> StarvationBound {
        if self.0.aging.ages() {
            return self.0.aging.starvation(self.0.capacity);
        }
        match self.0.level_starvation::<T>() {
            StarvationBound::Unbounded { from: Priority::HIGHEST } => {
                StarvationBound::Unbounded { from: Priority::HIGHEST }
            }
            _ => StarvationBound::Unbounded { from: Priority::new(1).expect("there are eight levels") },
        }
    }

    /// With aging, `false`: a pop changes the count of pops in order.
    #[inline]
    fn passes(&self, entry: &T) -> bool {
        !self.0.aging.ages() && self.0.level(entry).passes(entry)
    }

    /// Evicts an entry of the least urgent level.
    fn evict(&mut self, now: Time) -> Option<T> {
        self.0.evict(now)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        self.0.replace(now, entry)
    }
}

impl<T: Entry, D: Discipline<T>> SelectiveDequeue<T> for Strict<D> {
    #[inline]
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T> {
        let ready = self.0.used().and(wanted);
        let first = ready.first()?;
        let level = self.0.due_for_age::<T>(now, ready).unwrap_or(first);
        self.0.pop_with(level, |queue| queue.pop(now))
    }
}
