//! Byte storage of a connection: the bytes themselves, or only their number.
//!
//! A host stores them ([`ByteQueue`]); a simulator that models headers and lengths counts them
//! ([`CountingStore`]). The connection is generic over [`ByteStore`], so neither case tests for the
//! other.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::LazyLock;

use super::buffer::{ByteQueue, Pool};
use crate::buffer_pool::BufferPool;

/// FIFO queue of bytes.
pub(crate) trait ByteStore: Default {
    /// Storage of bytes received out of order.
    type Run: Run;

    fn len(&self) -> usize;
    /// Up to `len` bytes from `offset` on; fewer at the end of the queue.
    fn slice(&self, offset: usize, len: usize) -> &[u8];
    fn push(&mut self, bytes: &[u8], pool: &mut Pool);
    /// Number of the next `n` bytes that memory allows.
    fn affordable(&self, n: usize, pool: &Pool) -> usize;
    /// Removes the first `n` bytes.
    fn pop(&mut self, n: usize, pool: &mut Pool);
    /// Removes all bytes and frees the memory.
    fn release(&mut self, pool: &mut Pool);

    #[inline]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Run of bytes that grows at its end; its owner accounts for the memory.
pub(crate) trait Run: Debug {
    fn of(bytes: &[u8], pool: &mut Pool) -> Self;
    fn extend(&mut self, bytes: &[u8]);
    fn join(&mut self, other: &Self);
    fn len(&self) -> usize;
    /// Bytes in `range`, if all are held.
    fn part(&self, range: Range<usize>) -> Option<&[u8]>;
    /// Memory in bytes.
    fn footprint(&self) -> usize;
    /// Returns the memory to the pool.
    fn give(self, pool: &mut Pool);
}

impl ByteStore for ByteQueue {
    type Run = Vec<u8>;

    #[inline]
    fn len(&self) -> usize {
        Self::len(self)
    }

    #[inline]
    fn slice(&self, offset: usize, len: usize) -> &[u8] {
        Self::slice(self, offset, len)
    }

    #[inline]
    fn push(&mut self, bytes: &[u8], pool: &mut Pool) {
        Self::push(self, bytes, pool);
    }

    #[inline]
    fn affordable(&self, n: usize, pool: &Pool) -> usize {
        Self::affordable(self, n, pool)
    }

    #[inline]
    fn pop(&mut self, n: usize, pool: &mut Pool) {
        Self::pop(self, n, pool);
    }

    #[inline]
    fn release(&mut self, pool: &mut Pool) {
        Self::release(self, pool);
    }
}

impl Run for Vec<u8> {
    fn of(bytes: &[u8], pool: &mut Pool) -> Self {
        // Large, because it grows segment by segment without the pool.
        let mut own = pool.take_held(BufferPool::LARGE);
        own.extend_from_slice(bytes);
        own
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn join(&mut self, other: &Self) {
        self.extend_from_slice(other);
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn part(&self, range: Range<usize>) -> Option<&[u8]> {
        self.get(range)
    }

    fn footprint(&self) -> usize {
        self.capacity()
    }

    fn give(self, pool: &mut Pool) {
        pool.give(self);
    }
}

/// Byte counter in place of a queue; its bytes read as zeroes, and nothing is copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountingStore(usize);

/// Content of all counted bytes; never written, so it takes up addresses and almost no memory.
static ZEROES: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; CountingStore::SLICE_MAX]);

impl CountingStore {
    /// Maximum bytes in one slice: a segment, or a run received out of order.
    pub(crate) const SLICE_MAX: usize = 8 << 20;

    /// `len` counted bytes, at most [`CountingStore::SLICE_MAX`].
    #[inline]
    pub(crate) fn zeroes(len: usize) -> &'static [u8] {
        &ZEROES[..len.min(Self::SLICE_MAX)]
    }
}

impl ByteStore for CountingStore {
    type Run = Self;

    #[inline]
    fn len(&self) -> usize {
        self.0
    }

    #[inline]
    fn slice(&self, offset: usize, len: usize) -> &[u8] {
        Self::zeroes(len.min(self.0.saturating_sub(offset)))
    }

    #[inline]
    fn push(&mut self, bytes: &[u8], _: &mut Pool) {
        self.0 += bytes.len();
    }

    #[inline]
    fn affordable(&self, n: usize, _: &Pool) -> usize {
        n
    }

    #[inline]
    fn pop(&mut self, n: usize, _: &mut Pool) {
        self.0 -= n.min(self.0);
    }

    #[inline]
    fn release(&mut self, _: &mut Pool) {
        self.0 = 0;
    }
}

impl Run for CountingStore {
    fn of(bytes: &[u8], _: &mut Pool) -> Self {
        Self(bytes.len())
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn join(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn len(&self) -> usize {
        self.0
    }

    fn part(&self, range: Range<usize>) -> Option<&[u8]> {
        (range.start <= range.end && range.end <= self.0).then(|| Self::zeroes(range.len()))
    }

    fn footprint(&self) -> usize {
        0
    }

    fn give(self, _: &mut Pool) {}
}

#[cfg(test)]
mod tests;
