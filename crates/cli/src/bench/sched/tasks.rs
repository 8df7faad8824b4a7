//! A program on greenwave's runtime that always has work: two workers, each with tasks that compute
//! in short polls. It publishes a signal page for the core allocator.

use std::sync::Arc;

use host::signal_page::SharedPage;
use host::{Monotonic, affinity};
use net::device::memory;
use queueing::{Clock, Span};
use runtime::task::{self, Config, Quantum, TaskShard, WorkerOptions, yield_now};

use crate::Error;

const WORKERS: usize = 2;
const TASKS: usize = 2;
/// CPU time of one task poll.
const TURN: Span = Span::from_micros(20);

/// Computes until SIGINT or SIGTERM.
///
/// # Errors
/// The kernel provides no shared memory.
pub fn run() -> Result<(), Error> {
    let board = SharedPage::create(WORKERS).map_err(|e| Error::new(format!("a page to share: {e}")))?;
    let quantum =
        Quantum { thread: host::thread::number, demote: host::thread::demote, ..Quantum::default() };
    let options = WorkerOptions {
        signal_page: Some(Arc::new(board)),
        current_core: Some(affinity::current_core),
        quantum: Some(quantum),
        ..WorkerOptions::new(Span::ZERO)
    };
    let worker = |n: usize| {
        let tcp =
            net::stack::Config::new([2, 0, 0, 0, 0, n as u8], [10, 0, 0, n as u8].into(), 24, [n as u8; 16]);
        let (device, far) = memory::pair(8, 1514);
        let shard = TaskShard::new(Config::shared(tcp));
        for _ in 0..TASKS {
            drop(shard.spawn(computes()));
        }
        ((shard, device), far)
    };
    let (shards, _far): (Vec<_>, Vec<_>) = (1..=WORKERS).map(worker).unzip();
    task::run(shards, Arc::new(Monotonic::new()), host::signals::flag(), &options);
    Ok(())
}

async fn computes() {
    loop {
        Monotonic::new().compute(TURN);
        yield_now().await;
    }
}
