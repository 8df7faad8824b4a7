//! Publisher of a task shard's signals for the core scheduler.

use std::sync::Arc;

use queueing::{CoreId, Time};
use sched::cores::worker_signals::{SignalMemory, WorkerSignals, WorkerSlot};

/// Slot of a shard in a signal page, and the last signals published there.
pub(crate) struct SignalPublisher {
    signal_page: Arc<dyn SignalMemory>,
    worker_slot: usize,
    current_core: Option<fn() -> Option<CoreId>>,
    last: WorkerSignals,
}

impl SignalPublisher {
    /// Publisher for slot `worker_slot` of `signal_page`; `current_core` gives the current core. `None` if there is no
    /// such slot.
    pub fn new(
        signal_page: Arc<dyn SignalMemory>,
        worker_slot: usize,
        current_core: Option<fn() -> Option<CoreId>>,
    ) -> Option<Self> {
        let exists = worker_slot < signal_page.page().slots().len();
        exists.then(|| Self { signal_page, worker_slot, current_core, last: WorkerSignals::default() })
    }

    /// The slot, if it still exists: other processes write that memory, too.
    pub fn worker_slot(&self) -> Option<&WorkerSlot> {
        self.signal_page.page().slots().get(self.worker_slot)
    }

    /// Signal memory and slot number.
    pub fn memory_and_slot(&self) -> (Arc<dyn SignalMemory>, usize) {
        (self.signal_page.clone(), self.worker_slot)
    }

    /// Publishes `signals` at `now`, if it has changed.
    pub fn publish(&mut self, now: Time, signals: WorkerSignals) {
        let core = signals.request.and(self.current_core).and_then(|current_core| current_core());
        let signals = WorkerSignals { at: self.last.at, core, ..signals };
        if signals == self.last {
            return;
        }
        self.last = WorkerSignals { at: now, ..signals };
        if let Some(worker_slot) = self.worker_slot() {
            worker_slot.publish(&self.last);
        }
    }
}
