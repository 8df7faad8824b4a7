//! How a thread sleeps until another has something for it: a worker until its
//! shard has a request, a shard until another one hands it a frame.
//!
//! Two threads, two places: the ring that one fills, and the flag that the
//! sleeper sets. Each side writes its own place, then reads the other's,
//! with a sequentially consistent fence between the two. Of two such fences
//! one comes first, and who comes second sees what the other wrote: either
//! the sleeper sees what is there and stays awake, or the other sees the flag
//! and wakes it. That no interleaving loses a wake-up is what
//! `tests/doorbell.rs` checks, with this file's own code.

use super::sync::{AtomicBool, Ordering, Thread, fence, park};

/// The sleeper's flag.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    /// It sleeps or is about to.
    asleep: AtomicBool,
}

impl Doorbell {
    /// Sleeps until [`ring`](Self::ring), unless by now there is something;
    /// may return early. `nothing` must read what the other side writes
    /// before it rings.
    pub fn sleep(&self, nothing: impl FnOnce() -> bool) {
        self.sleep_by(nothing, park);
    }

    /// The same for a thread that sleeps by `sleep`, which a wake-up that came
    /// before it must end at once.
    pub fn sleep_by(&self, nothing: impl FnOnce() -> bool, sleep: impl FnOnce()) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if nothing() {
            sleep();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes `sleeper` if it sleeps, after something was written for it.
    pub fn ring(&self, sleeper: &Thread) {
        self.ring_by(|| sleeper.unpark());
    }

    /// The same for a thread that `wake` wakes. Any number of threads may ring.
    pub fn ring_by(&self, wake: impl FnOnce()) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            wake();
        }
    }
}
