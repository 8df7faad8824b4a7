//! Byte queues, and the memory pool that they allocate from.
//!
//! An idle connection owns no buffer: the first byte allocates it and the last one to leave frees
//! it. 100,000 idle connections therefore cost nothing here, and busy ones share few, cache-warm
//! buffers. The pool bounds the total. Its last quarter is reserved for connections that hold
//! little, so that a few large ones cannot starve the others.

use std::collections::{BTreeSet, VecDeque};

use super::retransmit_queue::RetransmitRecords;
use crate::buffer_pool::{BufferPool, PoolStats};
use crate::stack::ConnId;

/// Free buffers and retransmission records, and the count of bytes in use.
#[derive(Debug)]
pub(crate) struct Pool {
    free: BufferPool,
    /// Bytes in buffers owned by connections.
    held: usize,
    held_max: usize,
    /// Connections whose `send` was refused memory.
    starved: VecDeque<ConnId>,
    /// True if memory was freed since the starved connections were last retried.
    relieved: bool,
    /// Slots of the connections whose window is reduced for lack of memory.
    shortened: BTreeSet<u32>,
    // Boxes, so that a change of owner copies nothing.
    #[allow(clippy::vec_box)]
    ledgers: Vec<Box<RetransmitRecords>>,
}

/// Purpose of an allocation; less important ones are refused earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryClass {
    /// Out-of-order data: up to half of all memory.
    Early,
    /// More memory for a connection that holds much: up to three quarters.
    Much,
    /// Memory for a connection that holds little: up to all.
    Little,
}

impl Default for Pool {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}

impl Pool {
    /// Maximum number of free retransmission records kept; further ones are dropped.
    const KEPT_LEDGERS_MAX: usize = 1024;
    /// Maximum bytes in one queue of a connection that holds little.
    const LITTLE: usize = 16 * 1024;

    /// A pool whose connections may hold `held_max` bytes.
    pub(crate) const fn bounded(held_max: usize) -> Self {
        Self {
            free: BufferPool::new(),
            held: 0,
            held_max,
            starved: VecDeque::new(),
            relieved: false,
            shortened: BTreeSet::new(),
            ledgers: Vec::new(),
        }
    }

    /// Bytes in buffers owned by connections.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// True if more than half is in use, so that windows are reduced.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.held > self.held_max / 2
    }

    /// True if `more` bytes may be allocated for `purpose`.
    pub(crate) fn allows(&self, purpose: MemoryClass, more: usize) -> bool {
        let max = match purpose {
            MemoryClass::Early => self.held_max / 2,
            MemoryClass::Much => self.held_max / 4 * 3,
            MemoryClass::Little => self.held_max,
        };
        self.held.saturating_add(more) <= max
    }

    /// Accounts for a buffer that changes from `before` to `after` bytes.
    #[inline]
    pub(crate) fn account(&mut self, before: usize, after: usize) {
        self.held = (self.held + after).saturating_sub(before);
        self.relieved |= after < before;
    }

    /// Registers `conn` as waiting for memory.
    pub(crate) fn starve(&mut self, conn: ConnId) {
        self.starved.push_back(conn);
    }

    /// True if memory was freed and a connection waits for it.
    #[inline]
    pub(crate) fn can_feed(&self) -> bool {
        self.relieved && !self.starved.is_empty()
    }

    /// Takes the waiting connections, which may retry now; each is listed once per wait.
    pub(crate) fn fed(&mut self) -> VecDeque<ConnId> {
        self.relieved = false;
        std::mem::take(&mut self.starved)
    }

    /// Registers the connection in slot `index` as having a reduced window.
    pub(crate) fn shorten(&mut self, index: u32) {
        self.shortened.insert(index);
    }

    /// The connection in slot `index` is closed.
    #[inline]
    pub(crate) fn forget_shortened(&mut self, index: u32) {
        if !self.shortened.is_empty() {
            self.shortened.remove(&index);
        }
    }

    /// Next connection whose window may be restored, once memory is not short any more.
    #[inline]
    pub(crate) fn next_shortened(&mut self) -> Option<u32> {
        if self.shortened.is_empty() || self.is_short() { None } else { self.shortened.pop_first() }
    }

    /// A buffer with capacity for at least `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        self.free.take(len)
    }

    /// Same as [`take`](Self::take), for a buffer that counts towards the pool's limit.
    ///
    /// A reused buffer may have grown. If it exceeds the free memory, a smaller one is allocated
    /// instead.
    #[inline]
    pub(crate) fn take_held(&mut self, len: usize) -> Vec<u8> {
        let buffer = self.free.take(len);
        if self.has_space(buffer.capacity()) { buffer } else { self.exchange(buffer, len) }
    }

    #[cold]
    fn exchange(&mut self, larger: Vec<u8>, len: usize) -> Vec<u8> {
        self.free.give(larger);
        Vec::with_capacity(if len <= BufferPool::SMALL {
            BufferPool::SMALL
        } else {
            len.max(BufferPool::LARGE)
        })
    }

    /// True if `more` bytes fit the total bound.
    #[inline]
    pub(crate) fn has_space(&self, more: usize) -> bool {
        self.held.saturating_add(more) <= self.held_max
    }

    #[inline]
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        self.free.give(buffer);
    }

    /// Allocation statistics.
    pub(crate) const fn uses(&self) -> PoolStats {
        self.free.uses()
    }
}

impl Pool {
    pub(crate) fn take_records_buffer(&mut self) -> Box<RetransmitRecords> {
        self.ledgers.pop().unwrap_or_default()
    }

