//! One side of a ring shared with the kernel.
//!
//! Both counters run freely and the ring's size is a power of two, so their difference modulo 2³² is
//! the number of entries. Each side caches the other's counter and reads it only when the ring seems
//! full or empty: the other's cache line is touched once per batch.
//!
//! The protocol is the order of memory accesses: a producer writes its slots and then releases its
//! counter, a consumer acquires that counter and then reads. [`Words`] separates the rings from the
//! location of their words, so the same code runs on the kernel's memory, against a model, and under
//! loom.
//!
//! Source: Linux, Documentation/networking/af_xdp.rst "Rings".

/// Memory of a ring.
pub(super) trait Words<T> {
    /// The producer's counter, with acquire ordering.
    fn produced(&self) -> u32;
    /// The consumer's counter, with acquire ordering.
    fn consumed(&self) -> u32;
    /// Publishes the slots before `produced`, with release ordering.
    fn publish(&self, produced: u32);
    /// Returns the slots before `consumed` to the producer.
    fn release(&self, consumed: u32);
    /// Entry in `slot`, which is below the ring's size.
    fn read(&self, slot: u32) -> T;
    /// Writes `slot`, which is below the ring's size.
    fn write(&mut self, slot: u32, item: T);
}

/// Producer side: fill ring, transmit ring.
#[derive(Debug)]
pub(super) struct Producer<W> {
    words: W,
    size: u32,
    /// The next slot to fill, not yet published.
    next: u32,
    published: u32,
    /// The consumer's counter as last read.
    consumed: u32,
}

/// Consumer side: receive ring, completion ring.
#[derive(Debug)]
pub(super) struct Consumer<W> {
    words: W,
    size: u32,
    /// The next slot to read; those before it are not yet released.
    next: u32,
    released: u32,
    /// The producer's counter as last read.
    produced: u32,
}

impl<W> Producer<W> {
    /// Producer side of a ring of `size` slots, a power of two.
    pub(super) fn new<T>(words: W, size: u32) -> Self
    where
        W: Words<T>,
    {
        assert!(size.is_power_of_two(), "ring size {size} is not a power of two");
        let (next, consumed) = (words.produced(), words.consumed());
        Self { words, size, next, published: next, consumed }
    }

    /// Fills the next slot; false if there is none.
    #[inline]
    pub(super) fn push<T>(&mut self, item: T) -> bool
    where
        W: Words<T>,
    {
        if !self.has_room() {
            return false;
        }
        self.words.write(self.next & (self.size - 1), item);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// True if there is a slot to fill.
    #[inline]
    pub(super) fn has_room<T>(&mut self) -> bool
    where
        W: Words<T>,
    {
        if self.next.wrapping_sub(self.consumed) == self.size {
            self.consumed = self.words.consumed();
        }
        self.next.wrapping_sub(self.consumed) < self.size
    }

    /// Publishes the filled slots.
    #[inline]
    pub(super) fn publish<T>(&mut self)
    where
        W: Words<T>,
    {
        if self.published != self.next {
            self.words.publish(self.next);
            self.published = self.next;
        }
    }

    /// Slots filled and not yet published.
    #[inline]
    pub(super) fn unpublished(&self) -> u32 {
        self.next.wrapping_sub(self.published)
    }

    /// True if the consumer has not taken everything yet.
    #[inline]
    pub(super) fn is_pending<T>(&mut self) -> bool
    where
        W: Words<T>,
    {
        self.consumed = self.words.consumed();
        self.consumed != self.published
    }

    pub(super) fn words(&self) -> &W {
        &self.words
    }
}

impl<W> Consumer<W> {
    /// Consumer side of a ring of `size` slots, a power of two.
    pub(super) fn new<T>(words: W, size: u32) -> Self
    where
        W: Words<T>,
    {
        assert!(size.is_power_of_two(), "ring size {size} is not a power of two");
        let (next, produced) = (words.consumed(), words.produced());
        Self { words, size, next, released: next, produced }
    }

    /// The next entry. Slots are returned in batches: when the ring is empty, or half of it was read.
    #[inline]
    pub(super) fn pop<T>(&mut self) -> Option<T>
    where
        W: Words<T>,
    {
        if self.next == self.produced || self.next.wrapping_sub(self.released) > self.size / 2 {
            self.release();
            self.produced = self.words.produced();
            if self.next == self.produced {
                return None;
            }
        }
        let item = self.words.read(self.next & (self.size - 1));
        self.next = self.next.wrapping_add(1);
        Some(item)
    }

    fn release<T>(&mut self)
    where
        W: Words<T>,
    {
        if self.released != self.next {
            self.words.release(self.next);
            self.released = self.next;
        }
    }
}

#[cfg(test)]
mod tests;
