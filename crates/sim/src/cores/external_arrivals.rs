//! Machine as a component of a larger simulation.
//!
//! Requests of its first task come from outside and wait in a queue supplied by the caller; served
//! requests are reported. Policies, costs and interference are the same as for other simulated
//! machines.

use queueing::{Entry, Label, Span, Time};
use sched::cores::Allocator;

use super::config::Config;
use super::machine::{Event, MachineState};
use crate::Engine;

/// Request offered to a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Identifier chosen by the caller.
    pub token: u64,
    /// Service time on an otherwise idle machine.
    pub work: Span,
    /// Priority and remaining budget.
    pub label: Label,
    /// Expected service time.
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

/// Completed request and its start of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub token: u64,
    pub started: Time,
}

/// Queue of requests that wait for a core.
pub(crate) trait RequestQueue {
    /// Enqueues `offer`; returns the token of a request refused or evicted for it.
    fn push(&mut self, now: Time, offer: Offer) -> Option<u64>;

    /// Dequeues the next request; dropped ones are appended to `shed`.
    fn next(&mut self, now: Time, shed: &mut Vec<u64>) -> Option<Offer>;

    /// Arrival of the oldest request.
    fn oldest(&self) -> Option<Time>;

    /// Queue length.
    fn len(&self) -> usize;

    /// True if a request is too urgent to wait for the queueing delay to rise: it asks for a
    /// core at once.
    fn has_late_request(&self) -> bool;
}

/// Machine with external arrivals.
pub(crate) struct ExternalMachine {
    machine: MachineState,
    allocator: Allocator,
}

/// Task with external arrivals.
const TASK: usize = 0;

impl ExternalMachine {
    /// Machine of `config`. Its first task is LC without an arrival process; its requests wait
    /// in `queue`.
    ///
    /// # Panics
    /// If the policy or the tasks are invalid.
    pub fn new(config: &Config, queue: Box<dyn RequestQueue>) -> Self {
        let assignment = config.assignment().expect("a checked machine");
        let policy = config.policy(&assignment).expect("a checked policy");
        let allocator = Allocator::new(policy, assignment);
        let mut machine = MachineState::new(config, allocator.assignment().topology().clone());
        machine.tasks[TASK].external = Some(queue);
        Self { machine, allocator }
    }

    /// Offers a request; returns the token of a request refused or evicted for it.
    pub fn offer(&mut self, now: Time, offer: Offer) -> Option<u64> {
        let task = &mut self.machine.tasks[TASK];
        let rejected = task.external.as_mut().and_then(|queue| queue.push(now, offer));
        if let Some(core) = task.spinning.last().copied() {
            // A spinning core dequeues it; if nothing is to be served, the core continues to
            // spin.
            if let Some(request) = task.dequeue(now, &mut self.machine.shed) {
                task.spinning.pop();
                self.machine.begin(now, core, request);
            }
        } else {
            self.machine.wake(now, TASK);
        }
        rejected
    }

    /// Time of the next event.
    pub fn next(&self) -> Option<Time> {
        self.machine.engine.peek()
    }

    /// Processes events up to `limit`.
    pub fn run(&mut self, limit: Time) {
        while let Some((now, event)) = self.machine.engine.next_by(limit) {
            super::handle_event(&mut self.machine, &mut self.allocator, now, event);
        }
    }

    /// Requests completed and shed since the last call.
    pub fn drain(&mut self, ended: &mut Vec<Served>, shed: &mut Vec<u64>) {
        ended.append(&mut self.machine.ended);
        shed.append(&mut self.machine.shed);
    }

    /// Queue length, and arrival of the oldest request.
    pub fn waiting(&self) -> (usize, Option<Time>) {
        let task = &self.machine.tasks[TASK];
        (task.waiting(), task.oldest())
    }

    /// Work of `task` by `now`, measured from the end of warm-up, in time of one undisturbed
    /// logical core.
    pub fn work(&mut self, now: Time, task: usize) -> Span {
        (0..self.machine.logical_cores.len()).for_each(|core| self.machine.account(now, core));
        Span::from_nanos(self.machine.tasks.get(task).map_or(0, |task| task.work_ns as u64))
    }

    /// Events simulated.
    pub fn events(&self) -> u64 {
        let engine: &Engine<Event> = &self.machine.engine;
        engine.scheduled()
    }
}
