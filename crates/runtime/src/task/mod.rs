//! Async services on the stack: tasks that wait, like everything here, by urgency.
//!
//! A [`TaskShard`] is the pure heart: driver, transport and run queue of one
//! core, stepped with `now`; [`run`] gives it a thread, which hands it to another
//! when a task computes for long and takes turns of other shards' tasks when it
//! has none ([`WorkerOptions`]). A task begins with the
//! label of whoever spawned it; data that it reads and connections that it
//! accepts bring theirs, it may set its own ([`set_label`]), and what it sends
//! is as urgent as it is. What it asks of files ([`File`]) waits for the disk by
//! its label, too. Sockets speak tokio's traits (feature `tokio`) and
//! hyper's (feature `hyper`), and any `Waker` works, so tokio's channels,
//! mutexes and notifications do. Not here: tokio's own timers and its `spawn`,
//! which need tokio's runtime; [`sleep`] and [`spawn`] are in their place.
//!
//! ```
//! use net::device::memory;
//! use net::stack::Config as Tcp;
//! use queueing::{Span, Time};
//! use runtime::task::{Config, Step, TaskShard, sleep, spawn};
//!
//! let tcp = Tcp::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [7; 16]);
//! let (mut device, _far) = memory::pair(64, 1514);
//! let mut shard = TaskShard::new(Config::shared(tcp));
//! let answer = shard.spawn(async {
//!     let part = spawn(async { 21 });
//!     sleep(Span::from_millis(5)).await;
//!     2 * part.await.unwrap()
//! });
//! let mut now = Time::ZERO;
//! while now < Time::ZERO + Span::from_millis(8) {
//!     while shard.step(now, &mut device) != Step::Idle {}
//!     now += Span::from_millis(1);
//! }
//! assert_eq!(answer.try_take(), Some(Ok(42)));
//! ```

mod config;
mod control_block;
mod current;
mod executor;
mod file;
mod flow;
mod handle;
#[cfg(feature = "hyper")]
mod hyper;
mod join;
mod long_poll_detector;
mod shard;
mod signal_publisher;
mod sockets;
pub(crate) mod state;
mod stats;
mod task_poll;
mod tcp;
mod threads;
mod time;
mod timers;
#[cfg(feature = "tokio")]
mod tokio;
mod udp;
mod waiter;
mod worker_options;

use std::future::Future;

use queueing::Label;

pub use config::{Config, TASKS_MAX};
pub use file::{Buffer, File};
pub use flow::Flow;
pub use handle::Handle;
#[cfg(feature = "hyper")]
pub use hyper::{TaskExecutor, TaskTimer, serve, serve_each};
pub use join::{JoinError, JoinHandle};
pub use shard::TaskShard;
pub use stats::{Counters, Next, Oldest, Step};
pub use task_poll::{PolledTask, TaskPoll};
pub use tcp::{TcpListener, TcpStream};
pub use threads::run;
pub use time::{Elapsed, Sleep, sleep, sleep_until, timeout, yield_now};
pub use udp::{Received, UdpSocket};
pub use worker_options::{Quantum, WorkerOptions};

/// What carries out what tasks ask of files, and how those are opened.
pub use storage::{Disk, Options as FileOptions};

use super::sync;

/// Runs `future` as a task of its own on the shard of the task that asks; see
/// [`Handle::spawn`].
///
/// # Panics
/// When this is not called from a task.
pub fn spawn<T, F>(future: F) -> JoinHandle<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    Handle::current().spawn(future)
}

/// The label that the task that asks runs with, with what is left of its
/// budget; the least urgent where no task runs.
#[must_use]
pub fn label() -> Label {
    let known = current::with(|running| control_block::unpack(running.task.home.now(), running.task.label()));
    known.unwrap_or_default()
}

/// From now on the task that asks runs, sends and spawns with `label`, until
/// it reads what has a label of its own. Nothing where no task runs.
pub fn set_label(label: Label) {
    current::with(|running| running.task.set_label(control_block::pack(running.task.home.now(), label)));
}

#[cfg(test)]
mod tests;
