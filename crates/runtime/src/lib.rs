//! Servers on the stack: shards, workers, the event framework.
//!
//! A [`Shard`] is the pure heart: driver, transport, event queue and
//! dispatcher of one core, stepped with `now`, the same on threads and in the
//! simulator. The shell (`threads`) gives it a device, a clock and workers.

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
pub use mode::{Mode, Policy};
pub use shard::Shard;
pub use threads::serve;
pub use worker::Worker;

/// What [`doorbell`] is made of; its test puts loom's in their place.
mod sync {
    pub use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
    pub use std::thread::{Thread, park};
}
