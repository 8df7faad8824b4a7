//! FIFO: first come, first served.

use std::collections::VecDeque;

use super::{Discipline, Entry, PushResult, StarvationBound};
use crate::Time;

/// Serves entries in order of arrival.
///
/// Starvation: at most `capacity - 1` entries are served first.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    waiting: VecDeque<(Time, T)>,
    capacity: usize,
}

impl<T> Fifo<T> {
    /// Queue of at most `capacity` entries. Memory grows with use and is kept.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "capacity 0 is not above 0");
        Self { waiting: VecDeque::new(), capacity }
    }

    /// Next entry, without removing it.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.waiting.front().map(|(_, entry)| entry)
    }
}

impl<T: Entry> Discipline<T> for Fifo<T> {
    #[inline]
    fn push(&mut self, now: Time, entry: T) -> PushResult<T> {
        if self.waiting.len() == self.capacity {
            return PushResult::Refused(entry);
        }
        self.waiting.push_back((now, entry));
        PushResult::Queued
    }

    #[inline]
    fn pop(&mut self, _now: Time) -> Option<T> {
        let (_, entry) = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            // Resets the ring, so that the next push reuses the slot in cache.
            self.waiting.clear();
        }
        Some(entry)
    }

    #[inline]
    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn oldest(&self) -> Option<Time> {
        self.waiting.front().map(|&(pushed, _)| pushed)
    }

    fn starvation(&self) -> StarvationBound {
        StarvationBound::Bounded { entries: self.capacity as u64 - 1 }
    }

    #[inline]
    fn passes(&self, _entry: &T) -> bool {
        true
    }

    /// Removes the newest entry.
    fn evict(&mut self, _now: Time) -> Option<T> {
        self.waiting.pop_back().map(|(_, entry)| entry)
    }
}
