//! Equivalence of a ring with a queue from any initial counter, and agreement of its two sides under
//! every interleaving.

//~ devices: AF_XDP rings keep their order and count under all interleavings

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// A ring in plain memory, for one thread.
#[derive(Clone)]
struct Plain(Rc<PlainWords>);

struct PlainWords {
    produced: Cell<u32>,
    consumed: Cell<u32>,
    slots: Vec<Cell<u64>>,
}

impl Words<u64> for Plain {
    fn produced(&self) -> u32 {
        self.0.produced.get()
    }
    fn consumed(&self) -> u32 {
        self.0.consumed.get()
    }
    fn publish(&self, produced: u32) {
        self.0.produced.set(produced);
    }
    fn release(&self, consumed: u32) {
        self.0.consumed.set(consumed);
    }
    fn read(&self, slot: u32) -> u64 {
        self.0.slots[slot as usize].get()
    }
    fn write(&mut self, slot: u32, item: u64) {
        self.0.slots[slot as usize].set(item);
    }
}

fn plain(size: u32, start: u32) -> (Producer<Plain>, Consumer<Plain>) {
    let slots = (0..size).map(|_| Cell::new(u64::MAX)).collect();
    let words = Plain(Rc::new(PlainWords { produced: Cell::new(start), consumed: Cell::new(start), slots }));
    (Producer::new(words.clone(), size), Consumer::new(words, size))
}

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue_of_what_was_published(
        power in 0u32..4,
        start in prop_oneof![Just(0u32), Just(u32::MAX - 3), any::<u32>()],
        acts in proptest::collection::vec(0u8..5, 0..200),
    ) {
        let size = 1 << power;
        let (mut producer, mut consumer) = plain(size, start);
        let (mut filled, mut published, mut item) = (VecDeque::new(), VecDeque::new(), 0u64);
        for act in acts {
            match act {
                0 | 1 => {
                    let unreleased = consumer.next.wrapping_sub(consumer.released) as usize;
                    let room = filled.len() + published.len() + unreleased < size as usize;
                    prop_assert_eq!(producer.push(item), room);
                    if room {
                        filled.push_back(item);
                    }
                    item += 1;
                }
                2 => {
                    producer.publish();
                    published.append(&mut filled);
                    prop_assert_eq!(producer.unpublished(), 0);
                }
                _ => prop_assert_eq!(consumer.pop(), published.pop_front()),
            }
        }
    }
}

#[test]
fn a_consumer_that_never_runs_dry_gives_slots_back() {
    let (mut producer, mut consumer) = plain(8, 0);
    for item in 0..8 {
        assert!(producer.push(item));
    }
    producer.publish();
    for _ in 0..6 {
        consumer.pop();
    }
    assert!(producer.push(8), "half of the ring was read, so its slots are free");
    assert!(producer.is_pending());
}

/// Circulation of chunks: into the fill ring, to the kernel, out as frames, back.
struct Round {
    fill: Producer<Plain>,
    words: Plain,
    size: u32,
    /// The kernel's own counter; the shared word is updated later.
    taken: u32,
    /// Taken, and not yet published as frames.
    filled: Vec<u64>,
    /// Published, and not yet returned.
    shown: Vec<u64>,
}

impl Round {
    fn new(chunks: u32, size: u32, start: u32) -> Self {
        let (mut fill, consumer) = plain(size, start);
        assert!((0..u64::from(chunks)).all(|chunk| fill.push(chunk)), "the ring is empty at first");
        fill.publish();
        Self { fill, words: consumer.words, size, taken: start, filled: Vec::new(), shown: Vec::new() }
    }

    /// The kernel takes a chunk, if there is one.
    fn take(&mut self) {
        if self.taken != self.words.produced() {
            self.filled.push(self.words.read(self.taken & (self.size - 1)));
            self.taken = self.taken.wrapping_add(1);
        }
    }

