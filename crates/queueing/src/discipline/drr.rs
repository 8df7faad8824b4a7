//! Deficit round robin over priority levels, with aging.
//!
//! Each level gets its share of the bytes (or of the entries, where every
//! entry counts as one byte) instead of strict precedence. Within a round the
//! more urgent levels use their shares first, so that an urgent entry waits
//! for a turn only when its level has had its share; a round ends when nobody
//! who waits has any left. Aging is a second promise: once the oldest entry
//! has waited `age_max`, every other pop goes to the oldest. It takes every
//! other pop at the most, so that under lasting overload, when everybody is
//! old, half the service still follows the shares.
//! Source: Shreedhar and Varghese, SIGCOMM '95; the order within a round and
//! aging are ours.

use super::{Discipline, Entry, Levels, Pushed, Selective, Starvation};
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

/// Serves each level in proportion to its share; FIFO in a level.
///
/// Starvation: at most [`Discipline::starvation`] entries go first, however
/// long nothing ages.
#[derive(Clone, Debug)]
pub struct Drr<T> {
    shares: Shares,
    capacity: usize,
    waiting: Levels<T>,
    /// Bytes each level may still send in this round.
    deficits: [u64; Priority::LEVELS],
    /// An instant before which none of the waiting was pushed.
    not_older: Time,
    /// Whether the last pop went to the oldest.
    rescued: bool,
}

impl<T> Drr<T> {
    /// At most `capacity` entries over all levels.
    ///
    /// # Panics
    /// When `capacity` or the largest entry is zero, or a quantum is smaller
    /// than the largest entry.
    #[must_use]
    pub fn new(capacity: usize, shares: Shares) -> Self {
        assert!(shares.entry_max > Bytes::ZERO, "an entry has at least one byte");
        assert!(
            shares.quanta.iter().all(|&quantum| quantum >= shares.entry_max),
            "a quantum holds the largest entry"
        );
        Self {
            shares,
            capacity,
            waiting: Levels::new(capacity),
            deficits: [0; Priority::LEVELS],
            not_older: Time::ZERO,
            rescued: false,
        }
    }

    /// The level of the oldest entry of `ready`, once that has waited `age_max`.
    fn aged(&mut self, now: Time, ready: PrioritySet) -> Option<Priority> {
        if now.since(self.not_older) < self.shares.age_max {
            return None;
        }
        let (pushed, level) = self.waiting.eldest(ready)?;
        if ready == self.waiting.levels_used() {
            self.not_older = pushed;
        }
        (now.since(pushed) >= self.shares.age_max).then_some(level)
    }

    /// Gives every level its quantum. Who waits keeps what was too little for
    /// its next entry; everything else is lost, so that nobody saves up.
    fn begin_round(&mut self) {
        for level in Priority::all() {
            let rest = match self.waiting.levels_used().contains(level) {
                true => self.deficits[level.index()].min(self.shares.entry_max.get() - 1),
                false => 0,
            };
            self.deficits[level.index()] = self.shares.quanta[level.index()].get().saturating_add(rest);
        }
    }
}

impl<T: Entry> Drr<T> {
    /// The level among `ready`, which all wait, that may send, charged for
    /// what it sends.
    fn charge(&mut self, ready: PrioritySet) -> Option<Priority> {
        loop {
            for level in ready.iter() {
                let bytes = self.waiting.peek(level)?.bytes();
                let cost = bytes.get().clamp(1, self.shares.entry_max.get());
                let deficit = &mut self.deficits[level.index()];
                if cost <= *deficit {
                    *deficit -= cost;
                    return Some(level);
                }
            }
            self.begin_round();
        }
    }
}

impl<T: Entry> Discipline<T> for Drr<T> {
    fn push(&mut self, now: Time, entry: T) -> Pushed<T> {
        if self.waiting.is_empty() {
            self.not_older = now;
        }
        self.waiting.push(now, entry)
    }

    fn pop(&mut self, now: Time) -> Option<T> {
        self.pop_among(now, PrioritySet::ALL)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.waiting.oldest()
    }

    /// Those older than an entry, at most `capacity - 1`, may go first by age
    /// or place. Beyond them, each round serves one entry of its level at
    /// least, so it goes in the round that is under way or in one of the next
    /// `capacity`; in each, every other level sends at most a quantum and a
    /// remainder smaller than the largest entry, in entries of one byte at
    /// the least.
    fn starvation(&self) -> Starvation {
        let largest = self.shares.entry_max.get();
        let round = self.shares.quanta.map(|quantum| quantum.get().saturating_add(largest - 1));
        let round_others = round.iter().fold(0, |sum: u64, &level| sum.saturating_add(level))
            - round.iter().min().copied().unwrap_or(0);
        let capacity = self.capacity as u64;
        Starvation::Bounded {
            entries: (capacity - 1).saturating_add((capacity + 1).saturating_mul(round_others)),
        }
    }
}

impl<T: Entry> Selective<T> for Drr<T> {
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T> {
        let ready = self.waiting.levels_used().and(wanted);
        if ready.is_empty() {
            return None;
        }
        let rescue = if self.rescued { None } else { self.aged(now, ready) };
        self.rescued = rescue.is_some();
        let level = rescue.or_else(|| self.charge(ready))?;
        self.waiting.take(level)
    }
}
