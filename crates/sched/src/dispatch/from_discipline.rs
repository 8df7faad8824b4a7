//! Dispatch policies from queue disciplines.
//!
//! The discipline chooses the next task among the priorities that idle workers
//! accept; the first of those workers serves it. The orders are [`queueing`]'s.

use queueing::{
    Drr, DrrConfig, Edf, Fifo, PushResult, SelectiveDequeue, SelectiveFifo, Span, StarvationBound, Strict,
    Time,
};

use super::{Dispatch, IdleWorkers, Task, WorkerId};

/// Policy from a discipline. The discipline must not push out: only the pushed
/// task can be returned to the caller.
#[derive(Clone, Debug)]
pub struct Ordered<D>(D);

/// First come, first served over all priorities: a server without priorities.
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn fcfs(capacity: usize) -> Ordered<SelectiveFifo<Task>> {
    Ordered(SelectiveFifo::new(capacity))
}

/// Strict priority, first come, first served within a level: ADPS's event queue
/// (M6). Urgent overload starves less urgent levels: steer them to a worker of
/// their own, or use [`weighted`].
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn strict(capacity: usize) -> Ordered<Strict<Fifo<Task>>> {
    Ordered(Strict::new(capacity, |_| Fifo::new(capacity)))
}

/// Earliest deadline first. A task without a deadline, or with a later one, is due
/// `deadline_default` after its push, which bounds starvation.
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn edf(capacity: usize, deadline_default: Span) -> Ordered<Edf<Task>> {
    Ordered(Edf::new(capacity, deadline_default))
}

/// Deficit round robin between levels: urgent levels get more service, no level
/// gets none. By count, since the service time is not known in advance.
///
/// # Panics
/// If `capacity` or a weight is 0.
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
