//! What a shard of tasks tells the core scheduler.

use std::sync::Arc;

use queueing::{CoreId, Time};
use sched::cores::worker_signals::{SignalMemory, WorkerSignals, WorkerSlot};

/// A shard's lane on a board, and what it told there last.
pub(crate) struct SignalPublisher {
    board: Arc<dyn SignalMemory>,
    lane: usize,
    here: Option<fn() -> Option<CoreId>>,
    last: WorkerSignals,
}

impl SignalPublisher {
    /// For lane `lane` of `board`, which `here` tells where it runs; `None` when there is no such.
    pub fn new(
        board: Arc<dyn SignalMemory>,
        lane: usize,
        here: Option<fn() -> Option<CoreId>>,
    ) -> Option<Self> {
        let there = lane < board.page().slots().len();
        there.then(|| Self { board, lane, here, last: WorkerSignals::default() })
    }

    /// The lane, if it is still there: others write to that memory, too.
    pub fn lane(&self) -> Option<&WorkerSlot> {
        self.board.page().slots().get(self.lane)
    }

    /// The board, and which lane of it.
    pub fn place(&self) -> (Arc<dyn SignalMemory>, usize) {
        (self.board.clone(), self.lane)
    }

    /// Tells `pulse` at `now`, if it is news.
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
