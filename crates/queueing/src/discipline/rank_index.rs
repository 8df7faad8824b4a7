//! Index of entries by rank and by age, shared by [`Edf`], [`Laxity`] and [`Pifo`].
//!
//! Per level a binary heap by rank (ties in order of arrival), over slots linked
//! in order of arrival. The oldest entry is known and can be removed; its heap
//! entry becomes stale, is recognised by its sequence number and skipped. Push
//! and pop are O(log n).
//!
//! [`Edf`]: super::Edf
//! [`Laxity`]: super::Laxity
//! [`Pifo`]: super::Pifo

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Entry, PushResult};
use crate::{Priority, PrioritySet, Time};

#[derive(Clone, Debug)]
pub(super) struct RankIndex<T> {
    heaps: [BinaryHeap<Reverse<HeapEntry>>; Priority::LEVELS],
    used: PrioritySet,
    len: usize,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    sequence: u64,
    capacity: usize,
}

/// Handle of a queued entry, to remove it out of order. Invalid once the entry
/// has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHandle {
    sequence: u64,
    slot: u32,
}

/// Rank, sequence number and slot of an entry; the least is next.
type HeapEntry = (u64, u64, u32);

#[derive(Clone, Debug)]
struct Slot<T> {
    pushed: Time,
    sequence: u64,
    level: Priority,
    older: u32,
    newer: u32,
    entry: Option<T>,
}

impl<T> RankIndex<T> {
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "capacity 0 is not above 0");
        assert!(capacity < NONE as usize, "capacity {capacity} is not below 2^32 - 1");
        Self {
            heaps: Default::default(),
            used: PrioritySet::NONE,
            len: 0,
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            sequence: 0,
            capacity,
        }
    }

    pub(super) fn push(&mut self, now: Time, rank: u64, entry: T) -> PushResult<T>
    where
        T: Entry,
    {
        if self.len == self.capacity {
            return PushResult::Refused(entry);
        }
        let level = entry.label().priority;
        let slot = Slot {
            pushed: now,
            sequence: self.sequence,
            level,
            older: self.newest,
            newer: NONE,
            entry: Some(entry),
        };
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
        self.heaps[level.index()].push(Reverse((rank, self.sequence, index)));
        self.used = self.used.with(level);
        self.len += 1;
        self.sequence += 1;
        PushResult::Queued
    }

    /// Removes the entry of least rank among `wanted`.
    pub(super) fn pop(&mut self, wanted: PrioritySet) -> Option<T> {
        let (level, (.., index)) = self.next(wanted)?;
        self.heaps[level.index()].pop();
        let entry = self.unlink(index);
        self.purge_stale(level);
        entry
    }

    /// Removes the oldest entry.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        let index = self.oldest;
        let level = self.slots.get(index as usize)?.level;
        let entry = self.unlink(index);
        self.purge_stale(level);
        entry
    }

    /// Handle of the newest entry, unless it has left.
    pub(super) fn newest(&self) -> Option<EntryHandle> {
        self.slots
            .get(self.newest as usize)
            .map(|slot| EntryHandle { sequence: slot.sequence, slot: self.newest })
    }

    /// Removes the entry of `handle`, unless it has left.
    pub(super) fn remove(&mut self, handle: EntryHandle) -> Option<T> {
        let slot = self.slots.get(handle.slot as usize)?;
        if slot.sequence != handle.sequence || slot.entry.is_none() {
            return None;
        }
        let level = slot.level;
        let entry = self.unlink(handle.slot);
        self.purge_stale(level);
        entry
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<Time> {
        self.slots.get(self.oldest as usize).map(|slot| slot.pushed)
    }

    pub(super) fn peek_oldest(&self) -> Option<&T> {
        self.slots.get(self.oldest as usize).and_then(|slot| slot.entry.as_ref())
    }

    /// Entry of least rank.
    pub(super) fn peek(&self) -> Option<&T> {
        let (_, (.., index)) = self.next(PrioritySet::ALL)?;
        self.slots[index as usize].entry.as_ref()
    }

    /// Least rank.
    pub(super) fn rank(&self) -> Option<u64> {
        self.next(PrioritySet::ALL).map(|(_, (rank, ..))| rank)
    }

    /// Level and heap entry of the least rank among `wanted`.
    fn next(&self, wanted: PrioritySet) -> Option<(Priority, HeapEntry)> {
        let heads = self.used.and(wanted).iter().filter_map(|level| {
            self.heaps[level.index()].peek().map(|&Reverse(heap_entry)| (level, heap_entry))
        });
        heads.min_by_key(|&(_, heap_entry)| heap_entry)
    }

    /// Removes the entry from slot `index` and from the order of arrival.
    fn unlink(&mut self, index: u32) -> Option<T> {
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
        self.len -= 1;
        entry
    }

    /// Removes stale entries from the head of `level`'s heap, and all of them if
    /// they fill it.
    fn purge_stale(&mut self, level: Priority) {
        let slots = &self.slots;
        let is_live = |&Reverse((_, sequence, index)): &Reverse<HeapEntry>| {
            let slot = &slots[index as usize];
            slot.sequence == sequence && slot.entry.is_some()
        };
        let heap = &mut self.heaps[level.index()];
        while heap.peek().is_some_and(|head| !is_live(head)) {
            heap.pop();
        }
        if heap.len() > 2 * self.len + 16 {
            heap.retain(is_live);
        }
        if heap.is_empty() {
            self.used = self.used.without(level);
        }
    }
}

const NONE: u32 = u32::MAX;