    /// First half of `xsk_flush`: frames are published.
    fn show(&mut self) {
        self.shown.append(&mut self.filled);
    }

    /// Second half: the slots of their chunks are released.
    fn release(&mut self) {
        self.words.release(self.taken);
    }

    /// Returns the last frame's chunk; true if the ring had a slot.
    fn give_back(&mut self) -> bool {
        self.shown.pop().is_none_or(|chunk| self.fill.push(chunk))
    }
}

//~ devices: a frame may be returned before the kernel reports its chunk, and finds room in the fill ring
#[test]
fn a_chunk_comes_back_before_the_kernel_says_that_it_took_it() {
    let room = |size: u32| {
        let mut round = Round::new(8, size, 0);
        round.take();
        round.show();
        round.give_back()
    };
    assert!(!room(8), "one slot for each chunk is too few");
    assert!(room(crate::afxdp::fill_slots(8)));
}

proptest! {
    //~ devices: a frame may be returned before the kernel reports its chunk, and finds room in the fill ring
    #[test]
    fn the_fill_ring_has_room_for_whatever_comes_back(
        chunks in 1u32..20,
        start in prop_oneof![Just(0u32), Just(u32::MAX - 3), any::<u32>()],
        batches in proptest::collection::vec((1usize..20, 0usize..40, 0usize..40), 0..60),
    ) {
        let mut round = Round::new(chunks, crate::afxdp::fill_slots(chunks), start);
        for (frames, between, after) in batches {
            (0..frames).for_each(|_| round.take());
            round.show();
            // The kernel is delayed here; it sees the returned chunks, and may take them with the next
            // frames.
            for _ in 0..between {
                prop_assert!(round.give_back());
            }
            round.fill.publish();
            round.release();
            for _ in 0..after {
                prop_assert!(round.give_back());
            }
            round.fill.publish();
        }
    }
}

/// A ring in loom's memory: every order of accesses that the memory model permits is tried, and
/// concurrent access to a slot is an error.
mod interleavings {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Clone)]
    struct Shared(Arc<(AtomicU32, AtomicU32, Vec<UnsafeCell<u64>>)>);

    // SAFETY: the ring protocol gives each slot to one side at a time; loom checks this.
    unsafe impl Send for Shared {}

    impl Words<u64> for Shared {
        fn produced(&self) -> u32 {
            self.0.0.load(Ordering::Acquire)
        }
        fn consumed(&self) -> u32 {
            self.0.1.load(Ordering::Acquire)
        }
        fn publish(&self, produced: u32) {
            self.0.0.store(produced, Ordering::Release);
        }
        fn release(&self, consumed: u32) {
            self.0.1.store(consumed, Ordering::Release);
        }
        fn read(&self, slot: u32) -> u64 {
            // SAFETY: the slot is the consumer's; loom checks it.
            self.0.2[slot as usize].with(|item| unsafe { *item })
        }
        fn write(&mut self, slot: u32, item: u64) {
            // SAFETY: the slot is the producer's; loom checks it.
            self.0.2[slot as usize].with_mut(|cell| unsafe { *cell = item });
        }
    }

    #[test]
    fn no_interleaving_loses_repeats_or_tears_an_item() {
        const ITEMS: u64 = 3;
        loom::model(|| {
            let slots = (0..2).map(|_| UnsafeCell::new(u64::MAX)).collect();
            let start = u32::MAX;
            let words = Shared(Arc::new((AtomicU32::new(start), AtomicU32::new(start), slots)));
            let mut producer = Producer::new(words.clone(), 2);
            let mut consumer = Consumer::new(words, 2);
            let sender = loom::thread::spawn(move || {
                for item in 0..ITEMS {
                    while !producer.push(item) {
                        loom::thread::yield_now();
                    }
                    producer.publish();
                }
            });
            let mut next = 0;
            while next < ITEMS {
                match consumer.pop() {
                    Some(item) => {
                        assert_eq!(item, next);
                        next += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            sender.join().unwrap();
        });
    }
}
