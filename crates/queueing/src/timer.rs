//! Hierarchical timer wheel: insert, cancel and advance in O(1).
//!
//! Time is divided into ticks of 2ⁿ ns (1.024 µs by default), so a shift maps an
//! instant to a slot. Level 0 has a slot for each of the next 64 ticks, level 1
//! for each of the next 64 × 64, and so on over the whole range of [`Time`]. When
//! time reaches a slot of a higher level, its timers move down. A timer never
//! fires early, and less than a tick late. Within a tick the order is
//! unspecified but deterministic.
//! Source: Varghese and Lauck, SOSP '87, scheme 7.

use std::num::NonZeroU32;

use crate::{Span, Time};

/// Timers that each carry a small `T`, such as a connection's number.
///
/// A timer takes `size_of::<T>()` plus 20 bytes (24 for `T = u32`, with
/// alignment), the wheel itself less than 3 kB. Memory is kept and reused, so a
/// warm wheel allocates nothing.
///
/// ```
/// use queueing::{Time, TimerWheel};
/// let mut wheel = TimerWheel::new();
/// let retransmit = wheel.insert(Time::from_nanos(5_000_000), "retransmit");
/// wheel.insert(Time::from_nanos(9_000_000), "keep alive");
/// assert_eq!(wheel.cancel(retransmit), Some("retransmit"));
/// assert_eq!(wheel.expire(Time::from_nanos(8_999_999)), None);
/// assert_eq!(wheel.expire(Time::from_nanos(9_001_000)).map(|(_, name)| name), Some("keep alive"));
/// ```
#[derive(Clone, Debug)]
pub struct TimerWheel<T> {
    /// First timer of each slot's list, by level and slot.
    heads: [u32; LEVELS * SLOTS],
    /// Bitmap of slots with timers, for each level.
    slots_used: [u64; LEVELS],
    /// Bitmap of levels with timers.
    levels_used: u16,
    tick_bits: u32,
    /// Current tick. A timer is at the level of the highest digit (of base 64) in
    /// which its tick differs from this.
    elapsed: u64,
    /// Lower bound of the start of all slots in use.
    not_before: u64,
    nodes: Vec<Node<T>>,
    free: u32,
    len: u32,
}

/// Handle of a timer; invalid once the timer has fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    index: u32,
    generation: NonZeroU32,
}

#[derive(Clone, Debug)]
struct Node<T> {
    at: Time,
    /// Previous node in the list, or `HEAD |` the number of the slot.
    prev: u32,
    next: u32,
    /// Generation: number of uses of this node so far; a free node holds that of its next use.
    generation: NonZeroU32,
    item: T,
}

