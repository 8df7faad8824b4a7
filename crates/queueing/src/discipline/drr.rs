//! DRR: deficit round robin over priority levels, with aging.
//!
//! Each level has a quantum of bytes per round (of entries, if each counts as
//! one byte). Any discipline serves as a level. Within a round, more urgent
//! levels use their quanta first, so an urgent entry waits only if its level has
//! used its own. A round ends when no backlogged level has any quantum left. A
//! level with any quantum left may send; the excess is deducted from its next
//! quantum. In addition, once the oldest entry has waited `age_max`, it is
//! served after [`PASSED_IN_A_ROW`] pops in order.
//! Source: Shreedhar and Varghese, SIGCOMM '95. The order within a round and
//! aging are additions.

use super::aging::Aging;
use super::bands::Bands;
use super::{Discipline, Entry, PASSED_IN_A_ROW, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Bytes, Priority, PrioritySet, Span, Time};

/// Quanta per level, and the age that overrides them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrConfig {
    /// Bytes per round, for each level.
    pub quanta: [Bytes; Priority::LEVELS],
    /// Size of the largest entry; larger ones count as this. No quantum may be
    /// smaller, so that each round serves an entry of every level.
    pub entry_max: Bytes,
    /// Age at which an entry is served out of order.
    pub age_max: Span,
}

impl DrrConfig {
    /// Shares the number of entries in proportion to `weights`.
    #[must_use]
    pub fn by_count(weights: [u32; Priority::LEVELS], age_max: Span) -> Self {
        Self { quanta: weights.map(|weight| Bytes::new(weight.into())), entry_max: Bytes::new(1), age_max }
    }

    /// Shares the bytes in proportion to `weights`, for entries of at most
    /// `entry_max` bytes.
    #[must_use]
    pub fn by_bytes(weights: [u32; Priority::LEVELS], entry_max: Bytes, age_max: Span) -> Self {
        let quanta = weights.map(|weight| Bytes::new(entry_max.get().saturating_mul(weight.into())));
        Self { quanta, entry_max, age_max }
    }
}

/// Serves each level in proportion to its quantum; `D` orders each level.
///
/// Starvation: at most [`Discipline::starvation`] entries are served first,
/// with or without aging, if each level's queue has such a bound.
#[derive(Clone, Debug)]
pub struct Drr<D> {
    config: DrrConfig,
    bands: Bands<D>,
    /// Bytes of this round's quantum that each level has used.
    sent: [u64; Priority::LEVELS],
}

impl<D> Drr<D> {
    /// Queue of at most `capacity` entries over all levels. `level` makes each
    /// level's queue, whose own capacity applies too.
    ///
    /// # Panics
    /// If `capacity` or the largest entry is zero, or a quantum is smaller than
    /// the largest entry.
    #[must_use]
    pub fn new(capacity: usize, config: DrrConfig, level: impl FnMut(Priority) -> D) -> Self {
        assert!(config.entry_max > Bytes::ZERO, "entry_max 0 is not above 0");
        assert!(
            config.quanta.iter().all(|&quantum| quantum >= config.entry_max),
            "a quantum is below entry_max; the least is {}",
            config.entry_max.get()
        );
        let mut bands = Bands::new(capacity, level);
        bands.aging = Aging::new(config.age_max);
        Self { config, bands, sent: [0; Priority::LEVELS] }
    }

    /// Lets a more urgent entry evict one of the least urgent level when the
    /// queue is full, as [`Strict::with_push_out`] does.
    ///
    /// [`Strict::with_push_out`]: super::Strict::with_push_out
    #[must_use]
    pub const fn with_push_out(mut self) -> Self {
        self.bands.push_out = true;
        self
    }

    /// Most urgent level of `ready` with some quantum left; starts a new round if
    /// there is none. `None` if `ready` is empty.
    #[inline]
    fn next_level(&mut self, ready: PrioritySet) -> Option<Priority> {
        let left = |level: Priority| self.sent[level.index()] < self.config.quanta[level.index()].get();
        if let Some(level) = ready.iter().find(|&level| left(level)) {
            return Some(level);
        }
        self.begin_round();
        ready.first()
    }

    /// Replenishes every quantum, less the excess; unused quantum is lost.
    fn begin_round(&mut self) {
        for (sent, quantum) in self.sent.iter_mut().zip(self.config.quanta) {
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

    /// Each round but the current one serves at least one of the entries of the
    /// same level that go first, or the entry itself. In each round every other
    /// level sends at most its quantum, in entries of at least one byte. Aging
    /// may take every ninth pop.
    fn starvation(&self) -> StarvationBound {
        let StarvationBound::Bounded { entries: before } = self.bands.level_starvation::<T>() else {
            return StarvationBound::Unbounded { from: Priority::HIGHEST };
        };
        let quanta = self.config.quanta.map(Bytes::get);
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

    /// Evicts an entry of the least urgent level.
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
        if let Some(level) = self.bands.due_for_age::<T>(now, ready) {
            return self.bands.pop_with(level, |queue| queue.pop(now));
        }
        let level = self.next_level(ready)?;
        let entry: T = self.bands.pop_with(level, |queue| queue.pop(now))?;
        if !entry.doomed() {
            let cost = entry.bytes().get().clamp(1, self.config.entry_max.get());
            self.sent[level.index()] += cost;
        }
        Some(entry)
    }
}
