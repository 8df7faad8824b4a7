//! A queue per level, and what every order between levels shares.
//!
//! Which levels are in use (a bitmap, so that push and pop are O(1)), room in
//! common and who gives it up, and whose age calls for rescue. Which level
//! goes next is said by [`Strict`] and [`Drr`].
//!
//! [`Strict`]: super::Strict
//! [`Drr`]: super::Drr

use super::{Discipline, Entry, PASSED_IN_A_ROW, Pushed, Starvation};
use crate::{Priority, PrioritySet, Span, Time};

#[derive(Clone, Debug)]
pub(super) struct Bands<D> {
    levels: [D; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    pub capacity: usize,
    pub push_out: bool,
    /// How long an entry waits before it is old; `Span::MAX` for ever.
    pub age_max: Span,
    /// An instant before which none of the waiting was pushed.
    not_older: Time,
    /// Pops in a row that did not go to the oldest for its age.
    in_order: u8,
}

impl<D> Bands<D> {
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
            in_order: PASSED_IN_A_ROW,
        }
    }

    /// The levels at which something waits.
    #[inline]
    pub const fn used(&self) -> PrioritySet {
        self.used
    }

    /// The queue of `entry`'s level.
    #[inline]
    pub fn level<T: Entry>(&self, entry: &T) -> &D {
        &self.levels[entry.label().priority.index()]
    }

    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn push<T: Entry>(&mut self, now: Time, entry: T) -> Pushed<T>
    where
        D: Discipline<T>,
    {
        if self.len == self.capacity {
            return self.replace(now, entry);
        }
        self.insert(now, entry)
    }

    #[inline]
    fn insert<T: Entry>(&mut self, now: Time, entry: T) -> Pushed<T>
    where
        D: Discipline<T>,
    {
        if self.len == 0 {
            self.not_older = now;
        }
        let priority = entry.label().priority;
        let outcome = self.levels[priority.index()].push(now, entry);
        if matches!(outcome, Pushed::Queued) {
            self.used = self.used.with(priority);
            self.len += 1;
        }
        outcome
    }

    /// Takes `entry` into a full queue: where push-out is on, in the place of
    /// one of the least urgent level, if that is less urgent than its own; if
    /// it is its own, that level's queue says.
    #[cold]
    pub fn replace<T: Entry>(&mut self, now: Time, entry: T) -> Pushed<T>
    where
        D: Discipline<T>,
    {
        let priority = entry.label().priority;
        match self.used.last() {
            Some(least) if self.push_out && least > priority => match self.insert(now, entry) {
                Pushed::Queued => self.evict(now).map_or(Pushed::Queued, Pushed::PushedOut),
                outcome => outcome,
            },
            Some(least) if self.push_out && least == priority => {
                self.levels[priority.index()].replace(now, entry)
            }
            _ => Pushed::Refused(entry),
        }
    }

    /// Gives up one of the least urgent level.
    pub fn evict<T: Entry>(&mut self, now: Time) -> Option<T>
    where
        D: Discipline<T>,
    {
        let least = self.used.last()?;
        self.take(least, |level| level.evict(now))
    }

    /// Takes an entry of the level `priority`.
    #[inline]
    pub fn take<T: Entry>(&mut self, priority: Priority, take: impl FnOnce(&mut D) -> Option<T>) -> Option<T>
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

    pub fn oldest<T: Entry>(&self) -> Option<Time>
    where
        D: Discipline<T>,
    {
        self.used.iter().filter_map(|priority| self.levels[priority.index()].oldest()).min()
    }

    /// The level of the oldest entry of `ready`, if that is old and the last
    /// [`PASSED_IN_A_ROW`] pops went in order.
    #[inline]
    pub fn rescue<T: Entry>(&mut self, now: Time, ready: PrioritySet) -> Option<Priority>
    where
        D: Discipline<T>,
    {
        let is_due = self.in_order >= PASSED_IN_A_ROW && now.since(self.not_older) >= self.age_max;
        let rescue = if is_due { self.aged::<T>(now, ready) } else { None };
        self.in_order = if rescue.is_some() { 0 } else { self.in_order.saturating_add(1) };
        rescue
    }

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

    /// The bound of each level's own queue.
    pub fn level_starvation<T: Entry>(&self) -> Starvation
    where
        D: Discipline<T>,
    {
        self.levels[0].starvation()
    }
}
