//! Snapshot of a running shard.
//!
//! Histograms are swapped, not copied: the observer supplies empty ones and gets those of the time
//! since its last query. A snapshot thus costs the shard some hundred bytes, however large the
//! counts. Counters are cumulative.

use net::Device;

use super::{Shard, Stats};
use crate::app::App;

/// Snapshot of a shard.
#[derive(Clone, Debug, Default)]
pub struct ShardSnapshot {
    /// Counters since the start; waits, budgets and slow requests since the last query.
    pub stats: Stats,
    /// Current queue lengths.
    pub depths: Depths,
    /// Counters of TCP/IP since the start.
    pub stack: net::stack::Counters,
}

/// Queue lengths and occupancy of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Frames in the receive buffer.
    pub frames: usize,
    /// Requests in the event queue and waiting to enter it.
    pub requests: usize,
    /// Workers that serve a request.
    pub busy: usize,
    /// Open connections.
    pub connections: usize,
}

impl ShardSnapshot {
    /// Empties the snapshot for the next query.
    pub fn clear(&mut self) {
        self.stats.clear();
        (self.depths, self.stack) = (Depths::default(), net::stack::Counters::default());
    }
}

impl<D: Device, A: App> Shard<D, A> {
    /// Fills `into` and takes over its empty histograms. From the first call on the shard also
    /// records budgets.
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
