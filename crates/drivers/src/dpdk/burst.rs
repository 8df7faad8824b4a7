//! Burst of frames: filled at its end, consumed from its front.

/// Maximum of frames per call to the driver.
pub(super) const BURST: usize = 32;

/// Up to [`BURST`] items in order.
pub(super) struct Burst<T> {
    items: [T; BURST],
    next: usize,
    end: usize,
}

impl<T: Copy> Burst<T> {
    /// An empty burst; `blank` is never handed out.
    pub(super) fn new(blank: T) -> Self {
        Self { items: [blank; BURST], next: 0, end: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next == self.end
    }

    pub(super) fn is_full(&self) -> bool {
        self.end - self.next == BURST
    }

    /// Remaining items, in order.
    pub(super) fn rest(&self) -> &[T] {
        &self.items[self.next..self.end]
    }

    /// Removes the first item.
    pub(super) fn next(&mut self) -> Option<T> {
        let item = *self.rest().first()?;
        self.next += 1;
        Some(item)
    }

    /// Removes the first `count` items, which must exist.
    pub(super) fn skip(&mut self, count: usize) {
        assert!(
            count <= self.end - self.next,
            "{count} frames cannot be removed from a burst of {}",
            self.end - self.next
        );
        self.next += count;
    }

    /// Refills an empty burst: `source` writes items into the given space and returns their number.
    /// True if there were any.
    pub(super) fn fill(&mut self, source: impl FnOnce(*mut T, u16) -> u16) -> bool {
        assert!(self.is_empty(), "a burst is empty before it is refilled");
        let got = usize::from(source(self.items.as_mut_ptr(), BURST as u16));
        assert!(got <= BURST, "a source returns at most the requested number");
        (self.next, self.end) = (0, got);
        got > 0
    }

    /// Appends an item to a burst that is not full.
    pub(super) fn push(&mut self, item: T) {
        if self.end == BURST {
            self.items.copy_within(self.next.., 0);
            (self.next, self.end) = (0, self.end - self.next);
        }
        self.items[self.end] = item;
        self.end += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_filled_by_a_source_that_may_have_less() {
        let mut burst = Burst::new(0);
        assert!(!burst.fill(|_, max| max - BURST as u16));
        let give_two = |items: *mut i32, _| {
            // SAFETY: there is space for `BURST` items.
            unsafe { items.write(7) };
            // SAFETY: as above.
            unsafe { items.add(1).write(8) };
            2
        };
        assert!(burst.fill(give_two));
        assert_eq!(burst.rest(), [7, 8]);
        assert_eq!([burst.next(), burst.next(), burst.next()], [Some(7), Some(8), None]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_burst_is_a_queue(steps in proptest::collection::vec((0..3_u8, 0..BURST), 0..200)) {
            let (mut burst, mut model, mut serial) = (Burst::new(0), VecDeque::new(), 0);
            for (step, count) in steps {
                match step {
                    0 => prop_assert_eq!(burst.next(), model.pop_front()),
                    1 => {
                        let count = count.min(model.len());
                        burst.skip(count);
                        model.drain(..count);
                    }
                    _ => {
                        for _ in 0..count.min(BURST - model.len()) {
                            serial += 1;
                            burst.push(serial);
                            model.push_back(serial);
                        }
                    }
                }
                prop_assert!(burst.rest().iter().eq(&model));
                prop_assert_eq!((burst.is_empty(), burst.is_full()), (model.is_empty(), model.len() == BURST));
            }
        }
    }
}
