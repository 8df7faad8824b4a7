//! Tests of the protocol: bytes arrive complete, once and in order by either path, and a sleeping
//! stack is woken.

//~ programs: the shared send buffer loses, repeats and reorders nothing, under all interleavings

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MINE: u32 = 7;
/// A writing process.
const PROCESS: u32 = 40;

/// A buffer of four bytes in plain memory, for one thread.
#[derive(Default)]
struct Plain {
    word: Cell<u64>,
    lock: Cell<u32>,
    bytes: RefCell<[u8; 4]>,
    noted: Cell<bool>,
    asleep: Cell<bool>,
}

impl Memory for Plain {
    const BYTES: usize = 4;

    fn word(&self) -> u64 {
        self.word.get()
    }
    fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
        let word = self.word.get();
        if word == from {
            self.word.set(to);
            Ok(())
        } else {
            Err(word)
        }
    }
    fn set(&self, bits: u64) -> u64 {
        self.word.set(self.word.get() | bits);
        self.word.get()
    }
    fn clear(&self, bits: u64) {
        self.word.set(self.word.get() & !bits);
    }
    fn lock(&self, holder: u32) -> bool {
        let is_free = self.lock.get() == 0;
        if is_free {
            self.lock.set(holder);
        }
        is_free
    }
    fn holder(&self) -> u32 {
        self.lock.get()
    }
    fn unlock(&self, holder: u32) -> bool {
        let is_its = self.lock.get() == holder;
        if is_its {
            self.lock.set(0);
        }
        is_its
    }
    fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&self, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes.borrow()[at..at + bytes.len()]);
    }
    fn note(&self) {
        self.noted.set(true);
    }
    fn sleeps(&self) -> bool {
        self.asleep.get()
    }
}

/// Writes `bytes` as pieces of one byte.
fn write(memory: &impl Memory, generation: u32, bytes: &[u8], is_alone: bool) -> bool {
    put(memory, generation, PROCESS, bytes.chunks(1), || is_alone)
}

fn taken(memory: &impl Memory, most: usize) -> Vec<u8> {
    let mut into = vec![0; most];
    let len = take(memory, &mut into).len;
    into.truncate(len);
    into
}

fn opened() -> Plain {
    let memory = Plain::default();
    assert!(begin(&memory, MINE, |_| panic!("the lock is free")));
    assert!(!write(&memory, MINE, b"a", true), "closed at first");
    open(&memory);
    memory
}

proptest! {
    #[test]
    fn an_outbox_is_a_queue_that_takes_all_of_a_message_or_nothing(
        acts in proptest::collection::vec((any::<bool>(), 0usize..6), 0..60),
    ) {
        let memory = opened();
        let (mut queue, mut next) = (VecDeque::new(), 0u8);
        for (writes, len) in acts {
            if writes {
                let bytes: Vec<u8> = (0..len).map(|n| next.wrapping_add(n as u8)).collect();
                if write(&memory, MINE, &bytes, true) {
                    queue.extend(bytes);
                    next = next.wrapping_add(len as u8);
                } else {
                    prop_assert!(len + queue.len() > 0 && len > 0, "an empty buffer has space");
                    prop_assert!(len > 4 || !queue.is_empty());
                }
            } else {
                let expected: Vec<u8> = queue.drain(..queue.len().min(len)).collect();
                prop_assert_eq!(taken(&memory, len), expected);
            }
        }
    }

    #[test]
    fn what_hostile_programs_write_into_it_is_nothing(word in any::<u64>(), generation in any::<u32>()) {
        let memory = Plain::default();
        memory.word.set(word);
        let into = taken(&memory, 8);
        prop_assert!(into.len() <= 4);
        prop_assert!(begin(&memory, generation, |_| false));
        prop_assert_eq!(taken(&memory, 8), b"");
        open(&memory);
        prop_assert!(write(&memory, generation, b"ab", true));
        prop_assert_eq!(taken(&memory, 8), b"ab");
    }
}

#[test]
fn in_doubt_a_message_takes_the_other_way() {
    let memory = opened();
    assert!(!write(&memory, MINE, b"a", false), "the pair is not empty");
    assert!(!write(&memory, MINE + 1, b"a", true), "another generation");
    assert!(memory.lock(PROCESS));
    assert!(!write(&memory, MINE, b"a", true), "the lock is taken");
    assert!(memory.unlock(PROCESS));
    memory.asleep.set(true);
    assert!(!write(&memory, MINE, b"a", true), "the stack sleeps");
    memory.asleep.set(false);
    assert!(write(&memory, MINE, b"ab", true) && memory.noted.get());
    close(&memory);
    assert!(!write(&memory, MINE, b"c", true), "closed");
    assert_eq!(taken(&memory, 8), b"ab", "earlier bytes can be read");
    assert!(begin(&memory, MINE + 1, |_| false));
    open(&memory);
    assert!(!write(&memory, MINE, b"c", true), "another generation by now");
    assert_eq!(taken(&memory, 8), b"");
    assert!(write(&memory, MINE + 1, b"d", true));
}

