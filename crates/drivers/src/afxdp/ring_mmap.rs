//! Ring words in memory mapped from the kernel.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ring::Words;
use host::mapping::Mapping;

/// One of a socket's four rings.
#[derive(Debug)]
pub(super) struct Shared<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    size: u32,
}

// SAFETY: the pointers point into a mapping that moves with them.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// Maps the ring of `size` slots at `page` of `socket`.
    pub(super) fn map(
        socket: &OwnedFd,
        page: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let slots_at = offsets.desc as usize;
        let mapping = Mapping::of(socket, page, slots_at + size as usize * size_of::<T>())?;
        Ok(Self {
            producer: mapping.at(offsets.producer as usize),
            consumer: mapping.at(offsets.consumer as usize),
            flags: mapping.at(offsets.flags as usize),
            slots: mapping.at(slots_at),
            _mapping: mapping,
            size,
        })
    }

    /// True if the kernel sleeps and needs a wake-up.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: an aligned word of a mapping that lives as long as `self`.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of a mapping that lives as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer's.
        unsafe { self.consumer.as_ref() }
    }

    /// Location of `slot`.
    fn slot(&self, slot: u32) -> NonNull<T> {
        debug_assert!(slot < self.size, "slot {slot} of a ring of {}", self.size);
        // SAFETY: below the ring's size, so within the mapping. `ring` masks it.
        unsafe { self.slots.add(slot as usize) }
    }
}

impl<T: Copy> Words<T> for Shared<T> {
    #[inline]
    fn produced(&self) -> u32 {
        self.producer().load(Ordering::Acquire)
    }

    #[inline]
    fn consumed(&self) -> u32 {
        self.consumer().load(Ordering::Acquire)
    }

    #[inline]
    fn publish(&self, produced: u32) {
        self.producer().store(produced, Ordering::Release);
    }

    #[inline]
    fn release(&self, consumed: u32) {
        self.consumer().store(consumed, Ordering::Release);
    }

    #[inline]
    fn read(&self, slot: u32) -> T {
        // SAFETY: the ring protocol makes the slot ours to read, and any bytes are a valid descriptor
        // or address.
        unsafe { self.slot(slot).read() }
    }

    #[inline]
    fn write(&mut self, slot: u32, item: T) {
        // SAFETY: the ring protocol makes the slot ours to write.
        unsafe { self.slot(slot).write(item) };
    }
}
