//! How a worker sleeps until its shard has something for it.
//!
//! Two threads, two places: the ring that the shard fills, and the flag that
//! the worker sets. Each side writes its own place, then reads the other's,
//! with a sequentially consistent fence between the two. Of two such fences
//! one comes first, and who comes second sees what the other wrote: either
//! the worker sees the job and stays awake, or the shard sees the flag and
//! wakes it. That no interleaving loses a wake-up is what
//! `tests/doorbell.rs` checks, with this file's own code.

use super::sync::{AtomicBool, Ordering, Thread, fence, park};

/// The worker's flag.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    /// The worker sleeps or is about to.
    asleep: AtomicBool,
}

impl Doorbell {
    /// Sleeps until [`ring`](Self::ring), unless by now there is something;
    /// may return early. `nothing` must read what the other side writes
    /// before it rings.
    pub fn sleep(&self, nothing: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if nothing() {
            park();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes `sleeper` if it sleeps, after something was written for it.
    pub fn ring(&self, sleeper: &Thread) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            sleeper.unpark();
        }
    }
}
