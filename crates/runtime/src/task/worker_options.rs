//! Who runs tasks: how threads behave, and what they are given of the kernel.

use std::sync::Arc;

use queueing::{CoreId, Span};
use sched::cores::worker_signals::SignalMemory;

/// The threads that run tasks.
#[derive(Clone)]
pub struct WorkerOptions {
    /// How long a thread without work looks for more before it sleeps.
    pub spin: Span,
    /// Called in each thread with the core it should run on: that of its shard.
    pub pin: Option<fn(CoreId)>,
    /// What becomes of turns that take long; `None` waits for them.
    pub quantum: Option<Quantum>,
    /// A thread without work takes turns of other shards' tasks, the most urgent
    /// first, and is woken for it once a task has waited so long; `None` leaves
    /// every task to its shard.
    pub steal_after: Option<Span>,
    /// Where the shards tell the core scheduler how long their tasks wait, and
    /// hear from it: shard `n` in lane `n`.
    pub board: Option<Arc<dyn SignalMemory>>,
    /// On which core a thread is, as the core scheduler calls it; asked once a turn where
    /// there is a board. `None` where nobody knows: long requests are not seen then.
    pub here: Option<fn() -> Option<CoreId>>,
}

/// When a turn is a long one. The shard then goes on in a spare thread on the
/// same core, and the thread that takes the long turn ends with it.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// A turn is long after so much, at least 1 µs, and is noticed within four times as much more.
    pub span: Span,
    /// The kernel's number of the calling thread.
    pub thread: fn() -> u32,
    /// Lets the thread of that number run where nobody else wants to.
    pub demote: fn(u32),
}

/// As where a core has been waited for too long ([`sched::cores`]).
const STEAL_AFTER: Span = Span::from_micros(10);

impl WorkerOptions {
    /// Threads that look for work for `spin`, run where the kernel likes, take
    /// turns of each other's tasks and let nobody wait for a long one.
    #[must_use]
    pub fn new(spin: Span) -> Self {
        Self {
            spin,
            pin: None,
            quantum: Some(Quantum::default()),
            steal_after: Some(STEAL_AFTER),
            board: None,
            here: None,
        }
    }
}

/// 100 µs, and long turns compete with others as equals: only the kernel's room
/// can do better.
impl Default for Quantum {
    fn default() -> Self {
        Self { span: Span::from_micros(100), thread: || 0, demote: |_| {} }
    }
}
