//! Deficit round robin over priority levels, with aging.
//!
//! Each level gets its share of the bytes (or of the entries, where every
//! entry counts as one byte) instead of strict precedence. Aging is a second
//! promise: once the oldest entry has waited `age_max`, every other pop goes
//! to the oldest. It takes every other pop at the most, so that under lasting
//! overload, when everybody is old, half the service still follows the shares.
//! Source: Shreedhar and Varghese, SIGCOMM '95; aging is ours.

use std::collections::VecDeque;

use super::{Discipline, Entry, Pushed, Starvation};
use crate::{Bytes, Priority, PrioritySet, Span, Time};

/// How levels share, and when age overrides the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Per level, the bytes it may send per round.
    pub quanta: [Bytes; Priority::LEVELS],
    /// The largest entry; larger ones count as this large. No quantum may be
    /// smaller, so that each visit to a level serves something.
    pub entry_max: Bytes,
    /// An entry that has waited this long is old.
    pub age_max: Span,
}

impl Shares {
    /// Levels share the number of entries in proportion to `weights`.
    #[must_use]
    pub fn by_count(weights: [u32; Priority::LEVELS], age_max: Span) -> Self {
        Self { quanta: weights.map(|weight| Bytes::new(weight.into())), entry_max: Bytes::new(1), age_max }
    }

    /// Levels share the bytes in proportion to `weights`, for entries of
    /// `entry_max` bytes at the most.
    #[must_use]
    pub fn by_bytes(weights: [u32; Priority::LEVELS], entry_max: Bytes, age_max: Span) -> Self {
        let quanta = weights.map(|weight| Bytes::new(entry_max.get().saturating_mul(weight.into())));
        Self { quanta, entry_max, age_max }
    }
}

/// Serves levels in turn, each in proportion to its share; FIFO in a level.
///
/// Starvation: at most [`Discipline::starvation`] entries go first, however
/// long nothing ages.
#[derive(Clone, Debug)]
pub struct Drr<T> {
    shares: Shares,
    capacity: usize,
    levels: [Level<T>; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    /// An instant before which none of the waiting was pushed.
    not_older: Time,
    /// The level visited last, and whether the visit goes on.
    visited: Priority,
    visiting: bool,
    /// Whether the last pop went to the oldest.
    rescued: bool,
    turn: u64,
}

#[derive(Clone, Debug)]
struct Level<T> {
    waiting: VecDeque<Waiting<T>>,
    deficit: u64,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    pushed: Time,
    turn: u64,
    entry: T,
}

impl<T> Drr<T> {
    /// At most `capacity` entries over all levels.
    ///
    /// # Panics
    /// When `capacity` or the largest entry is zero, or a quantum is smaller
    /// than the largest entry.
    #[must_use]
    pub fn new(capacity: usize, shares: Shares) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        assert!(shares.entry_max > Bytes::ZERO, "an entry has at least one byte");
        assert!(
            shares.quanta.iter().all(|&quantum| quantum >= shares.entry_max),
            "a quantum holds the largest entry"
        );
        Self {
            shares,
            capacity,
            levels: std::array::from_fn(|_| Level { waiting: VecDeque::new(), deficit: 0 }),
            used: PrioritySet::NONE,
            len: 0,
            not_older: Time::ZERO,
            visited: Priority::LOWEST,
            visiting: false,
            rescued: false,
            turn: 0,
        }
    }

    /// The level at which the oldest entry waits, and since when.
    fn eldest(&self) -> Option<(Time, u64, Priority)> {
        let heads = self.used.iter().filter_map(|priority| {
            self.levels[priority.index()].waiting.front().map(|head| (head.pushed, head.turn, priority))
        });
        heads.min()
    }

    /// The level of the oldest entry, once that has waited `age_max`.
    fn aged(&mut self, now: Time) -> Option<Priority> {
        if now.since(self.not_older) < self.shares.age_max {
            return None;
        }
        let (pushed, _, priority) = self.eldest()?;
        self.not_older = pushed;
        (now.since(pushed) >= self.shares.age_max).then_some(priority)
    }

    /// The next level in use after the one visited last.
    fn successor(&self) -> Option<Priority> {
        self.used.after(self.visited).first().or(self.used.first())
    }

    fn take(&mut self, priority: Priority) -> Option<T> {
        let level = &mut self.levels[priority.index()];
        let taken = level.waiting.pop_front()?;
        self.len -= 1;
        if level.waiting.is_empty() {
            level.deficit = 0;
            self.used = self.used.without(priority);
            self.visiting &= self.visited != priority;
        }
        Some(taken.entry)
    }
}

impl<T: Entry> Drr<T> {
    /// The level that may send, charged for what it sends.
    fn charge(&mut self) -> Option<Priority> {
        loop {
            if !self.visiting {
                self.visited = self.successor()?;
                self.visiting = true;
                let place = self.visited.index();
                let level = &mut self.levels[place];
                level.deficit = level.deficit.saturating_add(self.shares.quanta[place].get());
            }
            let level = &mut self.levels[self.visited.index()];
            let bytes = level.waiting.front()?.entry.bytes();
            let cost = bytes.get().clamp(1, self.shares.entry_max.get());
            if cost <= level.deficit {
                level.deficit -= cost;
                return Some(self.visited);
            }
            self.visiting = false;
        }
    }
}

impl<T: Entry> Discipline<T> for Drr<T> {
    fn push(&mut self, now: Time, entry: T) -> Pushed<T> {
        if self.len == self.capacity {
            return Pushed::Refused(entry);
        }
        if self.len == 0 {
            self.not_older = now;
        }
        let priority = entry.label().priority;
        self.levels[priority.index()].waiting.push_back(Waiting { pushed: now, turn: self.turn, entry });
        self.used = self.used.with(priority);
        self.len += 1;
        self.turn += 1;
        Pushed::Queued
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        if !self.rescued
            && let Some(priority) = self.aged(now)
        {
            self.rescued = true;
            return self.take(priority);
        }
        self.rescued = false;
        let level = self.charge()?;
        self.take(level)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn oldest(&self) -> Option<Time> {
        self.eldest().map(|(pushed, ..)| pushed)
    }

    /// Those older than an entry, at most `capacity - 1`, may go first by age
    /// or place. Beyond them, each visit to its level serves one entry of its
    /// level at least, and between two visits each other level sends at most
    /// a quantum and a remainder smaller than the largest entry, in entries of
    /// one byte at the least.
    fn starvation(&self) -> Starvation {
        let largest = self.shares.entry_max.get();
        let round = self.shares.quanta.map(|quantum| quantum.get().saturating_add(largest - 1));
        let round_others = round.iter().fold(0, |sum: u64, &level| sum.saturating_add(level))
            - round.iter().min().copied().unwrap_or(0);
        let capacity = self.capacity as u64;
        Starvation::Bounded { entries: (capacity - 1).saturating_add(capacity.saturating_mul(round_others)) }
    }
}
