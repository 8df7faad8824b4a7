//! FIFO with selective dequeue: serves the oldest entry of the requested levels.
//!
//! One FIFO per level, and the arrival order over all of them, so a selective
//! dequeue does not search the other levels. With all levels requested it is a
//! [`Fifo`](super::Fifo) at a slightly higher cost.

use std::collections::VecDeque;

use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Priority, PrioritySet, Time};

/// Serves entries in order of arrival, among the requested levels.
///
/// Starvation: at most `capacity - 1` entries are served first.
#[derive(Clone, Debug)]
pub struct SelectiveFifo<T> {
    fifos: [VecDeque<Waiting<T>>; Priority::LEVELS],
    /// Sequence number of each level's head, [`NONE`] if empty: one cache line
    /// gives the oldest.
    heads: [u64; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    sequence: u64,
    capacity: usize,
}

/// Queued entry with its push time and sequence number.
#[derive(Clone, Debug)]
struct Waiting<T> {
    pushed: Time,
    sequence: u64,
    entry: T,
}

impl<T> SelectiveFifo<T> {
    /// Queue of at most `capacity` entries over all levels. Memory grows with use
    /// and is kept.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "capacity 0 is not above 0");
        let fifos = std::array::from_fn(|_| VecDeque::new());
        Self {
            fifos,
            heads: [NONE; Priority::LEVELS],
            used: PrioritySet::NONE,
            len: 0,
            sequence: 0,
            capacity,
        }
    }

    /// Levels with queued entries.
    #[must_use]
    pub const fn levels_used(&self) -> PrioritySet {
        self.used
    }

    /// Oldest entry among `wanted`, without removing it.
    #[must_use]
    pub fn peek_among(&self, wanted: PrioritySet) -> Option<&T> {
        self.peek(self.first(wanted)?)
    }

    /// Head of `level`.
    #[inline]
    fn peek(&self, level: Priority) -> Option<&T> {
        self.fifos[level.index()].front().map(|head| &head.entry)
    }

    /// Push time and level of the oldest entry among `wanted`.
    fn oldest_among(&self, wanted: PrioritySet) -> Option<(Time, Priority)> {
        let level = self.first(wanted)?;
        self.fifos[level.index()].front().map(|head| (head.pushed, level))
    }

    /// Level of the oldest entry among `wanted`.
    #[inline]
    fn first(&self, wanted: PrioritySet) -> Option<Priority> {
        let sequence =
            |level: Priority| if wanted.contains(level) { self.heads[level.index()] } else { NONE };
        let (sequence, level) = Priority::all()
            .map(|level| (sequence(level), level))
            .fold((NONE, Priority::LOWEST), |first, next| if next.0 < first.0 { next } else { first });
        (sequence != NONE).then_some(level)
    }

    /// Removes the head of `level`.
    #[inline]
    fn take(&mut self, level: Priority) -> Option<T> {
        let fifo = &mut self.fifos[level.index()];
        let head = fifo.pop_front()?;
        self.heads[level.index()] = fifo.front().map_or(NONE, |head| head.sequence);
        if fifo.is_empty() {
            self.used = self.used.without(level);
        }
        self.len -= 1;
        Some(head.entry)
    }
}

impl<T: Entry> Discipline<T> for SelectiveFifo<T> {
    #[inline]
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        if self.len == self.capacity {
            return PushResult::Refused(entry);
        }
        let level = entry.label().priority;
        let head = &mut self.heads[level.index()];
        *head = self.sequence.min(*head);
        self.fifos[level.index()].push_back(Waiting { pushed: now, sequence: self.sequence, entry });
        self.used = self.used.with(level);
        self.len += 1;
        self.sequence += 1;
        PushResult::Queued
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
        self.oldest_among(PrioritySet::ALL).map(|(pushed, _)| pushed)
    }

    fn starvation(&self) -> StarvationBound {
        StarvationBound::Bounded { entries: self.capacity as u64 - 1 }
    }
}

impl<T: Entry> SelectiveDequeue<T> for SelectiveFifo<T> {
    #[inline]
    fn pop_among(&mut self, _now: Time, wanted: PrioritySet) -> Option<T> {
        self.take(self.first(wanted)?)
    }
}

const NONE: u64 = u64::MAX;
