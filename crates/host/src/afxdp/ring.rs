//! One ring shared with the kernel, seen from one side.
//!
//! Both sides count without end and the ring's size is a power of two, so the
//! distance of the counters, taken modulo 2³², is what the ring holds. Each
//! side keeps its own counter here and looks at the other's only when it seems
//! to have come to the end: the other's cache line is touched once a batch.
//!
//! The order of memory accesses is the whole protocol: a producer writes its
//! slots and then releases its counter, a consumer acquires that counter and
//! then reads. [`Words`] keeps the rings apart from where their words lie, so
//! the same code runs on the kernel's memory, against a model, and under loom.
//! Source: Linux, Documentation/networking/af_xdp.rst "Rings".

/// Where a ring's words lie.
pub(super) trait Words<T> {
    /// The producer's counter, acquired.
    fn produced(&self) -> u32;
    /// The consumer's counter, acquired.
    fn consumed(&self) -> u32;
    /// Releases what was produced before `produced`.
    fn publish(&self, produced: u32);
    /// Gives the slots before `consumed` back.
    fn release(&self, consumed: u32);
    /// What is in `slot`, which is below the ring's size.
    fn read(&self, slot: u32) -> T;
    /// Fills `slot`, which is below the ring's size.
    fn write(&mut self, slot: u32, item: T);
}

/// The side that fills slots: fill ring, transmit ring.
#[derive(Debug)]
pub(super) struct Producer<W> {
    words: W,
    size: u32,
    /// The next slot to fill, not yet published.
    next: u32,
    published: u32,
    /// The consumer's counter as last seen.
    consumed: u32,
}

/// The side that empties slots: receive ring, completion ring.
#[derive(Debug)]
pub(super) struct Consumer<W> {
    words: W,
    size: u32,
    /// The next slot to read; those before it are not yet released.
    next: u32,
    released: u32,
    /// The producer's counter as last seen.
    produced: u32,
}

impl<W> Producer<W> {
    /// The producing side of a ring of `size` slots, a power of two.
    pub(super) fn new<T>(words: W, size: u32) -> Self
    where
        W: Words<T>,
    {
        assert!(size.is_power_of_two(), "a ring has a power of two of slots, not {size}");
        let (next, consumed) = (words.produced(), words.consumed());
        Self { words, size, next, published: next, consumed }
    }

    /// Fills the next slot; `false` when there is none.
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

    /// Whether there is a slot to fill.
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

    /// Lets the other side see what was filled.
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

    /// Slots filled and not published yet.
    #[inline]
    pub(super) fn unpublished(&self) -> u32 {
        self.next.wrapping_sub(self.published)
    }

    /// Whether the other side has not taken everything yet.
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
    /// The consuming side of a ring of `size` slots, a power of two.
    pub(super) fn new<T>(words: W, size: u32) -> Self
    where
        W: Words<T>,
    {
        assert!(size.is_power_of_two(), "a ring has a power of two of slots, not {size}");
        let (next, produced) = (words.consumed(), words.produced());
        Self { words, size, next, released: next, produced }
    }

    /// The next item. Slots are given back a batch at a time: when the ring
    /// has been emptied, or half of it.
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
