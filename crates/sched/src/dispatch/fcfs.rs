//! First come, first served, over all priorities.
//!
//! The order of a server that knows no urgency: among the tasks that some
//! idle worker accepts, the one that was pushed first goes first.

use queueing::{Starvation, Time};

use super::levels::{Levels, Waiting};
use super::{Dispatch, Idle, Task, WorkerId};

/// Centralised first come, first served.
#[derive(Debug)]
pub struct Fcfs {
    queue: Levels,
    arrivals: u64,
    capacity: usize,
}

impl Fcfs {
    /// An empty queue for at most `capacity` tasks.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { queue: Levels::default(), arrivals: 0, capacity }
    }
}

impl Dispatch for Fcfs {
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        if self.queue.len() >= self.capacity {
            return Err(task);
        }
        self.queue.push(Waiting { number: self.arrivals, since: now, task });
        self.arrivals += 1;
        Ok(())
    }

    fn assign(&mut self, _now: Time, idle: &Idle) -> Option<(WorkerId, Task)> {
        let level = self.queue.oldest(idle.wanted())?.task.label.priority;
        let worker = idle.accepting[level.index()].lowest()?;
        self.queue.pop(level).map(|waiting| (worker, waiting.task))
    }

    /// A task waits for those that came before it, `capacity - 1` at most.
    fn starvation(&self) -> Starvation {
        Starvation::Bounded { entries: self.capacity.saturating_sub(1) as u64 }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
