//! Frame counters of a shard's device.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a shard's device; only its own thread writes.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub own: AtomicU64,
    pub passed: AtomicU64,
    pub dropped: AtomicU64,
    pub from_others: AtomicU64,
    pub forwarded: AtomicU64,
}

/// Frame counters of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames received by this shard's queue for itself.
    pub own: u64,
    /// Frames received by this shard's queue for other shards, broadcast copies included.
    pub passed: u64,
    /// Frames among these dropped because the link was full.
    pub dropped: u64,
    /// Frames received by other shards' queues for this shard.
    pub from_others: u64,
    /// Other shards' frames transmitted by its device.
    pub forwarded: u64,
}

impl fmt::Display for FrameCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, passed, dropped, from_others, forwarded } = self;
        write!(
            f,
            "frames: {own} own, {from_others} from other shards, {passed} passed to other shards ({dropped} dropped), {forwarded} forwarded"
        )
    }
}

/// Reader of a shard's counters, from any thread.
#[derive(Clone, Debug)]
pub struct FrameMeter(pub(super) Arc<Counters>);

impl FrameMeter {
    /// Current counts.
    #[must_use]
    pub fn read(&self) -> FrameCounts {
        let Counters { own, passed, dropped, from_others, forwarded } = &*self.0;
        let [own, passed, dropped, from_others, forwarded] =
            [own, passed, dropped, from_others, forwarded].map(|counter| counter.load(Ordering::Relaxed));
        FrameCounts { own, passed, dropped, from_others, forwarded }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
