//! What a shard shows of itself while it serves.
//!
//! Histograms are handed over, not copied: whoever asks brings empty ones and
//! gets those of the time since it was asked last, so showing costs the shard
//! some hundred bytes, however much has been counted. Counters go on.

use net::Device;

use super::{Shard, Stats};
use crate::app::App;

/// What a shard shows.
#[derive(Clone, Debug, Default)]
pub struct ShardSnapshot {
    /// Counters since it began; waits, budgets and slow requests since it was
    /// asked last.
    pub stats: Stats,
    /// What waits now.
    pub depths: Depths,
    /// Counters of TCP/IP since the start.
    pub stack: net::stack::Counters,
}

/// What waits in a shard, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Frames in the receive buffer.
    pub frames: usize,
    /// Requests in the event queue and before it.
    pub requests: usize,
    /// Workers that serve one.
    pub busy: usize,
    /// Connections that are open.
    pub connections: usize,
}

impl ShardSnapshot {
    /// Empty again, to be brought once more.
    pub fn clear(&mut self) {
        self.stats.clear();
        (self.depths, self.stack) = (Depths::default(), net::stack::Counters::default());
    }
}

impl<D: Device, A: App> Shard<D, A> {
    /// Shows what was counted; `into` brings empty histograms, which the shard
    /// goes on with. From the first time on it also looks at budgets.
    pub fn show(&mut self, into: &mut ShardSnapshot) {
        self.watched = true;
        std::mem::swap(&mut self.stats, &mut into.stats);
        self.stats.slow.set_limits(into.stats.slow.limits());
        self.stats.counters = into.stats.counters;
        into.stats.buffers = self.buffers();
        into.stack = *self.stack.counters();
        into.depths = Depths {
            frames: self.rx_waiting(),
            requests: self.waiting(),
            busy: self.workers() - self.idle().len(),
            connections: self.conns.live(),
        };
    }
}
