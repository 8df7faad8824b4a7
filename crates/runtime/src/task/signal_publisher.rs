//! Publisher of a task shard's signals for the core scheduler.

use std::sync::Arc;

use queueing::{CoreId, Time};
use sched::cores::worker_signals::{SignalMemory, WorkerSignals, WorkerSlot};

/// Slot of a shard in a signal page, and the last signals published there.
pub(crate) struct SignalPublisher {
    board: Arc<dyn SignalMemory>,
    lane: usize,
    here: Option<fn() -> Option<CoreId>>,
    last: WorkerSignals,
}

impl SignalPublisher {
    /// Publisher for slot `lane` of `board`; `here` gives the current core. `None` if there is no
    /// such slot.
    pub fn new(
        board: Arc<dyn SignalMemory>,
        lane: usize,
        here: Option<fn() -> Option<CoreId>>,
    ) -> Option<Self> {
        let there = lane < board.page().slots().len();
        there.then(|| Self { board, lane, here, last: WorkerSignals::default() })
    }

    /// The slot, if it still exists: other processes write that memory, too.
    pub fn lane(&self) -> Option<&WorkerSlot> {
        self.board.page().slots().get(self.lane)
    }

    /// Signal memory and slot number.
    pub fn place(&self) -> (Arc<dyn SignalMemory>, usize) {
        (self.board.clone(), self.lane)
    }

    /// Publishes `pulse` at `now`, if it has changed.
    pub fn tell(&mut self, now: Time, pulse: WorkerSignals) {
        let core = pulse.request.and(self.here).and_then(|here| here());
        let pulse = WorkerSignals { at: self.last.at, core, ..pulse };
        if pulse == self.last {
            return;
        }
        self.last = WorkerSignals { at: now, ..pulse };
        if let Some(lane) = self.lane() {
            lane.publish(&self.last);
        }
    }
}
