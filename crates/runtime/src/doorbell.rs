//! Sleep and wake-up between two threads: a worker until its shard has a request, a shard until
//! another one passes it a frame.
//!
//! There are two shared places: the ring that one side fills and the flag that the sleeper sets.
//! Each side writes its own place, then reads the other's, with a sequentially consistent fence in
//! between. One of the two fences comes first, so the side whose fence comes second sees the
//! other's write. Either the sleeper sees the entry and stays awake, or the other side sees the
//! flag and wakes it. `tests/doorbell.rs` checks with this file's code that no interleaving loses a
//! wake-up.

use super::sync::{AtomicBool, Ordering, Thread, fence, park};

/// Flag of a sleeping thread.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    /// True while the thread sleeps or is about to.
    asleep: AtomicBool,
}

impl Doorbell {
    /// Sleeps until [`ring`](Self::ring) if `is_empty` is true; may return early. `is_empty` must
    /// read the state that the other side writes before it rings.
    pub fn sleep(&self, is_empty: impl FnOnce() -> bool) {
        self.sleep_by(is_empty, park);
    }

    /// As [`sleep`](Self::sleep), by the function `sleep`. A wake-up that comes before `sleep` is
    /// called must end it at once.
    pub fn sleep_by(&self, is_empty: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_empty() {
            sleep();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes `sleeper` if it sleeps; call it after the write that the sleeper waits for.
    pub fn ring(&self, sleeper: &Thread) {
        self.ring_by(|| sleeper.unpark());
    }

    /// As [`ring`](Self::ring), by the function `wake`. Any number of threads may ring.
    pub fn ring_by(&self, wake: impl FnOnce()) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            wake();
        }
    }
}
