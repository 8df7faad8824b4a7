//! Pool of buffers for frames copied by the kernel: many for ordinary frames, few for merged ones.
//!
//! No allocation happens below the previous maximum of frames in flight.

/// A received frame in a buffer of a device.
#[derive(Debug)]
pub struct PooledFrame {
    buffer: Box<[u8]>,
    len: usize,
}

impl AsRef<[u8]> for PooledFrame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// Buffers that are not in flight.
#[derive(Debug)]
pub(crate) struct Pool {
    small_len: usize,
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

/// Maximum of buffers kept; more in flight are allocated and freed.
const SMALL_MAX: usize = 1024;
const LARGE_MAX: usize = 16;

/// Longest frame that the kernel merges: an IP packet and its Ethernet header.
pub(crate) const LARGE_LEN: usize = 65_535 + 14;

impl Pool {
    /// A pool whose small buffers have `small_len` bytes.
    pub(crate) fn new(small_len: usize) -> Self {
        Self { small_len, small: Vec::with_capacity(SMALL_MAX), large: Vec::with_capacity(LARGE_MAX) }
    }

    /// A buffer for an ordinary frame.
    #[inline]
    pub(crate) fn small(&mut self) -> Box<[u8]> {
        self.small.pop().unwrap_or_else(|| vec![0; self.small_len].into_boxed_slice())
    }

    /// A buffer of [`LARGE_LEN`].
    pub(crate) fn large(&mut self) -> Box<[u8]> {
        self.large.pop().unwrap_or_else(|| vec![0; LARGE_LEN].into_boxed_slice())
    }

    /// A buffer for a frame of `len` bytes.
    #[inline]
    pub(crate) fn of_len(&mut self, len: usize) -> Box<[u8]> {
        if len > self.small_len { self.large() } else { self.small() }
    }

    /// The first `len` bytes of `buffer` as a frame.
    #[inline]
    pub(crate) fn frame(buffer: Box<[u8]>, len: usize) -> PooledFrame {
        assert!(len <= buffer.len(), "a frame of {len} bytes is longer than its buffer");
        PooledFrame { buffer, len }
    }

    /// Returns a frame's buffer.
    #[inline]
    pub(crate) fn take_back(&mut self, frame: PooledFrame) {
        self.take_back_buffer(frame.buffer);
    }

    /// Returns an unused buffer.
    #[inline]
    pub(crate) fn take_back_buffer(&mut self, buffer: Box<[u8]>) {
        let (kept, max) = match buffer.len() == self.small_len {
            true => (&mut self.small, SMALL_MAX),
            false => (&mut self.large, LARGE_MAX),
        };
        if kept.len() < max {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_came_back_is_used_again() {
        let take = |pool: &mut Pool, large: bool| {
            let buffer = if large { pool.large() } else { pool.small() };
            let at = buffer.as_ptr().addr();
            pool.take_back(Pool::frame(buffer, 60));
            at
        };
        let mut pool = Pool::new(1514);
        for large in [false, true] {
            assert_eq!(take(&mut pool, large), take(&mut pool, large));
        }
    }

    #[test]
    fn no_more_buffers_are_kept_than_the_bound_says() {
        let mut pool = Pool::new(64);
        for _ in 0..2 * LARGE_MAX {
            let buffer = vec![0; LARGE_LEN].into_boxed_slice();
            pool.take_back_buffer(buffer);
        }
        assert_eq!(pool.large.len(), LARGE_MAX);
    }
}
