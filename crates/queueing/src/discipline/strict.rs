//! Strict priority: nothing waits behind something less urgent.
//!
//! Any discipline serves as a level, so FISH's queue is strict over round
//! robin over FIFO. A bitmap of the levels in use makes push and pop O(1).
//! Starves the less urgent by design; who cannot accept that lets entries age
//! ([`Strict::with_age_max`]) or shares by [`Drr`].
//! Source: ADPS §2.3 (receive buffer and event queue); aging is ours.
//!
//! [`Drr`]: super::Drr

use super::{Discipline, Entry, Fifo, Pushed, Selective, Starvation};
use crate::{Priority, PrioritySet, Span, Time};

/// Serves the most urgent non-empty level first; `D` orders each level.
///
/// Starvation: unbounded for every level but the most urgent, whose bound is
/// that of its `D`; bounded for all where entries age. With push-out an entry of those levels may also have to
/// leave without service, and comes back to the caller.
#[derive(Clone, Debug)]
pub struct Strict<D> {
    levels: [D; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    capacity: usize,
    push_out: bool,
    /// How long an entry waits before it is old; `Span::MAX` for ever.
    age_max: Span,
    /// An instant before which none of the waiting was pushed.
    not_older: Time,
    /// Whether the last pop went to the oldest.
    rescued: bool,
}

impl<T> Strict<Fifo<T>> {
    /// Once the oldest entry has waited `age_max`, every other pop goes to the
    /// oldest: at most every other, so that in lasting overload, when
    /// everybody is old, half the service is still the most urgent's.
    #[must_use]
    pub const fn with_age_max(mut self, age_max: Span) -> Self {
        self.age_max = age_max;
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
    pub fn new(capacity: usize, mut level: impl FnMut(Priority) -> D) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        let levels =
            std::array::from_fn(|i| level(Priority::new(i as u8).expect("an array index is a level")));
        Self {
            levels,
            used: PrioritySet::NONE,
            len: 0,
            capacity,
            push_out: false,
            age_max: Span::MAX,
            not_older: Time::ZERO,
            rescued: false,
        }
    }

    /// When full, lets a more urgent entry take the place of one from the
    /// least urgent level instead of refusing it; one of that level itself,
    /// if the level's own queue says so ([`Discipline::replace`]).
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

    /// The level of the oldest entry of `ready`, if that is old.
    #[cold]
    fn aged<T: Entry>(&mut self, now: Time, ready: PrioritySet) -> Option<Priority>
    where
        D: Discipline<T>,
    {
        let oldest = |level: Priority| Some((self.levels[level.index()].oldest()?, level));
        let (pushed, level) = ready.iter().filter_map(oldest).min()?;
        if ready == self.used {
            self.not_older = pushed;
        }
        (now.since(pushed) >= self.age_max).then_some(level)
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
        if full {
            match self.used.last() {
                Some(least) if self.push_out && least > priority => {}
                Some(least) if self.push_out && least == priority => {
                    return self.levels[priority.index()].replace(now, entry);
                }
                _ => return Pushed::Refused(entry),
            }
        }
        if self.len == 0 {
            self.not_older = now;
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

    /// Of those older than an old entry, at most `capacity - 1`, each may go
    /// first, and before each of them and before the entry one more urgent.
    fn starvation(&self) -> Starvation {
        if self.age_max < Span::MAX {
            return Starvation::Aged { span: self.age_max, entries: 2 * self.capacity as u64 - 1 };
        }
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
        let ready = self.used.and(wanted);
        let mut priority = ready.first()?;
        if !self.rescued && now.since(self.not_older) >= self.age_max {
            let rescue = self.aged(now, ready);
            self.rescued = rescue.is_some();
            priority = rescue.unwrap_or(priority);
        } else {
            self.rescued = false;
        }
        self.take(priority, |level| level.pop(now))
    }
}