impl<T: Copy> Default for TimerWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> TimerWheel<T> {
    /// Wheel with ticks of 2¹⁰ ns.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tick_bits(10)
    }

    /// Wheel with ticks of 2^`tick_bits` ns, `tick_bits` in 0..=32.
    ///
    /// # Panics
    /// If `tick_bits` is larger.
    #[must_use]
    pub fn with_tick_bits(tick_bits: u32) -> Self {
        assert!(tick_bits <= 32, "tick_bits {tick_bits} is outside 0..=32");
        Self {
            heads: [NONE; LEVELS * SLOTS],
            slots_used: [0; LEVELS],
            levels_used: 0,
            tick_bits,
            elapsed: 0,
            not_before: u64::MAX,
            nodes: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Reserves memory for `more` further timers.
    pub fn reserve(&mut self, more: usize) {
        let wanted = self.len() + more;
        self.nodes.reserve(wanted.saturating_sub(self.nodes.len()));
    }

    /// Length of a tick: an upper limit on how late a timer fires.
    #[must_use]
    pub const fn tick(&self) -> Span {
        Span::from_nanos(1 << self.tick_bits)
    }

    /// Number of timers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are no timers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets a timer for `at`. One in the past fires at the next
    /// [`expire`](Self::expire), one in the last tick of [`Time`] never.
    pub fn insert(&mut self, at: Time, item: T) -> TimerKey {
        let index = match self.free {
            NONE => {
                let index = self.nodes.len() as u32;
                assert!(index < HEAD, "the wheel is full: 2^31 timers");
                self.nodes.push(Node { at, prev: 0, next: 0, generation: NonZeroU32::MIN, item });
                index
            }
            index => {
                let node = &mut self.nodes[index as usize];
                self.free = node.next;
                (node.at, node.item) = (at, item);
                index
            }
        };
        self.len += 1;
        self.link(index);
        TimerKey { index, generation: self.nodes[index as usize].generation }
    }

    /// Cancels a timer; `None` if it has fired or was cancelled.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        if self.nodes.get(key.index as usize)?.generation != key.generation {
            return None;
        }
        self.unlink(key.index);
        Some(self.release(key.index).1)
    }

    /// Lower bound of the next expiry; `None` without timers. [`expire`](Self::expire)
    /// at this instant returns a timer or raises the bound.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        let (level, slot) = self.next_slot()?;
        let tick = self.slot_start(level, slot);
        Some(Time::from_nanos(if tick > u64::MAX >> self.tick_bits {
            u64::MAX
        } else {
            tick << self.tick_bits
        }))
    }

    /// Advances to `now` and removes one due timer; returns the instant it was set
    /// for, and its item. Call until `None`.
    #[inline]
    pub fn expire(&mut self, now: Time) -> Option<(Time, T)> {
        let target = now.as_nanos() >> self.tick_bits;
        if target < self.not_before {
            // The common case.
            self.elapsed = self.elapsed.max(target);
            return None;
        }
        self.expire_until(target)
    }

    fn expire_until(&mut self, target: u64) -> Option<(Time, T)> {
        self.not_before = u64::MAX;
        while let Some((level, slot)) = self.next_slot() {
            let start = self.slot_start(level, slot);
            if start > target {
                self.not_before = start;
                break;
            }
            self.elapsed = start;
            let head = self.heads[level * SLOTS + slot];
            if level == 0 {
                self.not_before = start;
                self.unlink(head);
                return Some(self.release(head));
            }
            self.cascade(level, slot);
        }
        self.elapsed = self.elapsed.max(target);
        None
    }

    /// First slot in use at or after the current tick.
    fn next_slot(&self) -> Option<(usize, usize)> {
        if self.levels_used == 0 {
            return None;
        }
        let level = self.levels_used.trailing_zeros() as usize;
        Some((level, self.slots_used[level].trailing_zeros() as usize))
    }

    /// First tick of a slot: the digits above its level are those of `elapsed`, the
    /// digits below are zero.
    fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let shift = level as u32 * SLOT_BITS;
        let above = self.elapsed.checked_shr(shift + SLOT_BITS).unwrap_or(0);
        above.checked_shl(shift + SLOT_BITS).unwrap_or(0) | (slot as u64) << shift
    }

    /// Moves a slot's timers to lower levels when time reaches it.
    fn cascade(&mut self, level: usize, slot: usize) {
        let mut index = std::mem::replace(&mut self.heads[level * SLOTS + slot], NONE);
        self.mark_empty(level * SLOTS + slot);
        while index != NONE {
            let next = self.nodes[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    fn link(&mut self, index: u32) {
        let at = self.nodes[index as usize].at.as_nanos();
        let tick = at.div_ceil(1 << self.tick_bits).max(self.elapsed);
        let level = (63 - ((tick ^ self.elapsed) | 1).leading_zeros()) / SLOT_BITS;
        let digits = tick >> (level * SLOT_BITS);
        let slot = digits as usize % SLOTS;
        self.not_before = self.not_before.min(digits << (level * SLOT_BITS));
        let slot_number = level as usize * SLOTS + slot;

        let head = std::mem::replace(&mut self.heads[slot_number], index);
        let node = &mut self.nodes[index as usize];
        (node.prev, node.next) = (HEAD | slot_number as u32, head);
        if head != NONE {
            self.nodes[head as usize].prev = index;
        }
        self.slots_used[level as usize] |= 1 << slot;
        self.levels_used |= 1 << level;
    }

    fn unlink(&mut self, index: u32) {
        let Node { prev, next, .. } = self.nodes[index as usize];
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        if prev & HEAD == 0 {
            self.nodes[prev as usize].next = next;
            return;
        }
        let slot_number = (prev & !HEAD) as usize;
        self.heads[slot_number] = next;
        if next == NONE {
            self.mark_empty(slot_number);
        }
    }

    fn mark_empty(&mut self, slot_number: usize) {
        let (level, slot) = (slot_number / SLOTS, slot_number % SLOTS);
        self.slots_used[level] &= !(1 << slot);
        if self.slots_used[level] == 0 {
            self.levels_used &= !(1 << level);
        }
    }

    /// Frees a node for reuse.
    fn release(&mut self, index: u32) -> (Time, T) {
        let node = &mut self.nodes[index as usize];
        node.generation = node.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        node.next = self.free;
        self.free = index;
        self.len -= 1;
        (node.at, node.item)
    }
}

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Number of levels that cover 64-bit ticks, at six bits each.
const LEVELS: usize = 64usize.div_ceil(SLOT_BITS as usize);
/// Index that stands for no node.
const NONE: u32 = u32::MAX;
/// Flag of `prev` for the number of a slot.
const HEAD: u32 = 1 << 31;

#[cfg(test)]
mod tests;
