//! One FIFO per priority level with a global arrival number: the queue that
//! lets a policy obey steering and still know who came first.

use std::collections::VecDeque;

use queueing::{Priority, PrioritySet, Time};

use super::Task;

/// A task that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// Its place in the order of arrival over all levels.
    pub number: u64,
    /// When it was pushed.
    pub since: Time,
    /// The task.
    pub task: Task,
}

/// FIFOs over the eight levels. The owner bounds it and numbers arrivals.
#[derive(Debug, Default)]
pub(super) struct Levels {
    fifos: [VecDeque<Waiting>; Priority::LEVELS],
    len: usize,
}

impl Levels {
    /// Appends `waiting` to its level.
    pub fn push(&mut self, waiting: Waiting) {
        self.fifos[waiting.task.label.priority.index()].push_back(waiting);
        self.len += 1;
    }

    /// Tasks that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Levels at which something waits.
    pub fn occupied(&self) -> PrioritySet {
        Priority::all().filter(|p| !self.fifos[p.index()].is_empty()).collect()
    }

    /// The head of `level`.
    pub fn head(&self, level: Priority) -> Option<&Waiting> {
        self.fifos[level.index()].front()
    }

    /// The head that arrived first among the levels of `wanted`.
    pub fn oldest(&self, wanted: PrioritySet) -> Option<&Waiting> {
        Priority::all().filter(|&p| wanted.contains(p)).filter_map(|p| self.head(p)).min_by_key(|w| w.number)
    }

    /// Takes the head of `level`.
    pub fn pop(&mut self, level: Priority) -> Option<Waiting> {
        let waiting = self.fifos[level.index()].pop_front()?;
        self.len -= 1;
        Some(waiting)
    }
}
