//! Slot of one worker: a sequence-counted cell and a park request, both wait-free.
//!
//! The cell has two buffers and a count whose lowest bit selects the current one. The
//! writer fills the other buffer and then increments the count, so the last value stays
//! readable if the writer loses its core or dies in the middle. A reader compares the
//! count before and after: the writer increments it before it reuses a buffer, so an
//! unchanged count means that the read was not torn.
//!
//! The park request is one word: odd asks the worker to leave its core, even to resume.
//! The worker copies the word to `done` as acknowledgement and sleeps on the request by
//! futex, which compares before it sleeps. Requests are thus idempotent and not lost.
//! `tests/worker_signals.rs` checks both with this file's code.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Cell of `N` words that are read and written together.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SeqCell<const N: usize> {
    buffers: [[AtomicU64; N]; 2],
    /// Number of writes; the lowest bit selects the current buffer.
    count: AtomicU64,
}

/// Maximum number of attempts of a reader; each failed one means that the worker wrote meanwhile.
const ATTEMPTS: usize = 8;

impl<const N: usize> SeqCell<N> {
    /// Cell of zeros.
    #[must_use]
    pub fn new() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { buffers: [zeros(), zeros()], count: AtomicU64::new(0) }
    }

    /// Writes `words`. One thread at a time, each after the last.
    pub fn write(&self, words: &[u64; N]) {
        let next = self.count.load(Ordering::Relaxed).wrapping_add(1);
        // A reader that sees one of these words sees the increment that released this buffer.
        fence(Ordering::Release);
        for (buffer, word) in self.buffers[(next & 1) as usize].iter().zip(words) {
            buffer.store(*word, Ordering::Relaxed);
        }
        self.count.store(next, Ordering::Release);
    }

    /// Last value; `None` if it changed in every attempt.
    #[must_use]
    pub fn read(&self) -> Option<[u64; N]> {
        for _ in 0..ATTEMPTS {
            let count = self.count.load(Ordering::Acquire);
            let buffer = &self.buffers[(count & 1) as usize];
            let words = std::array::from_fn(|n| buffer[n].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if self.count.load(Ordering::Relaxed) == count {
                return Some(words);
            }
        }
        None
    }
}

impl<const N: usize> Default for SeqCell<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Park request of the scheduler, and the worker's acknowledgement.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ParkRequest {
    request: AtomicU32,
    done: AtomicU32,
}

impl ParkRequest {
    /// Request to run.
    #[must_use]
    pub fn new() -> Self {
        Self { request: AtomicU32::new(0), done: AtomicU32::new(0) }
    }

    /// Requests that the worker leaves its core (`park`) or resumes; `true` if that is a
    /// change, after which a worker that sleeps on [`ParkRequest::word`] must be woken. One
    /// process requests.
    pub fn request(&self, park: bool) -> bool {
        let request = self.request.load(Ordering::Relaxed);
        let changed = (request & 1 == 1) != park;
        if changed {
            self.request.store(request.wrapping_add(1), Ordering::Release);
        }
        changed
    }

    /// True if the worker has acknowledged the last request.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.request.load(Ordering::Relaxed)
    }

    /// Acknowledges the request, on the worker's side. `Some` if the worker must sleep on
    /// [`ParkRequest::word`] while that has this value.
    #[must_use]
    pub fn acknowledge(&self) -> Option<u32> {
        let request = self.request.load(Ordering::Acquire);
        if self.done.load(Ordering::Relaxed) != request {
            self.done.store(request, Ordering::Release);
        }
        (request & 1 == 1).then_some(request)
    }

    /// Word that a parked worker sleeps on.
    #[must_use]
    pub fn word(&self) -> &AtomicU32 {
        &self.request
    }
}

impl Default for ParkRequest {
    fn default() -> Self {
        Self::new()
    }
}
