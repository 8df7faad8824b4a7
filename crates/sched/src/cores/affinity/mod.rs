//! Decisions of the mechanism `affinity`: which task owns a core, and on which cores each task may run.
//!
//! The kernel does the fast part: LC preempts BE at wake-up, since BE is in the idle class. This module
//! does the slow part, once per round, from waits of threads. An LC task whose threads wait longer than
//! THRESH_QD in spite of the idle class asks for a core; it gives one back when none has for a while.
//! [`CoreOwners`] is the state, [`mask`] the cores that follow from it. Threads, classes and files of
//! Linux are not here.

mod core_set;
mod mask;

use queueing::{CoreId, Span, Time};

use super::{Action, CoreSignals, Signals, TaskId, TaskSignals, TaskSpec};

pub use core_set::CoreSet;
pub use mask::{CoreOwner, are_all_critical, mask};

/// Owner of each core, as decided so far.
#[derive(Clone, Debug)]
pub struct CoreOwners {
    owners: Vec<CoreOwner>,
    /// Time of the last change of owner, per core.
    since: Vec<Time>,
    /// Time since which a task has not waited beyond its threshold, per task.
    quiet_since: Vec<Time>,
    calm: Span,
}

/// Waits of a task's threads in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSample {
    /// The longest of its threads' mean waits for a core in this round.
    pub delay: Span,
    /// Threads whose wait exceeded the task's THRESH_QD.
    pub waiting: u32,
    /// Threads that were active recently.
    pub active: u32,
}

impl CoreOwners {
    /// `cores` without owners, for `tasks` tasks. An LC task gives a core back after it has not waited
    /// for `calm`.
    #[must_use]
    pub fn new(cores: usize, tasks: usize, calm: Span, now: Time) -> Self {
        Self {
            owners: vec![CoreOwner::Open; cores],
            since: vec![now; cores],
            quiet_since: vec![now; tasks],
            calm,
        }
    }

    /// Owners by core.
    #[must_use]
    pub fn owners(&self) -> &[CoreOwner] {
        &self.owners
    }

    /// Records that `task` needs all of its cores at `now`.
    pub fn keep(&mut self, now: Time, task: TaskId) {
        self.quiet_since[task.index()] = now;
    }

    /// Core that `task` gives back at `now`, if it has not waited for long.
    pub fn give_back(&mut self, now: Time, task: TaskId) -> Option<CoreId> {
        let since = &mut self.quiet_since[task.index()];
        if now.since(*since) < self.calm {
            return None;
        }
        let its = (0..self.owners.len()).filter(|&core| self.owners[core] == CoreOwner::Run(task));
        let latest = its.max_by_key(|&core| self.since[core])?;
        // The next one follows only after the same quiet time with one core less.
        *since = now;
        Some(CoreId(latest as u16))
    }

    /// Turns the waits of `task`'s threads into signals.
    pub fn sense(
        &mut self,
        now: Time,
        task: TaskId,
        spec: &TaskSpec,
        sample: ThreadSample,
        signals: &mut Signals,
    ) {
        let Signals { tasks, cores, .. } = signals;
        let TaskSignals { delay, runnable, .. } = &mut tasks[task.index()];
        *delay = sample.delay;
        if !spec.is_critical() {
            *runnable = sample.active;
            if sample.active == 0 {
                let its = self.owners.iter().zip(cores).filter(|(owner, _)| **owner == CoreOwner::Run(task));
                its.for_each(|(_, core)| core.yielded = Some(task));
            }
            return;
        }
        *runnable = sample.waiting;
        if tasks[task.index()].needs_core(spec) {
            self.keep(now, task);
        }
        if let Some(core) = self.give_back(now, task) {
            cores[usize::from(core.0)].yielded = Some(task);
        }
    }

    /// Opens the cores that were given back in this round, after all tasks were sensed.
    pub fn open_yielded(&mut self, cores: &[CoreSignals]) {
        for (owner, core) in self.owners.iter_mut().zip(cores) {
            if core.yielded.is_some() {
                *owner = CoreOwner::Open;
            }
        }
    }

    /// Records a decision; returns the core if it asks for a sample of its miss counter.
    pub fn record(&mut self, now: Time, action: Action) -> Option<CoreId> {
        let (core, owner) = CoreOwner::of(action);
        let Some(owner) = owner else { return Some(core) };
        self.owners[usize::from(core.0)] = owner;
        self.since[usize::from(core.0)] = now;
        None
    }

    /// Cores on which `task` may run; `None` if it is to be parked.
    #[must_use]
    pub fn mask(&self, specs: &[TaskSpec], task: TaskId) -> Option<CoreSet> {
        mask(specs, &self.owners, task)
    }
}

/// Cache misses of `core` without counters: the CPU time of its BE task, so that the task that runs
/// most counts as the one that interferes most.
pub fn estimated_misses(
    owners: &[CoreOwner],
    specs: &[TaskSpec],
    ran_ns: impl Fn(TaskId) -> u64,
    core: CoreId,
) -> u64 {
    let CoreOwner::Run(task) = owners[usize::from(core.0)] else { return 0 };
    if specs[task.index()].is_critical() {
        return 0;
    }
    let cores = owners.iter().filter(|owner| **owner == CoreOwner::Run(task)).count() as u64;
    ran_ns(task) / cores.max(1)
}
