//! Index of waiting entries: by rank, by deadline, by age.
//!
//! An entry is in one band. *Ranked* entries are served in order of rank. The queue moves
//! entries that it passes over to *doubtful* (ordered by deadline) or *patient* (those
//! without a deadline, in order of arrival). Push, move and removal are O(log n).

use std::collections::{BTreeSet, VecDeque};

use queueing::Time;

/// Handle of a queued entry, to remove it out of order. Invalid once the entry has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueHandle {
    sequence: u64,
    slot: u32,
}

/// Band of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Band {
    Ranked,
    Patient,
    Doubtful,
}

/// Key in its band, sequence number, slot.
type Key = (u64, u64, u32);

#[derive(Clone, Debug)]
struct Slot<T> {
    pushed: Time,
    sequence: u64,
    band: Band,
    key: u64,
    entry: Option<T>,
}

/// Bands of entries `T`.
#[derive(Clone, Debug)]
pub(super) struct Index<T> {
    bands: [BTreeSet<Key>; 3],
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Entries in order of arrival; those that have left are skipped.
    ages: VecDeque<QueueHandle>,
    /// The same, of entries without a deadline.
    ages_without: VecDeque<QueueHandle>,
    sequence: u64,
    len: usize,
}

impl<T> Index<T> {
    pub(super) fn new() -> Self {
        Self {
            bands: Default::default(),
            slots: Vec::new(),
            free: Vec::new(),
            ages: VecDeque::new(),
            ages_without: VecDeque::new(),
            sequence: 0,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds `entry` to the ranked ones.
    pub(super) fn push(&mut self, now: Time, rank: u64, has_deadline: bool, entry: T) {
        let sequence = self.sequence;
        let slot = Slot { pushed: now, sequence, band: Band::Ranked, key: rank, entry: Some(entry) };
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
        self.bands[Band::Ranked as usize].insert((rank, sequence, index));
        let handle = QueueHandle { sequence, slot: index };
        self.ages.push_back(handle);
        if !has_deadline {
            self.ages_without.push_back(handle);
        }
        self.sequence += 1;
        self.len += 1;
    }

    /// First entry of `band`.
    pub(super) fn first(&self, band: Band) -> Option<(QueueHandle, &T)> {
        self.bands[band as usize].first().map(|&key| self.entry(key))
    }

    /// Last entry of `band`.
    pub(super) fn last(&self, band: Band) -> Option<(QueueHandle, &T)> {
        self.bands[band as usize].last().map(|&key| self.entry(key))
    }

    /// Ranked entries in order.
    pub(super) fn ranked(&self) -> impl Iterator<Item = (QueueHandle, &T)> {
        self.bands[Band::Ranked as usize].iter().map(|&key| self.entry(key))
    }

    /// Moves the entry with `handle` to `band`, at `key`.
    pub(super) fn move_to(&mut self, handle: QueueHandle, band: Band, key: u64) {
        let slot = &mut self.slots[handle.slot as usize];
        self.bands[slot.band as usize].remove(&(slot.key, slot.sequence, handle.slot));
        (slot.band, slot.key) = (band, key);
        self.bands[band as usize].insert((key, handle.sequence, handle.slot));
    }

    /// Removes the entry with `handle`; `None` if it has left.
    pub(super) fn remove(&mut self, handle: QueueHandle) -> Option<T> {
        let slot = self.slots.get_mut(handle.slot as usize)?;
        if slot.sequence != handle.sequence {
            return None;
        }
        let entry = slot.entry.take()?;
        self.bands[slot.band as usize].remove(&(slot.key, slot.sequence, handle.slot));
        self.free.push(handle.slot);
        self.len -= 1;
        let slots = &self.slots;
        for ages in [&mut self.ages, &mut self.ages_without] {
            while ages.front().is_some_and(|&front| !is_live(slots, front)) {
                ages.pop_front();
            }
            if ages.len() > 2 * self.len + 16 {
                ages.retain(|&handle| is_live(slots, handle));
            }
        }
        Some(entry)
    }

    /// Handle of the newest entry, unless it has left.
    pub(super) fn newest(&self) -> Option<QueueHandle> {
        self.ages.back().copied().filter(|&newest| is_live(&self.slots, newest))
    }

    /// Oldest entry, its handle and the time of its push; with `without_deadline` the oldest
    /// one without a deadline.
    pub(super) fn oldest(&self, without_deadline: bool) -> Option<(QueueHandle, Time, &T)> {
        let ages = if without_deadline { &self.ages_without } else { &self.ages };
        let &handle = ages.front()?;
        let slot = &self.slots[handle.slot as usize];
        slot.entry.as_ref().map(|entry| (handle, slot.pushed, entry))
    }

    fn entry(&self, (_, sequence, slot): Key) -> (QueueHandle, &T) {
        let entry = self.slots[slot as usize].entry.as_ref();
        (QueueHandle { sequence, slot }, entry.expect("entries in a band wait"))
    }
}

fn is_live<T>(slots: &[Slot<T>], handle: QueueHandle) -> bool {
    let slot = &slots[handle.slot as usize];
    slot.sequence == handle.sequence && slot.entry.is_some()
}
