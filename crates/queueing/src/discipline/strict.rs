//! Strict priority: nothing waits behind something less urgent.
//!
//! Any discipline serves as a level, so FISH's queue is strict over round
//! robin over FIFO. Starves the less urgent by design; who cannot accept that
//! lets entries age ([`Strict::with_age_max`]) or shares by [`Drr`].
//! Source: ADPS §2.3 (receive buffer and event queue); aging is ours.
//!
//! [`Drr`]: super::Drr

use super::aging::Aging;
use super::bands::Bands;
use super::{Discipline, Entry, Fifo, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Priority, PrioritySet, Span, Time};

/// Serves the most urgent non-empty level first; `D` orders each level.
///
/// Starvation: unbounded for every level but the most urgent, whose bound is
/// that of its `D`; bounded for all where entries age. With push-out an entry of those levels may also have to
/// leave without service, and comes back to the caller.
#[derive(Clone, Debug)]
pub struct Strict<D>(Bands<D>);

impl<T> Strict<Fifo<T>> {
    /// Once the oldest entry has waited `age_max`, it goes first after
    /// [`PASSED_IN_A_ROW`](super::PASSED_IN_A_ROW) pops in a row did not go to the oldest for its age.
    #[must_use]
    pub const fn with_age_max(mut self, age_max: Span) -> Self {
        self.0.aging = Aging::new(age_max);
        self
    }
}

impl<D> Strict<D> {
    /// At most `capacity` entries over all levels; `level` makes each level's
    /// queue, whose own capacity holds too.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize, level: impl FnMut(Priority) -> D) -> Self {
        Self(Bands::new(capacity, level))
    }

    /// When full, lets a more urgent entry take the place of one from the
    /// least urgent level instead of refusing it; one of that level itself,
    /// if the level's own queue says so ([`Discipline::replace`]).
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.0.push_out = true;
        self
    }

    /// The levels at which something waits.
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

    /// Where entries age, a pop remembers whether it went to the oldest.
    #[inline]
    fn passes(&self, entry: &T) -> bool {
        !self.0.aging.ages() && self.0.level(entry).passes(entry)
    }

    /// One of the least urgent level.
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
        let level = self.0.rescue::<T>(now, ready).unwrap_or(first);
        self.0.take(level, |queue| queue.pop(now))
    }
}
