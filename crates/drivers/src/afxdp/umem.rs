//! Frame memory (UMEM), and frames as handles into it.
//!
//! Chunks have one size and one owner at a time: the kernel (fill, transmit and receive rings), the
//! device, or the holder of a [`UmemFrame`].

use std::io;
use std::ptr::NonNull;

use host::mapping::Mapping;

/// Chunks in one mapping.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Option<Mapping>,
    start: NonNull<u8>,
    len: usize,
    /// Chunk size in bytes, a power of two.
    chunk: usize,
    /// Frames that are lent; the memory must stay while there are any.
    lent: usize,
}

// SAFETY: the memory belongs to the process; chunks have one owner at a time.
unsafe impl Send for Umem {}

/// A received frame where the kernel put it.
///
/// Return it with `recycle`; the chunk of a dropped frame is lost until the device is closed.
#[derive(Debug)]
pub struct UmemFrame {
    bytes: NonNull<[u8]>,
}

// SAFETY: a frame is the only owner of its chunk, and the chunk's memory stays while frames are lent.
unsafe impl Send for UmemFrame {}

impl AsRef<[u8]> for UmemFrame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: initialised memory, owned by this frame until it is recycled; the mapping stays while
        // frames are lent.
        unsafe { self.bytes.as_ref() }
    }
}

impl Umem {
    /// `chunks` chunks of `chunk` bytes, a power of two.
    pub(super) fn new(chunks: usize, chunk: usize, hugepages: bool) -> io::Result<Self> {
        assert!(chunk.is_power_of_two(), "chunk size {chunk} is not a power of two");
        let len = chunks * chunk;
        let mapped = if hugepages { len.next_multiple_of(HUGEPAGE) } else { len };
        let mapping = Mapping::anonymous(mapped, hugepages)?;
        Ok(Self { start: mapping.start(), mapping: Some(mapping), len, chunk, lent: 0 })
    }

    /// Start of the memory, as registered with the kernel.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Bytes of all chunks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Address of the chunk that contains `address`.
    #[inline]
    pub(super) fn chunk_of(&self, address: u64) -> u64 {
        address & !(self.chunk as u64 - 1)
    }

    /// Lends the frame of a receive descriptor; `None` if it is not within a chunk, which the kernel
    /// never reports.
    ///
    /// # Safety
    /// The kernel has handed out the chunk, and it was not lent since.
    #[inline]
    pub(super) unsafe fn lend(&mut self, address: u64, len: u32) -> Option<UmemFrame> {
        let (at, len) = (usize::try_from(address).ok()?, len as usize);
        let room = self.chunk - (at & (self.chunk - 1));
        if at >= self.len || len > room {
            return None;
        }
        self.lent += 1;
        // SAFETY: `at` is within the mapping.
        let start = unsafe { self.start.add(at) };
        Some(UmemFrame { bytes: NonNull::slice_from_raw_parts(start, len) })
    }

    /// Takes a frame back: the address of its chunk.
    ///
    /// # Panics
    /// The frame is of another device.
    #[inline]
    pub(super) fn take_back(&mut self, frame: UmemFrame) -> u64 {
        let at = (frame.bytes.cast::<u8>().as_ptr() as usize).wrapping_sub(self.start.as_ptr() as usize);
        assert!(at < self.len && self.lent > 0, "a frame goes back to the device it came from");
        self.lent -= 1;
        self.chunk_of(at as u64)
    }

    /// The first `len` bytes of the chunk at `address`.
    ///
    /// # Safety
    /// The chunk is the caller's: not in a ring, not lent.
    ///
    /// # Panics
    /// The range is not within the chunk.
    #[inline]
    pub(super) unsafe fn chunk_mut(&mut self, address: u64, len: usize) -> &mut [u8] {
        let at = address as usize;
        assert!(at < self.len && len <= self.chunk, "{len} bytes at {at} are not in a chunk");
        // SAFETY: within the mapping, initialised, and owned by the caller alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at).as_ptr(), len) }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        if self.lent > 0
            && let Some(mapping) = self.mapping.take()
        {
            mapping.leak();
        }
    }
}

/// Bytes of a huge page.
pub(super) const HUGEPAGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_outlives_its_device() {
        let mut umem = Umem::new(4, 2048, false).unwrap();
        // SAFETY: chunk 1 has no other owner.
        unsafe { umem.chunk_mut(2048, 5) }.copy_from_slice(b"hello");
        // SAFETY: chunk 1 has no other owner.
        let frame = unsafe { umem.lend(2048, 5) }.unwrap();
        drop(umem);
        assert_eq!(frame.as_ref(), b"hello");
    }

    #[test]
    fn a_chunk_comes_back_by_its_start() {
        let mut umem = Umem::new(4, 2048, false).unwrap();
        // SAFETY: chunk 1 has no other owner.
        let frame = unsafe { umem.lend(2048 + 256, 60) }.unwrap();
        assert_eq!((umem.lent, umem.take_back(frame), umem.lent), (1, 2048, 0));
    }

    #[test]
    fn a_descriptor_outside_the_memory_is_no_frame() {
        let mut umem = Umem::new(4, 2048, false).unwrap();
        for (address, len) in [(4 * 2048, 1), (2048 + 256, 1793), (u64::MAX, 1)] {
            // SAFETY: no chunk has an owner.
            assert!(unsafe { umem.lend(address, len) }.is_none(), "{address}, {len}");
        }
    }
}
