//! The earliest deadline first.
//!
//! A label carries the time that is left; added to the moment of the push it
//! is an instant, and the task whose instant comes first goes first. Tasks
//! without a deadline get [`Params::deadline_default`](super::Params), so
//! they compete and cannot starve: time passes, and sooner or later theirs is
//! the earliest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use queueing::{Priority, Span, Starvation, Time};

use super::{Dispatch, Idle, Task, WorkerId};

/// Earliest absolute deadline first; equal deadlines in order of arrival.
#[derive(Debug)]
pub struct Edf {
    levels: [BinaryHeap<Reverse<Due>>; Priority::LEVELS],
    arrivals: u64,
    len: usize,
    capacity: usize,
    deadline_default: Span,
}

impl Edf {
    /// An empty queue for at most `capacity` tasks; tasks without a deadline
    /// are due `deadline_default` after their push.
    #[must_use]
    pub fn new(capacity: usize, deadline_default: Span) -> Self {
        Self { levels: Default::default(), arrivals: 0, len: 0, capacity, deadline_default }
    }
}

impl Dispatch for Edf {
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        if self.len >= self.capacity {
            return Err(task);
        }
        let deadline = now + task.label.deadline.unwrap_or(self.deadline_default);
        let due = Due { deadline, number: self.arrivals, task };
        self.levels[task.label.priority.index()].push(Reverse(due));
        self.arrivals += 1;
        self.len += 1;
        Ok(())
    }

    fn assign(&mut self, _now: Time, idle: &Idle) -> Option<(WorkerId, Task)> {
        let level = Priority::all()
            .filter(|p| !idle.accepting[p.index()].is_empty())
            .filter_map(|p| self.levels[p.index()].peek().map(|Reverse(due)| (due.key(), p)))
            .min()?
            .1;
        let worker = idle.accepting[level.index()].lowest()?;
        let Reverse(due) = self.levels[level.index()].pop()?;
        self.len -= 1;
        Some((worker, due.task))
    }

    /// No bound in entries: tasks pushed before a task's deadline with
    /// earlier deadlines of their own all go first. The bound is in time:
    /// nothing pushed after a task's deadline passes it.
    fn starvation(&self) -> Starvation {
        Starvation::Unbounded { from: Priority::HIGHEST }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A task and the instant it is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    deadline: Time,
    number: u64,
    task: Task,
}

impl Due {
    fn key(&self) -> (Time, u64) {
        (self.deadline, self.number)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
