//! Load of tasks from the words that the kernel writes for each thread.

use queueing::{Span, Time};
use sched::cores::TaskId;

use super::shared_layout::{THREADS, Thread, ThreadSnapshot};
use crate::Figures;

/// Maximum number of slots that a new thread tries, as in `cores.bpf.c`.
const TRIES: usize = 64;

/// Takes a free slot for `thread` of `task`.
pub fn take_slot(slots: &[Thread], thread: u32, task: TaskId) -> Option<usize> {
    let tried = (0..TRIES).map(|n| (thread as usize + n) % THREADS);
    tried.into_iter().find(|&slot| slots[slot].take(thread, task))
}

/// Present load of a task's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Longest wait: of the waiting threads, or the mean of a thread's waits that ended in this round.
    pub delay: Span,
    /// Longest wait of the threads that wait now.
    pub oldest: Span,
    /// Threads that wait for a core.
    pub waiting: u32,
    /// Threads that run.
    pub running: u32,
}

/// Threads of all tasks.
#[derive(Debug)]
pub struct Threads {
    used: Vec<Used>,
    /// By slot, true if it is among those.
    known: Vec<bool>,
    loads: Vec<Load>,
}

#[derive(Debug)]
struct Used {
    slot: usize,
    owner: u32,
    task: usize,
    last: ThreadSnapshot,
}

impl Threads {
    /// No threads yet, for `tasks` tasks.
    pub fn new(tasks: usize) -> Self {
        Self {
            used: Vec::with_capacity(THREADS),
            known: vec![false; THREADS],
            loads: vec![Load::default(); tasks],
        }
    }

    /// Finds slots taken since the last call.
    pub fn find(&mut self, slots: &[Thread]) {
        for (slot, words) in slots.iter().enumerate() {
            let Some(owner) = words.owner().filter(|_| !self.known[slot]) else { continue };
            let task = words.task();
            if task < self.loads.len() {
                self.known[slot] = true;
                self.used.push(Used { slot, owner, task, last: ThreadSnapshot::default() });
            }
        }
    }

    /// Reads every thread, and adds its changes to `figures`.
    pub fn sample(&mut self, now: Time, slots: &[Thread], figures: &mut [Figures]) {
        self.loads.fill(Load::default());
        let (loads, known) = (&mut self.loads, &mut self.known);
        self.used.retain_mut(|used| {
            let words = &slots[used.slot];
            let (owner, seen) = (words.owner(), words.snapshot());
            if owner.is_some_and(|owner| owner != used.owner) {
                // Another thread has taken the slot: it is found as a new one.
                known[used.slot] = false;
                return false;
            }
            let (load, figures) = (&mut loads[used.task], &mut figures[used.task]);
            let waited = seen.waited_ns.saturating_sub(used.last.waited_ns);
            let turns = seen.turns.saturating_sub(used.last.turns);
            let ran = seen.ran_ns.saturating_sub(used.last.ran_ns);
            figures.ran_ns = figures.ran_ns.saturating_add(ran);
            figures.waited_ns = figures.waited_ns.saturating_add(waited);
            figures.turns = figures.turns.saturating_add(turns);
            used.last = seen;
            if owner.is_none() {
                // Its last activity has been counted.
                known[used.slot] = false;
                return false;
            }
            let mean = Span::from_nanos(waited.checked_div(turns).unwrap_or(0));
            let age = seen.waits.map_or(Span::ZERO, |since| now.since(since));
            load.delay = load.delay.max(mean).max(age);
            load.oldest = load.oldest.max(age);
            load.waiting += u32::from(seen.waits.is_some());
            load.running += u32::from(seen.runs);
            figures.longest = figures.longest.max(load.delay);
            true
        });
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.loads.len()
    }

    /// Load of `task` at the last look.
    pub fn load(&self, task: TaskId) -> Load {
        self.loads[task.index()]
    }
}
