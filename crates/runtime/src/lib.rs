//! Servers on the stack: shards, workers, the event framework.
//!
//! A [`Shard`] is the pure core: driver, transport, event queue and dispatcher of one CPU core,
//! stepped with `now`. It does no I/O of its own and reads no clock, so the same code runs on
//! threads and in the simulator. The shell ([`threads`]) supplies device, clock and workers.

#![forbid(unsafe_code)]

pub mod app;
mod doorbell;
mod idle;
pub mod mode;
mod pipeline;
pub mod shard;
pub mod snapshot_exchange;
pub mod socket_proxy;
pub mod steer;
pub mod task;
pub mod threads;
mod worker;

pub use app::App;
pub use mode::{Mode, ModeSettings};
pub use shard::Shard;
pub use threads::serve;
pub use worker::Worker;

/// Synchronization primitives of [`doorbell`]; its test substitutes loom's.
mod sync {
    pub use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
    pub use std::thread::{Thread, park};
}
