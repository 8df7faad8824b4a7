//! First come, first served, for takers who may refuse some levels.
//!
//! A FIFO per level and the order of arrival over all of them, so that who
//! asks for some levels only gets the oldest of those without looking through
//! the others. Asked for everything it is a [`Fifo`](super::Fifo), a little
//! dearer.

use std::collections::VecDeque;

use super::{Discipline, Entry, PushResult, SelectiveDequeue, StarvationBound};
use crate::{Priority, PrioritySet, Time};

/// Serves entries in the order they came, among the levels asked for.
///
/// Starvation: at most `capacity - 1` entries go first.
#[derive(Clone, Debug)]
pub struct SelectiveFifo<T> {
    fifos: [VecDeque<Waiting<T>>; Priority::LEVELS],
    /// Per level the turn of its head, [`NONE`] where nothing waits: who is
    /// the oldest is read from one cache line.
    heads: [u64; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    turn: u64,
    capacity: usize,
}

/// An entry, when it came, and its place in the order of arrival.
#[derive(Clone, Debug)]
struct Waiting<T> {
    pushed: Time,
    turn: u64,
    entry: T,
}

impl<T> SelectiveFifo<T> {
    /// At most `capacity` entries over all levels. Memory grows with use and
    /// is kept.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        let fifos = std::array::from_fn(|_| VecDeque::new());
        Self { fifos, heads: [NONE; Priority::LEVELS], used: PrioritySet::NONE, len: 0, turn: 0, capacity }
    }

    /// The levels at which something waits.
    #[must_use]
    pub const fn levels_used(&self) -> PrioritySet {
        self.used
    }

    /// The entry that came first among `wanted`, without taking it.
    #[must_use]
    pub fn peek_among(&self, wanted: PrioritySet) -> Option<&T> {
        self.peek(self.first(wanted)?)
    }

    /// The head of `level`.
    #[inline]
    fn peek(&self, level: Priority) -> Option<&T> {
        self.fifos[level.index()].front().map(|head| &head.entry)
    }

    /// When the oldest entry among `wanted` was pushed, and its level.
    fn eldest(&self, wanted: PrioritySet) -> Option<(Time, Priority)> {
        let level = self.first(wanted)?;
        self.fifos[level.index()].front().map(|head| (head.pushed, level))
    }

    /// The level of the entry that came first among `wanted`.
    #[inline]
    fn first(&self, wanted: PrioritySet) -> Option<Priority> {
        let turn = |level: Priority| if wanted.contains(level) { self.heads[level.index()] } else { NONE };
        let (turn, level) = Priority::all()
            .map(|level| (turn(level), level))
            .fold((NONE, Priority::LOWEST), |first, next| if next.0 < first.0 { next } else { first });
        (turn != NONE).then_some(level)
    }

    /// Takes the head of `level`.
    #[inline]
    fn take(&mut self, level: Priority) -> Option<T> {
        let fifo = &mut self.fifos[level.index()];
        let taken = fifo.pop_front()?;
        self.heads[level.index()] = fifo.front().map_or(NONE, |head| head.turn);
        if fifo.is_empty() {
            self.used = self.used.without(level);
        }
        self.len -= 1;
        Some(taken.entry)
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
        *head = self.turn.min(*head);
        self.fifos[level.index()].push_back(Waiting { pushed: now, turn: self.turn, entry });
        self.used = self.used.with(level);
        self.len += 1;
        self.turn += 1;
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
        self.eldest(PrioritySet::ALL).map(|(pushed, _)| pushed)
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
