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
pub struct Ordered<D> {
    queue: D,
    needs_deadline: bool,
}

impl<D> Ordered<D> {
    /// Order that ignores deadlines.
    const fn new(queue: D) -> Self {
        Self { queue, needs_deadline: false }
    }

    const fn by_deadline(queue: D) -> Self {
        Self { queue, needs_deadline: true }
    }
}

/// First come, first served over all priorities: a server without priorities.
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn fcfs(capacity: usize) -> Ordered<SelectiveFifo<Task>> {
    Ordered::new(SelectiveFifo::new(capacity))
}

/// Strict priority, first come, first served within a level: ADPS's event queue
/// (ADPS M6). Urgent overload starves less urgent levels: steer them to a worker of
/// their own, or use [`weighted`].
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn strict(capacity: usize) -> Ordered<Strict<Fifo<Task>>> {
    Ordered::new(Strict::new(capacity, |_| Fifo::new(capacity)))
}

/// Earliest deadline first. A task without a deadline, or with a later one, is due
/// `deadline_default` after its push, which bounds starvation.
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn edf(capacity: usize, deadline_default: Span) -> Ordered<Edf<Task>> {
    Ordered::by_deadline(Edf::new(capacity, deadline_default))
}

/// Strict priority, earliest deadline first within a level, with `deadline_default`
/// as in [`edf`]: the order of a label. Urgent overload starves less urgent levels;
/// within a level the bound is that of [`edf`].
///
/// # Panics
/// If `capacity` is 0.
#[must_use]
pub fn strict_edf(capacity: usize, deadline_default: Span) -> Ordered<Strict<Edf<Task>>> {
    Ordered::by_deadline(Strict::new(capacity, |_| Edf::new(capacity, deadline_default)))
}

/// Deficit round robin between levels: urgent levels get more service, no level
/// gets none. By count, since the service time is not known in advance.
///
/// # Panics
/// If `capacity` or a weight is 0.
#[must_use]
pub fn weighted(capacity: usize, shares: DrrConfig) -> Ordered<Drr<Fifo<Task>>> {
    Ordered::new(Drr::new(capacity, shares, |_| Fifo::new(capacity)))
}

impl<D: SelectiveDequeue<Task> + Send> Dispatch for Ordered<D> {
    fn needs_deadline(&self) -> bool {
        self.needs_deadline
    }

    #[inline]
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        match self.queue.push(now, task) {
            PushResult::Queued => Ok(()),
            PushResult::Refused(task) | PushResult::PushedOut(task) => Err(task),
        }
    }

    #[inline]
    fn assign(&mut self, now: Time, idle: &IdleWorkers) -> Option<(WorkerId, Task)> {
        let task = self.queue.pop_among(now, idle.wanted())?;
        let worker = idle.accepting[task.label.priority.index()].lowest()?;
        Some((worker, task))
    }

    fn starvation(&self) -> StarvationBound {
        self.queue.starvation()
    }

    fn oldest(&self) -> Option<Time> {
        self.queue.oldest()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
