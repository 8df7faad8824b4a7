//! Buffer pool: byte buffers of two sizes, kept for reuse.
//!
//! Not for frames, which are the device's: for payload that waits in TCP, in an incomplete request
//! or in a response. Most of it is either a few hundred bytes or much more. A small buffer takes an
//! eighth of the memory of a large one. Data that outgrows a small buffer moves to a large one of
//! the pool, not of the allocator. Allocations are counted.
//!
//! Source: the overload paper §3.2 keeps 128-byte buffers beside the allocator.

/// Pool of free buffers.
#[derive(Debug, Default)]
pub struct BufferPool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    /// Capacity of all free buffers, in bytes.
    bytes: usize,
    uses: PoolStats,
}

/// Counts of buffer requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Requests for a buffer or a larger one.
    pub requests: u64,
    /// Requests served without the allocator.
    pub pooled: u64,
    /// Requests served by a small buffer.
    pub small: u64,
}

impl PoolStats {
    /// Fraction served without the allocator, 0 to 1; 1 without requests.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.pooled as f64 / self.requests as f64 }
    }

    /// Sum of two pools' counts.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let Self { requests, pooled, small } = other;
        Self { requests: self.requests + requests, pooled: self.pooled + pooled, small: self.small + small }
    }
}

impl BufferPool {
    /// Capacity of a small buffer, in bytes.
    pub const SMALL: usize = 256;
    /// Initial capacity of a large buffer, in bytes.
    pub const LARGE: usize = 2048;
    /// Largest capacity that is kept, in bytes; larger buffers are freed.
    pub const KEPT_LEN_MAX: usize = 64 * 1024;
    /// Maximum number of bytes in free buffers; beyond it, returned buffers are freed.
    pub const KEPT_BYTES_MAX: usize = 16 << 20;

    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self {
        let uses = PoolStats { requests: 0, pooled: 0, small: 0 };
        Self { small: Vec::new(), large: Vec::new(), bytes: 0, uses }
    }

    /// An empty buffer with capacity for `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        self.uses.requests += 1;
        let small = len <= Self::SMALL;
        self.uses.small += u64::from(small);
        let free = if small { &mut self.small } else { &mut self.large };
        let Some(mut buffer) = free.pop() else {
            return Vec::with_capacity(if small { Self::SMALL } else { len.max(Self::LARGE) });
        };
        self.bytes -= buffer.capacity();
        self.uses.pooled += u64::from(buffer.capacity() >= len);
        buffer.reserve(len);
        buffer
    }

    /// Grows `buffer`, whose capacity is too small, by `more` bytes.
    #[cold]
    pub fn grow(&mut self, buffer: &mut Vec<u8>, more: usize) {
        if buffer.capacity() <= Self::SMALL {
            let mut larger = self.take(Self::LARGE.max(buffer.len() + more));
            larger.extend_from_slice(buffer);
            self.give(std::mem::replace(buffer, larger));
        } else {
            self.uses.requests += 1;
            buffer.reserve(more);
        }
    }

    /// Counts a buffer that the allocator enlarged.
    pub fn missed(&mut self) {
        self.uses.requests += 1;
    }

    /// Returns a buffer to the pool, whatever it contains.
    #[inline]
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let kept = Self::SMALL..=Self::KEPT_LEN_MAX;
        if kept.contains(&capacity) && self.bytes + capacity <= Self::KEPT_BYTES_MAX {
            buffer.clear();
            self.bytes += capacity;
            if capacity < Self::LARGE { self.small.push(buffer) } else { self.large.push(buffer) }
        }
    }

    /// Counts of buffer requests.
    #[must_use]
    pub const fn uses(&self) -> PoolStats {
        self.uses
    }

    /// Capacity of free buffers, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

//~ guard: G2: frames need no buffer; waiting data takes one of two pooled sizes
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_buffers_return_to_their_own_pool() {
        let mut buffers = BufferPool::new();
        let (short, long) = (buffers.take(100), buffers.take(1000));
        assert_eq!((short.capacity(), long.capacity()), (256, 2048));
        buffers.give(short);
        buffers.give(long);
        assert_eq!(buffers.take(257).capacity(), 2048);
        assert_eq!(buffers.take(1).capacity(), 256);
        assert_eq!(buffers.uses(), PoolStats { requests: 4, pooled: 2, small: 2 });
        assert_eq!(buffers.bytes(), 0);
    }

    #[test]
    fn an_outgrown_small_buffer_is_replaced_by_a_large_one_and_returns_to_the_pool() {
        let mut buffers = BufferPool::new();
        let long = buffers.take(300);
        buffers.give(long);
        let mut buffer = buffers.take(3);
        buffer.extend_from_slice(b"abc");
        buffers.grow(&mut buffer, 400);
        assert_eq!((&buffer[..], buffer.capacity(), buffers.bytes()), (&b"abc"[..], 2048, 256));
        assert_eq!(buffers.uses(), PoolStats { requests: 3, pooled: 1, small: 1 });
    }

    #[test]
    fn the_pool_keeps_a_bounded_number_of_bytes_and_no_huge_buffer() {
        let mut buffers = BufferPool::new();
        for _ in 0..100_000 {
            buffers.give(Vec::with_capacity(2048));
            buffers.give(Vec::with_capacity(100_000));
            buffers.give(Vec::new());
        }
        let kept = buffers.bytes();
        assert!(kept <= BufferPool::KEPT_BYTES_MAX && kept > BufferPool::KEPT_BYTES_MAX / 2);
    }
}