#[test]
fn a_lock_is_broken_for_the_next_connection_only_when_its_process_is_gone() {
    let memory = opened();
    assert!(memory.lock(PROCESS));
    assert!(!begin(&memory, MINE + 1, |holder| holder != PROCESS), "the process may still copy");
    assert_eq!(memory.holder(), PROCESS);
    assert!(begin(&memory, MINE + 2, |holder| holder == PROCESS));
    open(&memory);
    assert!(write(&memory, MINE + 2, b"a", true), "the lock is free");
    assert_eq!(memory.holder(), 0);
}

#[test]
fn memory_is_released_while_no_write_runs_and_the_buffer_is_empty() {
    let memory = opened();
    let gives_back = || {
        let mut given = false;
        give_back(&memory, || given = true);
        given
    };
    assert!(gives_back());
    assert!(write(&memory, MINE, b"a", true), "still open");
    assert!(!gives_back(), "not empty");
    assert_eq!(taken(&memory, 8), b"a");
    assert!(memory.lock(PROCESS));
    assert!(!gives_back(), "the lock is taken");
    assert!(memory.unlock(PROCESS));
    assert!(gives_back());
}

/// A buffer and its pair in loom's memory, which tries every order of accesses that the memory
/// model allows.
mod interleavings {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    use loom::sync::{Arc, Mutex, Notify};

    use super::*;

    struct Shared {
        word: AtomicU64,
        lock: AtomicU32,
        bytes: [UnsafeCell<u8>; 2],
        noted: AtomicBool,
        asleep: AtomicU64,
        /// The kernel's socket buffer, and its wake-up.
        pair: Mutex<VecDeque<u8>>,
        notify: Notify,
    }

    // SAFETY: the protocol gives each byte to one side at a time; loom checks it.
    unsafe impl Sync for Shared {}

    impl Memory for Shared {
        const BYTES: usize = 2;

