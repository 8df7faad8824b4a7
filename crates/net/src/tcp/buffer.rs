//! Bytes that wait in order, and the pool their memory comes from.
//!
//! An idle connection owns no buffer: the memory is taken when the first byte
//! comes and given back when the last one leaves, so that 100,000 idle
//! connections cost nothing here and busy ones share few, cache-warm buffers.

/// Buffers without an owner.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Vec<u8>>,
    free_bytes: usize,
}

impl Pool {
    /// What a new buffer holds before it has to grow.
    const BUFFER_LEN: usize = 2048;
    /// Larger buffers are freed instead of kept.
    const KEPT_LEN_MAX: usize = 64 * 1024;
    /// With more bytes than this in free buffers, further ones are freed.
    const KEPT_BYTES_MAX: usize = 16 << 20;

    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let Some(buffer) = self.free.pop() else { return Vec::with_capacity(Self::BUFFER_LEN) };
        self.free_bytes -= buffer.capacity();
        buffer
    }

    #[inline]
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let kept = 1..=Self::KEPT_LEN_MAX;
        if kept.contains(&buffer.capacity()) && self.free_bytes + buffer.capacity() <= Self::KEPT_BYTES_MAX {
            buffer.clear();
            self.free_bytes += buffer.capacity();
            self.free.push(buffer);
        }
    }
}

/// A queue of bytes that can be read as one slice.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    head: u32,
}

impl ByteQueue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.head as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.head as usize..]
    }

    /// `len` bytes from `offset` on, less where the queue ends.
    #[inline]
    pub(crate) fn slice(&self, offset: usize, len: usize) -> &[u8] {
        let all = self.as_slice();
        let start = offset.min(all.len());
        &all[start..start.saturating_add(len).min(all.len())]
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8], pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        if self.bytes.capacity() == 0 {
            self.bytes = pool.take();
        }
        // Move the rest to the front when that is cheaper than growing.
        if self.bytes.len() + bytes.len() > self.bytes.capacity() && self.head as usize >= self.len() {
            self.bytes.drain(..self.head as usize);
            self.head = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets the first `n` bytes.
    #[inline]
    pub(crate) fn pop(&mut self, n: usize, pool: &mut Pool) {
        self.head += n.min(self.len()) as u32;
        if self.is_empty() {
            self.release(pool);
        }
    }

    /// Forgets everything and gives the memory back.
    #[inline]
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        pool.give(std::mem::take(&mut self.bytes));
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn empty_queue_owns_no_memory() {
        let mut pool = Pool::default();
        let mut queue = ByteQueue::default();
        queue.push(b"abc", &mut pool);
        queue.pop(3, &mut pool);
        assert_eq!((queue.bytes.capacity(), pool.free.len()), (0, 1));
    }

    #[test]
    fn pool_keeps_a_bounded_number_of_bytes() {
        let mut pool = Pool::default();
        for _ in 0..100_000 {
            pool.give(Vec::with_capacity(2048));
        }
        let held: usize = pool.free.iter().map(Vec::capacity).sum();
        assert!(held <= Pool::KEPT_BYTES_MAX && held > Pool::KEPT_BYTES_MAX / 2);
        let _ = (0..100_000).map(|_| pool.take()).collect::<Vec<_>>();
        assert_eq!(pool.free_bytes, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn queue_equals_a_deque(steps in prop::collection::vec((0usize..3000, 0usize..3000), 1..60)) {
            let mut pool = Pool::default();
            let (mut queue, mut model) = (ByteQueue::default(), VecDeque::new());
            for (i, (push, pop)) in steps.into_iter().enumerate() {
                let bytes = vec![i as u8; push];
                queue.push(&bytes, &mut pool);
                model.extend(bytes);
                queue.pop(pop, &mut pool);
                model.drain(..pop.min(model.len()));
                prop_assert_eq!(queue.as_slice(), model.make_contiguous() as &[u8]);
            }
        }
    }
}
