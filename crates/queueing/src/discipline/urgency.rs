//! Entries ordered by an instant, and also by age: what [`Edf`] and
//! [`Laxity`] share.
//!
//! Per level a binary heap by instant (ties in order of arrival) over slots
//! that are linked in order of arrival, so that the oldest is known too. Push
//! and pop are O(log n).
//!
//! [`Edf`]: super::Edf
//! [`Laxity`]: super::Laxity

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Entry, Pushed};
use crate::{Priority, PrioritySet, Time};

#[derive(Clone, Debug)]
pub(super) struct ByUrgency<T> {
    heaps: [BinaryHeap<Reverse<(Time, u64, u32)>>; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    turn: u64,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    pushed: Time,
    older: u32,
    newer: u32,
    entry: Option<T>,
}

impl<T> ByUrgency<T> {
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue holds at least one entry");
        assert!(capacity < NONE as usize, "a queue holds fewer than 2^32 - 1 entries");
        Self {
            heaps: Default::default(),
            used: PrioritySet::NONE,
            len: 0,
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            turn: 0,
            capacity,
        }
    }

    pub(super) fn push(&mut self, now: Time, due: Time, entry: T) -> Pushed<T>
    where
        T: Entry,
    {
        if self.len == self.capacity {
            return Pushed::Refused(entry);
        }
        let level = entry.label().priority;
        let slot = Slot { pushed: now, older: self.newest, newer: NONE, entry: Some(entry) };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        match self.newest {
            NONE => self.oldest = index,
            newest => self.slots[newest as usize].newer = index,
        }
        self.newest = index;
        self.heaps[level.index()].push(Reverse((due, self.turn, index)));
        self.used = self.used.with(level);
        self.len += 1;
        self.turn += 1;
        Pushed::Queued
    }

    /// Takes the entry of `wanted` that is due first.
    pub(super) fn pop(&mut self, wanted: PrioritySet) -> Option<T> {
        let (_, _, level) = self.next(wanted)?;
        let heap = &mut self.heaps[level.index()];
        let Reverse((_, _, index)) = heap.pop()?;
        if heap.is_empty() {
            self.used = self.used.without(level);
        }
        self.len -= 1;
        let slot = &mut self.slots[index as usize];
        let (older, newer, entry) = (slot.older, slot.newer, slot.entry.take());
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        self.free.push(index);
        entry
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<Time> {
        self.slots.get(self.oldest as usize).map(|slot| slot.pushed)
    }

    /// When the entry whose turn it is falls due.
    pub(super) fn due(&self) -> Option<Time> {
        self.next(PrioritySet::ALL).map(|(due, ..)| due)
    }

    /// Instant, turn and level of the entry of `wanted` that is due first.
    fn next(&self, wanted: PrioritySet) -> Option<(Time, u64, Priority)> {
        let heads = self.used.and(wanted).iter().filter_map(|level| {
            self.heaps[level.index()].peek().map(|&Reverse((due, turn, _))| (due, turn, level))
        });
        heads.min()
    }
}

const NONE: u32 = u32::MAX;
