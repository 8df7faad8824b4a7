//! Deficit round robin over priority levels, with aging.
//!
//! Each level gets its share of the bytes (or of the entries, where every
//! entry counts as one byte) instead of strict precedence; any discipline
//! serves as a level. Within a round the
//! more urgent levels use their shares first, so that an urgent entry waits
//! for a turn only when its level has had its share; a round ends when nobody
//! who waits has any left. Whoever has some left may send, and what the entry
//! takes beyond it is owed in the next round. Aging is a second promise: once the oldest entry
//! has waited `age_max`, it has a turn after [`PASSED_IN_A_ROW`] pops that follow the shares.
//! Source: Shreedhar and Varghese, SIGCOMM '95; the order within a round and
//! aging are ours.

use super::aging::Aging;
use super::bands::Bands;
use super::{Discipline, Entry, PASSED_IN_A_ROW, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Bytes, Priority, PrioritySet, Span, Time};

/// How levels share, and when age overrides the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrConfig {
    /// Per level, the bytes it may send per round.
    pub quanta: [Bytes; Priority::LEVELS],
    /// The largest entry; larger ones count as this large. No quantum may be
    /// smaller, so that each round serves something of every level.
    pub entry_max: Bytes,
    /// An entry that has waited this long is old.
    pub age_max: Span,
}

impl DrrConfig {
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

/// Serves each level in proportion to its share; `D` orders each level.
///
/// Starvation: at most [`Discipline::starvation`] entries go first, however
/// long nothing ages, where each level's queue has such a bound.
#[derive(Clone, Debug)]
pub struct Drr<D> {
    shares: DrrConfig,
    bands: Bands<D>,
    /// Bytes each level has sent of its quantum in this round.
    sent: [u64; Priority::LEVELS],
}

impl<D> Drr<D> {
    /// At most `capacity` entries over all levels; `level` makes each level's
    /// queue, whose own capacity holds too.
    ///
    /// # Panics
    /// When `capacity` or the largest entry is zero, or a quantum is smaller
    /// than the largest entry.
    #[must_use]
    pub fn new(capacity: usize, shares: DrrConfig, level: impl FnMut(Priority) -> D) -> Self {
        assert!(shares.entry_max > Bytes::ZERO, "an entry has at least one byte");
        assert!(
            shares.quanta.iter().all(|&quantum| quantum >= shares.entry_max),
            "a quantum holds the largest entry"
        );
        let mut bands = Bands::new(capacity, level);
        bands.aging = Aging::new(shares.age_max);
        Self { shares, bands, sent: [0; Priority::LEVELS] }
    }

    /// When full, lets a more urgent entry take the place of one from the
    /// least urgent level, as [`Strict::with_push_out`] does.
    ///
    /// [`Strict::with_push_out`]: super::Strict::with_push_out
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.bands.push_out = true;
        self
    }

    /// The most urgent of `ready`, which is not empty, that has something left
    /// of its share.
    #[inline]
    fn turn(&mut self, ready: PrioritySet) -> Option<Priority> {
        let left = |level: Priority| self.sent[level.index()] < self.shares.quanta[level.index()].get();
        if let Some(level) = ready.iter().find(|&level| left(level)) {
            return Some(level);
        }
        self.begin_round();
        ready.first()
    }

    /// Gives every level its quantum, less what it owes; nobody saves up.
    fn begin_round(&mut self) {
        for (sent, quantum) in self.sent.iter_mut().zip(self.shares.quanta) {
            *sent = sent.saturating_sub(quantum.get());
        }
    }
}

impl<T: Entry, D: Discipline<T>> Discipline<T> for Drr<D> {
    #[inline]
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        self.bands.push(now, entry)
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<T> {
        self.pop_among(now, PrioritySet::ALL)
    }

    #[inline]
    fn len(&self) -> usize {
        self.bands.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.bands.oldest::<T>()
    }

    /// Those of its level that go before an entry, and itself, go one in every
    /// round at the least, the round that is under way apart; in each round
    /// every other level sends at most its quantum, in entries of one byte at
    /// the least. Where entries age, the ninth pop may go to another.
    fn starvation(&self) -> StarvationBound {
        let StarvationBound::Bounded { entries: before } = self.bands.level_starvation::<T>() else {
            return StarvationBound::Unbounded { from: Priority::HIGHEST };
        };
        let quanta = self.shares.quanta.map(Bytes::get);
        let sum = quanta.iter().fold(0, |sum: u64, &quantum| sum.saturating_add(quantum));
        let others = sum - quanta.iter().min().copied().unwrap_or(0);
        let entries = before.saturating_add(before.saturating_add(2).saturating_mul(others));
        StarvationBound::Bounded {
            entries: if self.bands.aging.ages() {
                entries.saturating_add(entries / u64::from(PASSED_IN_A_ROW) + 1)
            } else {
                entries
            },
        }
    }

    /// One of the least urgent level.
    fn evict(&mut self, now: Time) -> Option<T> {
        self.bands.evict(now)
    }

    fn replace(&mut self, now: Time, entry: T) -> PushResult<T> {
        self.bands.replace(now, entry)
    }
}

impl<T: Entry, D: Discipline<T>> SelectiveDequeue<T> for Drr<D> {
    #[inline]
    fn pop_among(&mut self, now: Time, wanted: PrioritySet) -> Option<T> {
        let ready = self.bands.used().and(wanted);
        if ready.is_empty() {
            return None;
        }
        if let Some(level) = self.bands.rescue::<T>(now, ready) {
            return self.bands.take(level, |queue| queue.pop(now));
        }
        let level = self.turn(ready)?;
        let entry: T = self.bands.take(level, |queue| queue.pop(now))?;
        if !entry.doomed() {
            let cost = entry.bytes().get().clamp(1, self.shares.entry_max.get());
            self.sent[level.index()] += cost;
        }
        Some(entry)
    }
}
