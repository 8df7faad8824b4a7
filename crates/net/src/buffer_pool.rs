//! Byte buffers of two sizes, kept for reuse.
//!
//! Frames need none: they are the device's. What needs one is payload that
//! waits (in TCP, in a request under way, in a response), and most of that is
//! either a few hundred bytes or much more. A short one in a small buffer
//! takes an eighth of the memory that it would take in a large one; whoever
//! outgrows a small buffer gets a large one from here and not from the
//! allocator. How often the allocator had to help is counted.
//! Source: the overload paper §3.2 keeps 128-byte buffers beside the allocator.

/// Buffers without an owner.
#[derive(Debug, Default)]
pub struct BufferPool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    /// In both.
    bytes: usize,
    uses: PoolStats,
}

/// How often buffers were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Times that a buffer or a larger one was needed.
    pub asked: u64,
    /// Of these, given without the allocator.
    pub pooled: u64,
    /// Of these, small.
    pub small: u64,
}

impl PoolStats {
    /// The share given without the allocator, 0 to 1; 1 when nobody asked.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        if self.asked == 0 { 1.0 } else { self.pooled as f64 / self.asked as f64 }
    }

    /// Of two places together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let Self { asked, pooled, small } = other;
        Self { asked: self.asked + asked, pooled: self.pooled + pooled, small: self.small + small }
    }
}

impl BufferPool {
    /// What a small buffer holds.
    pub const SMALL: usize = 256;
    /// What a large one holds before it has to grow.
    pub const LARGE: usize = 2048;
    /// Larger buffers are freed instead of kept.
    pub const KEPT_LEN_MAX: usize = 64 * 1024;
    /// With more bytes than this in free buffers, further ones are freed.
    pub const KEPT_BYTES_MAX: usize = 16 << 20;

    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        let uses = PoolStats { asked: 0, pooled: 0, small: 0 };
        Self { small: Vec::new(), large: Vec::new(), bytes: 0, uses }
    }

    /// An empty buffer with room for `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        self.uses.asked += 1;
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

    /// Makes room for `more` bytes in `buffer`, which has too little.
    #[cold]
    pub fn grow(&mut self, buffer: &mut Vec<u8>, more: usize) {
        if buffer.capacity() <= Self::SMALL {
            let mut larger = self.take(Self::LARGE.max(buffer.len() + more));
            larger.extend_from_slice(buffer);
            self.give(std::mem::replace(buffer, larger));
        } else {
            self.uses.asked += 1;
            buffer.reserve(more);
        }
    }

    /// Somebody had the allocator make a buffer larger.
    pub fn missed(&mut self) {
        self.uses.asked += 1;
    }

    /// Takes a buffer back, whatever is in it.
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

    /// How often buffers were asked for.
    #[must_use]
    pub const fn uses(&self) -> PoolStats {
        self.uses
    }

    /// Bytes in buffers without an owner.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_come_back_to_their_own_kind() {
        let mut buffers = BufferPool::new();
        let (short, long) = (buffers.take(100), buffers.take(1000));
        assert_eq!((short.capacity(), long.capacity()), (256, 2048));
        buffers.give(short);
        buffers.give(long);
        assert_eq!(buffers.take(257).capacity(), 2048);
        assert_eq!(buffers.take(1).capacity(), 256);
        assert_eq!(buffers.uses(), PoolStats { asked: 4, pooled: 2, small: 2 });
        assert_eq!(buffers.bytes(), 0);
    }

    #[test]
    fn what_outgrows_a_small_buffer_is_given_a_large_one_and_the_small_one_is_kept() {
        let mut buffers = BufferPool::new();
        let long = buffers.take(300);
        buffers.give(long);
        let mut buffer = buffers.take(3);
        buffer.extend_from_slice(b"abc");
        buffers.grow(&mut buffer, 400);
        assert_eq!((&buffer[..], buffer.capacity(), buffers.bytes()), (&b"abc"[..], 2048, 256));
        assert_eq!(buffers.uses(), PoolStats { asked: 3, pooled: 1, small: 1 });
    }

    #[test]
    fn only_a_bounded_number_of_bytes_is_kept_and_nothing_huge() {
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