    pub(crate) fn return_records_buffer(&mut self, mut records: Box<RetransmitRecords>) {
        if self.ledgers.len() < Self::KEPT_LEDGERS_MAX {
            records.reset();
            self.ledgers.push(records);
        }
    }
}

/// Byte queue readable as one slice.
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

    /// Up to `len` bytes from `offset` on; fewer at the end of the queue.
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
            self.bytes = pool.take_held(bytes.len());
            pool.account(0, self.bytes.capacity());
        }
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.evict_one(bytes.len(), pool);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes space for `n` more bytes: compacts when that is cheaper than growing, then grows if
    /// needed.
    #[cold]
    fn evict_one(&mut self, n: usize, pool: &mut Pool) {
        let before = self.bytes.capacity();
        if self.head as usize >= self.len() {
            self.bytes.drain(..self.head as usize);
            self.head = 0;
        }
        if self.bytes.capacity() - self.bytes.len() < n {
            pool.free.grow(&mut self.bytes, n);
            let needed = (self.bytes.len() + n).max(BufferPool::LARGE);
            if !pool.has_space(self.bytes.capacity().saturating_sub(before)) {
                // A reused buffer may be larger than the free memory.
                self.bytes.shrink_to(needed);
            }
        }
        pool.account(before, self.bytes.capacity());
    }

    /// Number of the next `n` bytes that memory allows.
    #[inline]
    pub(crate) fn affordable(&self, n: usize, pool: &Pool) -> usize {
        if self.bytes.len() + n <= self.bytes.capacity() {
            return n;
        }
        self.affordable_anew(n, pool)
    }

    /// Same as [`affordable`](Self::affordable), if more memory has to be allocated.
    #[inline]
    fn affordable_anew(&self, n: usize, pool: &Pool) -> usize {
        if self.bytes.capacity() == 0 && n <= BufferPool::LARGE {
            return if pool.allows(MemoryClass::Little, BufferPool::LARGE) { n } else { 0 };
        }
        self.affordable_by_growing(n, pool)
    }

    #[inline(never)]
    fn affordable_by_growing(&self, n: usize, pool: &Pool) -> usize {
        let (capacity, needed) = (self.bytes.capacity(), self.len() + n);
        // Space before `head` is reclaimed only once it is the larger part.
        let used = if self.head as usize >= self.len() { self.len() } else { self.bytes.len() };
        if used + n <= capacity {
            return n;
        }
        let growth = (2 * capacity).max(used + n).max(BufferPool::LARGE) - capacity;
        let purpose = if needed <= Pool::LITTLE { MemoryClass::Little } else { MemoryClass::Much };
        if pool.allows(purpose, growth) { n } else { capacity - used }
    }

    /// Removes the first `n` bytes.
    #[inline]
    pub(crate) fn pop(&mut self, n: usize, pool: &mut Pool) {
        self.head += n.min(self.len()) as u32;
        if self.is_empty() {
            self.release(pool);
        }
    }

    /// Removes all bytes and frees the memory.
    #[inline]
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.bytes.capacity() == 0 {
            return;
        }
        pool.account(self.bytes.capacity(), 0);
        pool.give(std::mem::take(&mut self.bytes));
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_queue_owns_no_memory() {
        let mut pool = Pool::default();
        let mut queue = ByteQueue::default();
        queue.push(b"abc", &mut pool);
        queue.pop(3, &mut pool);
        assert_eq!((queue.bytes.capacity(), pool.free.bytes()), (0, BufferPool::SMALL));
    }

    //~ guard: G2: frames need no buffer; waiting data takes one of two pooled sizes
    #[test]
    fn waiting_short_requests_hold_an_eighth_of_large_buffers() {
        let mut pool = Pool::default();
        let mut queues: Vec<ByteQueue> = (0..1000).map(|_| ByteQueue::default()).collect();
        queues.iter_mut().for_each(|queue| queue.push(&[0; 200], &mut pool));
        assert_eq!(pool.held, 1000 * BufferPool::LARGE / 8);
        queues.iter_mut().for_each(|queue| queue.push(&[0; 200], &mut pool));
        assert_eq!(pool.held, 1000 * BufferPool::LARGE, "large buffers replace the small ones");
    }

    #[test]
    fn last_quarter_is_reserved_for_connections_that_hold_little() {
        let mut pool = Pool::bounded(400_000);
        let mut queues: Vec<ByteQueue> = (0..200).map(|_| ByteQueue::default()).collect();
        let fill = |queue: &mut ByteQueue, n: usize, pool: &mut Pool| {
            let n = queue.affordable(n, pool);
            queue.push(&vec![0; n], pool);
            queue.len()
        };
        let (many, few) = queues.split_at_mut(10);
        let much: usize = many.iter_mut().map(|queue| fill(queue, 50_000, &mut pool)).sum();
        assert!((250_000..=300_000).contains(&much) && pool.held <= 300_000, "{much}");
        let little: usize = few.iter_mut().map(|queue| fill(queue, 1500, &mut pool)).sum();
        assert!(little >= 45 * 1500 && pool.held <= 400_000, "{little}");
        assert!(!pool.allows(MemoryClass::Early, 1) && pool.is_short());
        queues.iter_mut().for_each(|queue| queue.release(&mut pool));
        assert_eq!(pool.held, 0);
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
                prop_assert_eq!(pool.held, queue.bytes.capacity());
            }
        }
    }
}
