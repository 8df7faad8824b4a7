//! Poller of several snapshot exchanges, all together once a second.
//!
//! The snapshots are read when all have arrived; until then none is requested again. The poller
//! never blocks.

use std::sync::Arc;

use queueing::Time;
use runtime::snapshot_exchange::SnapshotExchange;

use crate::ui::window::STEP;

/// State of the poller.
pub struct SnapshotPoller<T> {
    each: Vec<One<T>>,
    /// Time at which the last snapshots were complete.
    answered: Option<Time>,
    /// True while snapshots are requested and incomplete.
    waits: bool,
}

struct One<T> {
    hatch: Arc<SnapshotExchange<T>>,
    /// The snapshot, or the buffer for the next one.
    snapshot: Option<Box<T>>,
}

impl<T: Default> SnapshotPoller<T> {
    /// A poller of `count` exchanges; `empty` makes their buffers.
    pub fn new(count: usize, mut empty: impl FnMut() -> T) -> Self {
        let mut one = || One { hatch: Arc::default(), snapshot: Some(Box::new(empty())) };
        Self { each: (0..count).map(|_| one()).collect(), answered: None, waits: false }
    }

    /// The exchanges to be polled.
    pub fn exchanges(&self) -> Vec<Arc<SnapshotExchange<T>>> {
        self.each.iter().map(|one| one.hatch.clone()).collect()
    }

    /// Requests snapshots when due; true if all have just arrived.
    pub fn poll(&mut self, now: Time) -> bool {
        if !self.waits && self.answered.is_none_or(|answered| now.since(answered) >= STEP) {
            self.waits = true;
            for one in &mut self.each {
                one.snapshot.take().into_iter().for_each(|empty| one.hatch.request(empty));
            }
        }
        let all = self.waits && self.collect();
        if all {
            (self.answered, self.waits) = (Some(now), false);
        }
        all
    }

    /// Takes snapshots that arrived and were not read, once no more are requested; true if there
    /// may be any.
    pub fn end(&mut self) -> bool {
        self.collect();
        std::mem::take(&mut self.waits)
    }

    /// The snapshot of each, to be emptied for the next time; `None` where it has not arrived.
    pub fn snapshots(&mut self) -> impl Iterator<Item = &mut Option<Box<T>>> {
        self.each.iter_mut().map(|one| &mut one.snapshot)
    }

    /// True if all have arrived.
    fn collect(&mut self) -> bool {
        for one in self.each.iter_mut().filter(|one| one.snapshot.is_none()) {
            one.snapshot = one.hatch.take();
        }
        self.each.iter().all(|one| one.snapshot.is_some())
    }
}

#[cfg(test)]
mod tests {
    use queueing::Span;

    use super::*;

    #[test]
    fn snapshots_are_requested_once_a_second_and_read_when_complete() {
        let mut poller = SnapshotPoller::new(2, || 0);
        let exchanges = poller.exchanges();
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let answer =
            |which: usize, with: u32| exchanges[which].fill_if_requested(|snapshot| *snapshot += with);
        answer(0, 1);
        assert!(!poller.poll(at(0)), "no earlier request");
        answer(0, 10);
        assert!(!poller.poll(at(5)), "one has answered");
        answer(1, 20);
        assert!(poller.poll(at(10)));
        let snapshot: Vec<_> = poller.snapshots().map(|snapshot| **snapshot.as_ref().unwrap()).collect();
        assert_eq!(snapshot, [10, 20]);
        assert!(!poller.poll(at(1_009)), "it was less than a second ago");
        answer(0, 100);
        answer(1, 100);
        assert!(!poller.poll(at(1_010)));
        answer(1, 200);
        assert!(poller.end(), "one unread snapshot");
        let snapshot: Vec<_> =
            poller.snapshots().map(|snapshot| snapshot.as_ref().map(|snapshot| **snapshot)).collect();
        assert_eq!(snapshot, [None, Some(220)]);
        assert!(!poller.end());
    }
}
