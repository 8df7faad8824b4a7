//! Async services on the stack: tasks scheduled by priority.
//!
//! A [`TaskShard`] is the pure core: driver, transport and run queue of one CPU core, stepped with
//! `now`. [`run`] gives it a thread, hands it to another one while a task computes for long, and
//! lets an idle thread poll tasks of other shards ([`WorkerOptions`]). A task starts with the label
//! of the task that spawned it. Data that it reads and connections that it accepts set its label,
//! as does [`set_label`]; its output has its label. Requests on files ([`File`]) wait for the disk
//! by label, too. Sockets implement tokio's traits (feature `tokio`) and hyper's (feature `hyper`).
//! Any `Waker` works, and with it tokio's channels, mutexes and notifications. Not supported:
//! tokio's own timers and its `spawn`, which need tokio's runtime; [`sleep`] and [`spawn`] replace
//! them.
//!
//! ```
//! use net::device::memory;
//! use net::stack::Config as Tcp;
//! use queueing::{Span, Time};
//! use runtime::task::{Config, TaskShard, TaskStep, sleep, spawn};
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
//!     while shard.step(now, &mut device) != TaskStep::Idle {}
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
pub use file::{File, FileBuffer};
pub use flow::FlowHandle;
pub use handle::Handle;
#[cfg(feature = "hyper")]
pub use hyper::{TaskExecutor, TaskTimer, serve, serve_each};
pub use join::{JoinError, JoinHandle};
pub use shard::TaskShard;
pub use stats::{Counters, Next, Oldest, TaskStep};
pub use task_poll::{PolledTask, TaskPoll};
pub use tcp::{TcpListener, TcpStream};
pub use threads::run;
pub use time::{Elapsed, Sleep, sleep, sleep_until, timeout, yield_now};
pub use udp::{DatagramInfo, UdpSocket};
pub use worker_options::{Quantum, WorkerOptions};

/// Disk for the tasks' files, and options for opening them.
pub use storage::{Disk, FileOptions};

use super::sync;

/// Spawns `future` as a task on the current task's shard; see [`Handle::spawn`].
///
/// # Panics
/// If called outside a task.
pub fn spawn<T, F>(future: F) -> JoinHandle<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    Handle::current().spawn(future)
}

/// Label of the current task, with its remaining budget; the least urgent outside a task.
#[must_use]
pub fn label() -> Label {
    let known = current::with(|running| control_block::unpack(running.task.home.now(), running.task.label()));
    known.unwrap_or_default()
}

/// Sets the label with which the current task runs, sends and spawns, until it reads labelled data.
/// No effect outside a task.
pub fn set_label(label: Label) {
    current::with(|running| running.task.set_label(control_block::pack(running.task.home.now(), label)));
}

#[cfg(test)]
mod tests;
