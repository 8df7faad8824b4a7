//! What a shard's device counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a shard's device has counted; only its own thread writes.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub own: AtomicU64,
    pub handed: AtomicU64,
    pub dropped: AtomicU64,
    pub taken: AtomicU64,
    pub forwarded: AtomicU64,
}

/// Frames of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That its own queue received for it.
    pub own: u64,
    /// That its own queue received for others, copies for all among them.
    pub handed: u64,
    /// Of those, dropped because the other shard's wire was full.
    pub dropped: u64,
    /// That other shards' queues received for it.
    pub taken: u64,
    /// Of guests, sent by this shard's device.
    pub forwarded: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, handed, dropped, taken, forwarded } = self;
        write!(
            f,
            "frames: {own} own, {taken} from other shards, {handed} passed to other shards ({dropped} dropped), {forwarded} forwarded"
        )
    }
}

/// Reads what a shard's device counts, from any thread.
#[derive(Clone, Debug)]
pub struct Meter(pub(super) Arc<Counters>);

impl Meter {
    /// What was counted so far.
    #[must_use]
    pub fn read(&self) -> Counts {
        let Counters { own, handed, dropped, taken, forwarded } = &*self.0;
        let [own, handed, dropped, taken, forwarded] =
            [own, handed, dropped, taken, forwarded].map(|counter| counter.load(Ordering::Relaxed));
        Counts { own, handed, dropped, taken, forwarded }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
