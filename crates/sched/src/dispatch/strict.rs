//! The most urgent first; first come, first served within a level.
//!
//! What ADPS's event queue does (M6). A flood of urgent work starves the rest
//! for as long as it lasts: give less urgent work a worker of its own by
//! steering, or use `weighted`.

use queueing::{Priority, Starvation, Time};

use super::levels::{Levels, Waiting};
use super::{Dispatch, Idle, Task, WorkerId};

/// Strict priority.
#[derive(Debug)]
pub struct Strict {
    queue: Levels,
    arrivals: u64,
    capacity: usize,
}

impl Strict {
    /// An empty queue for at most `capacity` tasks.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { queue: Levels::default(), arrivals: 0, capacity }
    }
}

impl Dispatch for Strict {
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        if self.queue.len() >= self.capacity {
            return Err(task);
        }
        self.queue.push(Waiting { number: self.arrivals, since: now, task });
        self.arrivals += 1;
        Ok(())
    }

    fn assign(&mut self, _now: Time, idle: &Idle) -> Option<(WorkerId, Task)> {
        let level = Priority::all()
            .find(|&p| self.queue.head(p).is_some() && !idle.accepting[p.index()].is_empty())?;
        let worker = idle.accepting[level.index()].lowest()?;
        self.queue.pop(level).map(|waiting| (worker, waiting.task))
    }

    /// Every level but the most urgent can wait for ever.
    fn starvation(&self) -> Starvation {
        Starvation::Unbounded { from: Priority::new(1).unwrap_or_default() }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
