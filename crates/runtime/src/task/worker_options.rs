//! Options of the threads that run tasks.

use std::sync::Arc;

use queueing::{CoreId, Span};
use sched::cores::worker_signals::SignalMemory;

/// Options of the threads that run tasks.
#[derive(Clone)]
pub struct WorkerOptions {
    /// Longest busy-polling of an idle thread before it sleeps.
    pub spin: Span,
    /// Called in each thread with the core of its shard.
    pub pin: Option<fn(CoreId)>,
    /// Handling of long polls; `None` waits for them.
    pub quantum: Option<Quantum>,
    /// Work stealing: an idle thread runs polls of other shards' tasks, the most urgent first, and
    /// is woken for that once a task has waited this long. `None` leaves every task to its shard.
    pub steal_after: Option<Span>,
    /// Signal page shared with the core scheduler; shard `n` uses slot `n`.
    pub signal_page: Option<Arc<dyn SignalMemory>>,
    /// Current core of the calling thread, as the core scheduler numbers it; called once per poll
    /// if there is a `signal_page`. With `None` long requests are not detected.
    pub current_core: Option<fn() -> Option<CoreId>>,
}

/// Definition and handling of a long poll: a poll of a task's future that takes at least `span`.
/// A spare thread takes over the shard on the same core, and the thread with the long poll exits
/// afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Shortest long poll, at least 1 µs; a long poll is detected at most four times as much later.
    pub span: Span,
    /// Kernel thread id of the calling thread.
    pub thread: fn() -> u32,
    /// Lowers the priority of the thread with this id to idle.
    pub demote: fn(u32),
}

/// Wait after which tasks are stolen, the same as the core scheduler's limit for a core's wait
/// ([`sched::cores`]).
const STEAL_AFTER: Span = Span::from_micros(10);

impl WorkerOptions {
    /// Threads that spin for `spin`, without pinning, with work stealing and handover after long
    /// polls.
    #[must_use]
    pub fn new(spin: Span) -> Self {
        Self {
            spin,
            pin: None,
            quantum: Some(Quantum::default()),
            steal_after: Some(STEAL_AFTER),
            signal_page: None,
            current_core: None,
        }
    }
}

/// 100 µs, and long polls keep their scheduling class: only the kernel side can demote them.
impl Default for Quantum {
    fn default() -> Self {
        Self { span: Span::from_micros(100), thread: || 0, demote: |_| {} }
    }
}
