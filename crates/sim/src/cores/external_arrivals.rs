//! A machine as a part of a larger world: its first task's requests come from
//! outside and wait in a queue of the caller's making; who was served is told.
//!
//! All else is as on any machine here: who divides the cores, what that takes, and
//! how tasks disturb each other.

use queueing::{Entry, Label, Span, Time};
use sched::cores::Allocator;

use super::config::Config;
use super::machine::{Event, World};
use crate::Engine;

/// A request that is offered to a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The caller's name for it.
    pub token: u64,
    /// What it takes on a machine of its own.
    pub work: Span,
    /// How urgent it is, and what is left of its budget.
    pub label: Label,
    /// How long it is expected to take once its turn has come.
    pub expected: Span,
}

impl Entry for Offer {
    fn label(&self) -> Label {
        self.label
    }

    fn service(&self) -> Span {
        self.expected
    }
}

/// Whose service is over, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub token: u64,
    pub started: Time,
}

/// Where requests wait for a core.
pub(crate) trait Waiting {
    /// Takes `offer` in; the token of whoever had to leave for it, or could not come in.
    fn push(&mut self, now: Time, offer: Offer) -> Option<u64>;

    /// The next to be served; who is dropped instead joins `shed`.
    fn next(&mut self, now: Time, shed: &mut Vec<u64>) -> Option<Offer>;

    /// When the one that has waited longest came.
    fn oldest(&self) -> Option<Time>;

    /// How many wait.
    fn len(&self) -> usize;

    /// Whether somebody waits who cannot wait for a queue to grow old: it asks for
    /// a core at once.
    fn presses(&self) -> bool;
}

/// A machine that is fed.
pub(crate) struct ExternalMachine {
    world: World,
    allocator: Allocator,
}

/// The task that is fed.
const TASK: usize = 0;

impl ExternalMachine {
    /// The machine of `config`, whose first task is LC and has no arrivals of its own;
    /// its requests are to wait in `queue`.
    ///
    /// # Panics
    /// When policy or tasks cannot be.
    pub fn new(config: &Config, queue: Box<dyn Waiting>) -> Self {
        let board = config.board().expect("a checked machine");
        let policy = config.policy(&board).expect("a checked policy");
        let allocator = Allocator::new(policy, board);
        let mut world = World::new(config, allocator.board().topology().clone());
        world.tasks[TASK].fed = Some(queue);
        Self { world, allocator }
    }

    /// A request comes; the token of whoever will not be served for it.
    pub fn offer(&mut self, now: Time, offer: Offer) -> Option<u64> {
        let task = &mut self.world.tasks[TASK];
        let gone = task.fed.as_mut().and_then(|queue| queue.push(now, offer));
        if let Some(core) = task.spinning.last().copied() {
            // Who looks for work finds it; if it is not to be served after all, he looks on.
            if let Some(request) = task.take(now, &mut self.world.shed) {
                task.spinning.pop();
                self.world.begin(now, core, request);
            }
        } else {
            self.world.wake(now, TASK);
        }
        gone
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Time> {
        self.world.engine.peek()
    }

    /// What happens by `limit` happens.
    pub fn run(&mut self, limit: Time) {
        while let Some((now, event)) = self.world.engine.next_by(limit) {
            super::happens(&mut self.world, &mut self.allocator, now, event);
        }
    }

    /// Whose service has ended since this was asked last, and who was shed.
    pub fn drain(&mut self, ended: &mut Vec<Served>, shed: &mut Vec<u64>) {
        ended.append(&mut self.world.ended);
        shed.append(&mut self.world.shed);
    }

    /// Requests that wait, and when the one that has waited longest came.
    pub fn waiting(&self) -> (usize, Option<Time>) {
        let task = &self.world.tasks[TASK];
        (task.waiting(), task.oldest())
    }

    /// What `task` has done of its work by `now`, since it counts, in time of one lane.
    pub fn work(&mut self, now: Time, task: usize) -> Span {
        (0..self.world.lanes.len()).for_each(|core| self.world.touch(now, core));
        Span::from_nanos(self.world.tasks.get(task).map_or(0, |task| task.work_ns as u64))
    }

    /// Events simulated.
    pub fn events(&self) -> u64 {
        let engine: &Engine<Event> = &self.world.engine;
        engine.scheduled()
    }
}
