//! Bands: one queue per priority level, with shared capacity.
//!
//! Holds what all orders between levels share: a bitmap of levels in use, so
//! that push and pop are O(1); common capacity and push-out; aging. Does not
//! choose the next level; [`Strict`] and [`Drr`] do.
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
    /// Lower bound of the push times of queued entries.
    pushed_min: Time,
}

impl<D> Bands<D> {
    pub fn new(capacity: usize, mut level: impl FnMut(Priority) -> D) -> Self {
        assert!(capacity > 0, "capacity 0 is not above 0");
        let levels =
            std::array::from_fn(|i| level(Priority::new(i as u8).expect("an array index is a level")));
        Self {
            levels,
            used: PrioritySet::NONE,
            len: 0,
            capacity,
            push_out: false,
            aging: Aging::NEVER,
            pushed_min: Time::ZERO,
        }
    }

    /// Levels with queued entries.
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
            self.pushed_min = now;
        }
        let priority = entry.label().priority;
        let outcome = self.levels[priority.index()].push(now, entry);
        if matches!(outcome, PushResult::Queued) {
            self.used = self.used.with(priority);
            self.len += 1;
        }
        outcome
    }

    /// Pushes `entry` into a full queue. With push-out on, evicts from the least
    /// urgent level, if that is less urgent than `entry`'s; if it is the same,
    /// that level's queue decides.
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

    /// Evicts an entry of the least urgent level.
    pub fn evict<T: Entry>(&mut self, now: Time) -> Option<T>
    where
        D: Discipline<T>,
    {
        let least = self.used.last()?;
        self.pop_with(least, |level| level.evict(now))
    }

    /// Removes an entry of level `priority` with `pop`.
    #[inline]
    pub fn pop_with<T: Entry>(
        &mut self,
        priority: Priority,
        pop: impl FnOnce(&mut D) -> Option<T>,
    ) -> Option<T>
    where
        D: Discipline<T>,
    {
        let level = &mut self.levels[priority.index()];
        let entry = pop(level)?;
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

    /// Level of the oldest entry of `ready`, if its age entitles it to be served now.
    #[inline]
    pub fn due_for_age<T: Entry>(&mut self, now: Time, ready: PrioritySet) -> Option<Priority>
    where
        D: Discipline<T>,
    {
        let may_be_due = self.aging.is_due(now, self.pushed_min);
        let due_for_age = if may_be_due { self.oldest_if_due::<T>(now, ready) } else { None };
        self.aging.on_pop(due_for_age.is_some());
        due_for_age
    }

    #[cold]
    fn oldest_if_due<T: Entry>(&mut self, now: Time, ready: PrioritySet) -> Option<Priority>
    where
        D: Discipline<T>,
    {
        let oldest = |level: Priority| Some((self.levels[level.index()].oldest()?, level));
        let (pushed, level) = ready.iter().filter_map(oldest).min()?;
        if ready == self.used {
            self.pushed_min = pushed;
        }
        self.aging.is_due(now, pushed).then_some(level)
    }

    /// Starvation bound of each level's queue.
    pub fn level_starvation<T: Entry>(&self) -> StarvationBound
    where
        D: Discipline<T>,
    {
        self.levels[0].starvation()
    }
}
