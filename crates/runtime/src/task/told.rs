//! What a shard of tasks tells the core scheduler.

use std::sync::Arc;

use queueing::{CoreId, Time};
use sched::cores::pulse::{Board, Lane, Pulse};

/// A shard's lane on a board, and what it told there last.
pub(crate) struct Teller {
    board: Arc<dyn Board>,
    lane: usize,
    here: Option<fn() -> Option<CoreId>>,
    last: Pulse,
}

impl Teller {
    /// For lane `lane` of `board`, which `here` tells where it runs; `None` when there is no such.
    pub fn new(board: Arc<dyn Board>, lane: usize, here: Option<fn() -> Option<CoreId>>) -> Option<Self> {
        let there = lane < board.page().lanes().len();
        there.then(|| Self { board, lane, here, last: Pulse::default() })
    }

    /// The lane, if it is still there: others write to that memory, too.
    pub fn lane(&self) -> Option<&Lane> {
        self.board.page().lanes().get(self.lane)
    }

    /// The board, and which lane of it.
    pub fn place(&self) -> (Arc<dyn Board>, usize) {
        (self.board.clone(), self.lane)
    }

    /// Tells `pulse` at `now`, if it is news.
    pub fn tell(&mut self, now: Time, pulse: Pulse) {
        let core = pulse.request.and(self.here).and_then(|here| here());
        let pulse = Pulse { at: self.last.at, core, ..pulse };
        if pulse == self.last {
            return;
        }
        self.last = Pulse { at: now, ..pulse };
        if let Some(lane) = self.lane() {
            lane.tell(&self.last);
        }
    }
}
