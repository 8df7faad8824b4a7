//! Shares instead of strict order: urgent levels get more, none gets nothing.
//!
//! Deficit round robin with tasks as the unit (their size is not known before
//! they run): each level may be served as often as its weight in a round,
//! more urgent levels first. A round ends when no level that waits and finds
//! a worker has credit left. Aging on top: a head that has waited longer than
//! `age_max` takes every second turn, so a level with a small share does not
//! grow old in the middle of a long round.
//! Source: Shreedhar & Varghese, SIGCOMM '95, with unit quanta.

use queueing::{Priority, PrioritySet, Span, Starvation, Time};

use super::levels::{Levels, Waiting};
use super::{Dispatch, Idle, Task, WorkerId};

/// What `weighted` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedSettings {
    /// Tasks per round and level, each at least 1.
    pub weights: [u32; Priority::LEVELS],
    /// A head older than this takes every second turn.
    pub age_max: Span,
}

/// Each level twice the share of the next; heads age after 10 ms.
impl Default for WeightedSettings {
    fn default() -> Self {
        Self { weights: [128, 64, 32, 16, 8, 4, 2, 1], age_max: Span::from_millis(10) }
    }
}

/// Deficit round robin over levels, with aging.
#[derive(Debug)]
pub struct Weighted {
    queue: Levels,
    arrivals: u64,
    capacity: usize,
    settings: WeightedSettings,
    credit: [u32; Priority::LEVELS],
    /// The last turn went to an old head.
    aged: bool,
}

impl Weighted {
    /// An empty queue for at most `capacity` tasks; a weight of 0 counts as 1.
    #[must_use]
    pub fn new(capacity: usize, mut settings: WeightedSettings) -> Self {
        settings.weights.iter_mut().for_each(|w| *w = (*w).max(1));
        let credit = settings.weights;
        Self { queue: Levels::default(), arrivals: 0, capacity, settings, credit, aged: false }
    }

    /// The level whose turn it is among `ready`, which is not empty.
    fn turn(&mut self, now: Time, ready: PrioritySet) -> Option<Priority> {
        let oldest = self.queue.oldest(ready)?;
        if !self.aged && now.since(oldest.since) > self.settings.age_max {
            self.aged = true;
            return Some(oldest.task.label.priority);
        }
        self.aged = false;
        if !Priority::all().any(|p| ready.contains(p) && self.credit[p.index()] > 0) {
            self.credit = self.settings.weights;
        }
        let level = Priority::all().find(|&p| ready.contains(p) && self.credit[p.index()] > 0)?;
        self.credit[level.index()] -= 1;
        Some(level)
    }
}

impl Dispatch for Weighted {
    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        if self.queue.len() >= self.capacity {
            return Err(task);
        }
        self.queue.push(Waiting { number: self.arrivals, since: now, task });
        self.arrivals += 1;
        Ok(())
    }

    fn assign(&mut self, now: Time, idle: &Idle) -> Option<(WorkerId, Task)> {
        let ready = self.queue.occupied().and(idle.wanted());
        let level = self.turn(now, ready)?;
        let worker = idle.accepting[level.index()].lowest()?;
        self.queue.pop(level).map(|waiting| (worker, waiting.task))
    }

    /// The head of any level is served within two rounds' tasks, half the
    /// turns going to old heads; a full queue of one level with weight 1
    /// stands `capacity` rounds before its last.
    fn starvation(&self) -> Starvation {
        let round: u64 = self.settings.weights.iter().map(|&w| u64::from(w)).sum();
        let slowest = u64::from(self.settings.weights.iter().copied().min().unwrap_or(1));
        let rounds = (self.capacity as u64).div_ceil(slowest) + 1;
        Starvation::Bounded { entries: round.saturating_mul(rounds).saturating_mul(2) }
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