        fn word(&self) -> u64 {
            self.word.load(Ordering::Acquire)
        }
        fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
            self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
        }
        fn set(&self, bits: u64) -> u64 {
            self.word.fetch_or(bits, Ordering::AcqRel) | bits
        }
        fn clear(&self, bits: u64) {
            self.word.fetch_and(!bits, Ordering::AcqRel);
        }
        fn lock(&self, holder: u32) -> bool {
            let locked = self.lock.compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed).is_ok();
            // loom supports sequential consistency only by fences.
            fence(Ordering::SeqCst);
            locked
        }
        fn holder(&self) -> u32 {
            fence(Ordering::SeqCst);
            self.lock.load(Ordering::Acquire)
        }
        fn unlock(&self, holder: u32) -> bool {
            self.lock.compare_exchange(holder, 0, Ordering::Release, Ordering::Relaxed).is_ok()
        }
        fn write(&self, at: usize, bytes: &[u8]) {
            for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
                // SAFETY: the writer owns the byte; loom checks it.
                cell.with_mut(|target| unsafe { *target = *byte });
            }
        }
        fn read(&self, at: usize, bytes: &mut [u8]) {
            for (cell, byte) in self.bytes[at..].iter().zip(bytes) {
                // SAFETY: the reader owns the byte; loom checks it.
                cell.with(|source| unsafe { *byte = *source });
            }
        }
        fn note(&self) {
            self.noted.fetch_or(true, Ordering::AcqRel);
        }
        fn sleeps(&self) -> bool {
            fence(Ordering::SeqCst);
            self.asleep.load(Ordering::Relaxed) & 1 != 0
        }
    }

    impl Shared {
        fn new() -> Arc<Self> {
            let shared = Self {
                word: AtomicU64::new(0),
                lock: AtomicU32::new(0),
                bytes: [UnsafeCell::new(0), UnsafeCell::new(0)],
                noted: AtomicBool::new(false),
                asleep: AtomicU64::new(0),
                pair: Mutex::default(),
                notify: Notify::new(),
            };
            assert!(begin(&shared, MINE, |_| false));
            open(&shared);
            Arc::new(shared)
        }

        /// Sends as the library does.
        fn send(&self, byte: u8) {
            let is_empty = || self.pair.lock().unwrap().is_empty();
            let asleep = self.asleep.load(Ordering::Acquire);
            if put(self, MINE, PROCESS, std::iter::once(&[byte][..]), is_empty) {
                return;
            }
            self.pair.lock().unwrap().push_back(byte);
            self.notify.notify();
            if asleep & 1 != 0 {
                let _ = self.asleep.compare_exchange(asleep, asleep + 1, Ordering::AcqRel, Ordering::Relaxed);
            }
        }

        /// Receives as the stack does, until it has `count` bytes. `anyway`: it reads the pair
        /// without an event; `relieves`: it releases the memory of an empty buffer.
        fn receive(&self, count: usize, anyway: bool, relieves: bool) -> Vec<u8> {
            let mut got = Vec::new();
            while got.len() < count {
                self.noted.swap(false, Ordering::AcqRel);
                if !anyway && self.pair.lock().unwrap().is_empty() {
                    got.extend(taken(self, 8));
                    if relieves {
                        give_back(self, || self.bytes.iter().for_each(zero));
                    }
                } else {
                    close(self);
                    got.extend(taken(self, 8));
                    got.extend(self.pair.lock().unwrap().drain(..));
                    open(self);
                }
                if got.len() < count {
                    self.asleep.fetch_or(1, Ordering::AcqRel);
                    fence(Ordering::SeqCst);
                    if !self.noted.load(Ordering::Relaxed) && self.pair.lock().unwrap().is_empty() {
                        self.notify.wait();
                    }
                    let awake = |asleep| Some((asleep | 1) + 1);
                    self.asleep.fetch_update(Ordering::AcqRel, Ordering::Relaxed, awake).unwrap();
                }
            }
            got
        }
    }

    /// Released memory is zero.
    fn zero(cell: &UnsafeCell<u8>) {
        // SAFETY: the stack owns the byte while it holds the lock; loom checks it.
        cell.with_mut(|target| unsafe { *target = 0 });
    }

    fn model(bound: usize, check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(bound);
        builder.check(check);
    }

    #[test]
    fn no_interleaving_loses_repeats_or_reorders_a_byte_or_leaves_the_stack_asleep() {
        for anyway in [false, true] {
            model(3, move || {
                let shared = Shared::new();
                let writer = shared.clone();
                let writes = loom::thread::spawn(move || (1..=3).for_each(|byte| writer.send(byte)));
                assert_eq!(shared.receive(3, anyway, false), [1, 2, 3]);
                writes.join().unwrap();
            });
        }
    }

    #[test]
    fn memory_that_goes_back_takes_no_byte_along() {
        model(3, || {
            let shared = Shared::new();
            let writer = shared.clone();
            let writes = loom::thread::spawn(move || (1..=2).for_each(|byte| writer.send(byte)));
            assert_eq!(shared.receive(2, false, true), [1, 2]);
            writes.join().unwrap();
        });
    }

    #[test]
    fn two_simultaneous_writes_both_arrive() {
        model(2, || {
            let shared = Shared::new();
            let (first, second) = (shared.clone(), shared.clone());
            let one = loom::thread::spawn(move || first.send(1));
            let two = loom::thread::spawn(move || second.send(2));
            let mut got = shared.receive(2, false, false);
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
            one.join().unwrap();
            two.join().unwrap();
        });
    }

    //~ programs: a withdrawn write is neither lost nor repeated, under all interleavings
    /// The stack falls asleep and wakes by itself, as it does after an earlier write; meanwhile a
    /// write is withdrawn, and another of the same length follows.
    #[test]
    fn a_write_that_is_taken_back_is_never_taken_for_another() {
        model(3, || {
            let shared = Shared::new();
            let write = |byte: u8| {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let pieces = std::iter::once(std::slice::from_ref(&byte));
                    (byte, put(&*shared, MINE, PROCESS, pieces, || true))
                })
            };
            let writers = [write(1), write(2)];
            shared.asleep.fetch_or(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            shared.asleep.fetch_add(1, Ordering::AcqRel);
            let mut got = taken(&*shared, 8);
            let put = writers.map(|writer| writer.join().unwrap());
            got.extend(taken(&*shared, 8));
            for (byte, is_put) in put {
                let times = got.iter().filter(|&&taken| taken == byte).count();
                assert_eq!(times, usize::from(is_put), "byte {byte} of {got:?}");
            }
        });
    }

    /// A process copies for a connection that ends, and the next one begins.
    #[test]
    fn a_connection_that_begins_has_no_byte_of_the_one_before() {
        model(3, || {
            let shared = Shared::new();
            let late = shared.clone();
            let writes = loom::thread::spawn(move || {
                let pieces = std::iter::once(&[1][..]);
                put(&*late, MINE, PROCESS, pieces, || true)
            });
            if begin(&*shared, MINE + 1, |_| false) {
                open(&*shared);
                // loom reports a data race if a process still copies here.
                let is_put = put(&*shared, MINE + 1, PROCESS + 1, std::iter::once(&[2][..]), || true);
                assert_eq!(taken(&*shared, 8), if is_put { vec![2] } else { vec![] });
            }
            writes.join().unwrap();
        });
    }
}
