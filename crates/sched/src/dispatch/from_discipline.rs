//! A queue's order as a policy: whoever goes next among the priorities that
//! idle workers accept goes to the first of those workers.
//!
//! The orders are [`queueing`]'s; nothing is decided here but the worker.

use queueing::{
    Drr, DrrConfig, Edf, Fifo, PushResult, SelectiveDequeue, SelectiveFifo, Span, StarvationBound, Strict,
    Time,
};

use super::{Dispatch, IdleWorkers, Task, WorkerId};

/// A discipline as a policy; it must not push out, since a refused task
/// belongs to whoever pushed it.
#[derive(Clone, Debug)]
pub struct Ordered<D>(D);

/// First come, first served over all priorities: the order of a server that
/// knows no urgency.
///
/// # Panics
/// As all of these, when `capacity` is 0.
#[must_use]
pub fn fcfs(capacity: usize) -> Ordered<SelectiveFifo<Task>> {
    Ordered(SelectiveFifo::new(capacity))
}

/// The most urgent first, first come, first served within a level: ADPS's
/// event queue (M6). A flood of urgent work starves the rest for as long as it
/// lasts: give that a worker of its own by steering, or use [`weighted`].
#[must_use]
pub fn strict(capacity: usize) -> Ordered<Strict<Fifo<Task>>> {
    Ordered(Strict::new(capacity, |_| Fifo::new(capacity)))
}

/// The earliest deadline first. Tasks without a deadline and those with a
/// longer one are due `deadline_default` after their push, so that nothing
/// pushed later than that goes before them.
#[must_use]
pub fn edf(capacity: usize, deadline_default: Span) -> Ordered<Edf<Task>> {
    Ordered(Edf::new(capacity, deadline_default))
}

/// Shares instead of strict order: urgent levels get more, none gets nothing.
/// Share tasks by count; their size is not known before they run.
///
/// # Panics
/// When a share is 0.
#[must_use]
pub fn weighted(capacity: usize, shares: DrrConfig) -> Ordered<Drr<Fifo<Task>>> {
    Ordered(Drr::new(capacity, shares, |_| Fifo::new(capacity)))
}

impl<D: SelectiveDequeue<Task> + Send> Dispatch for Ordered<D> {
    #[inline]
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        match self.0.push(now, task) {
            PushResult::Queued => Ok(()),
            PushResult::Refused(task) | PushResult::PushedOut(task) => Err(task),
        }
    }

    #[inline]
    fn assign(&mut self, now: Time, idle: &IdleWorkers) -> Option<(WorkerId, Task)> {
        let task = self.0.pop_among(now, idle.wanted())?;
        let worker = idle.accepting[task.label.priority.index()].lowest()?;
        Some((worker, task))
    }

    fn starvation(&self) -> StarvationBound {
        self.0.starvation()
    }

    fn oldest(&self) -> Option<Time> {
        self.0.oldest()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
