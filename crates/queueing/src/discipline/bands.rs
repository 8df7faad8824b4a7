//! A queue per level, and what every order between levels shares.
//!
//! Which levels are in use (a bitmap, so that push and pop are O(1)), room in
//! common and who gives it up, and whose age calls for rescue. Which level
//! goes next is said by [`Strict`] and [`Drr`].
//!
//! [`Strict`]: super::Strict
//! [`Drr`]: super::Drr

use super::aging::Aging;
use super::{Discipline, Entry, PushResult, StarvationBound};
use crate::{Priority, PrioritySet, Time};

#[derive(Clone, Debug)]
pub(super) struct Bands<D> {
    levels: [D; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    pub capacity: usize,
    pub push_out: bool,
    pub aging: Aging,
    /// An instant before which none of the waiting was pushed.
    not_older: Time,
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
            aging: Aging::NEVER,
            not_older: Time::ZERO,
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
    pub fn push<T: Entry>(&mut self, now: Time, entry: T) -> PushResult<T>
    where
        D: Discipline<T>,
    {
        if self.len == self.capacity {
            return self.replace(now, entry);
        }
        self.insert(now, entry)
    }

    #[inline]
    fn insert<T: Entry>(&mut self, now: Time, entry: T) -> PushResult<T>
    where
        D: Discipline<T>,
    {
        if self.len == 0 {
            self.not_older = now;
        }
        let priority = entry.label().priority;
        let outcome = self.levels[priority.index()].push(now, entry);
        if matches!(outcome, PushResult::Queued) {
            self.used = self.used.with(priority);
            self.len += 1;
        }
        outcome
    }

    /// Takes `entry` into a full queue: where push-out is on, in the place of
    /// one of the least urgent level, if that is less urgent than its own; if
    /// it is its own, that level's queue says.
    #[cold]
    pub fn replace<T: Entry>(&mut self, now: Time, entry: T) -> PushResult<T>
    where
        D: Discipline<T>,
    {
        let priority = entry.label().priority;
        match self.used.last() {
            Some(least) if self.push_out && least > priority => match self.insert(now, entry) {
                PushResult::Queued => self.evict(now).map_or(PushResult::Queued, PushResult::PushedOut),
                outcome => outcome,
            },
            Some(least) if self.push_out && least == priority => {
                self.levels[priority.index()].replace(now, entry)
            }
            _ => PushResult::Refused(entry),
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

    /// The level of the oldest entry of `ready`, if that goes first for its age.
    #[inline]
    pub fn rescue<T: Entry>(&mut self, now: Time, ready: PrioritySet) -> Option<Priority>
    where
        D: Discipline<T>,
    {
        let may_be_due = self.aging.is_due(now, self.not_older);
        let rescue = if may_be_due { self.aged::<T>(now, ready) } else { None };
        self.aging.on_pop(rescue.is_some());
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
        self.aging.is_due(now, pushed).then_some(level)
    }

    /// The bound of each level's own queue.
    pub fn level_starvation<T: Entry>(&self) -> StarvationBound
    where
        D: Discipline<T>,
    {
        self.levels[0].starvation()
    }
}
