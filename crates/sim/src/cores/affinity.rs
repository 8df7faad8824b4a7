//! The mechanism `affinity`: the kernel schedules every core, and a policy limits each task to some.
//!
//! Decisions are `sched::cores::affinity`'s own. LC preempts BE at wake-up on the cores that its mask
//! allows. Signals are the waits of threads for a core, one thread per request, as `/proc` shows them:
//! a wait counts when it is over, or after [`STILL`]. DRAM traffic and misses are exact.

use queueing::{CoreId, Span, Time};
use sched::cores::affinity::{CoreOwners, CoreSet, ThreadSample};
use sched::cores::{Action, CoreSignals, Sample, Signals, TaskId, TaskSpec};

use super::machine::MachineState;

/// A thread that waits for a core counts as waiting after this time, though its wait is not over.
const STILL: Span = Span::from_millis(12);

/// Owners of cores, and the cores on which each task may run.
pub(super) struct AffinityState {
    owners: CoreOwners,
    specs: Vec<TaskSpec>,
    /// Per task; `None` if it is parked.
    masks: Vec<Option<CoreSet>>,
    asked: Vec<CoreId>,
    /// LC tasks beyond their guarantee, which yield to the others.
    behind: Vec<bool>,
}

impl AffinityState {
    /// No core has an owner.
    pub fn new(cores: usize, specs: Vec<TaskSpec>, calm: Span) -> Self {
        let owners = CoreOwners::new(cores, specs.len(), calm, false, Time::ZERO);
        let masks = (0..specs.len() as u16).map(|task| owners.mask(&specs, TaskId(task))).collect();
        let behind = vec![false; specs.len()];
        Self { owners, specs, masks, asked: Vec::new(), behind }
    }

    /// THRESH_QD of `task`.
    pub fn delay_max(&self, task: usize) -> Span {
        self.specs[task].delay_max
    }

    /// True if `task` may run on `core`.
    pub fn allows(&self, task: usize, core: usize) -> bool {
        self.masks[task].is_some_and(|mask| mask.contains(core))
    }
}

impl MachineState {
    /// True if the kernel may run `task` on `core`.
    pub(super) fn may_run(&self, task: usize, core: usize) -> bool {
        self.affinity.as_ref().is_none_or(|affinity| affinity.allows(task, core))
    }

    /// True if LC `task` is behind other LC.
    pub(super) fn is_behind(&self, task: usize) -> bool {
        self.affinity.as_ref().is_some_and(|affinity| affinity.behind[task])
    }

    /// Signals of all tasks since the last round.
    pub(super) fn sense_threads(&mut self, now: Time, signals: &mut Signals) {
        let Some(mut affinity) = self.affinity.take() else { return };
        signals.cores.iter_mut().for_each(|core| *core = CoreSignals::default());
        for core in 0..self.logical_cores.len() {
            self.account(now, core);
        }
        for (number, spec) in affinity.specs.iter().enumerate() {
            let task = &mut self.tasks[number];
            let mut sample = std::mem::take(&mut task.sample);
            if task.critical {
                let waits = task.queue.iter().map(|request| now.since(request.ready));
                for wait in waits.filter(|&wait| wait >= STILL) {
                    sample.delay = sample.delay.max(wait);
                    sample.waiting += u32::from(wait > spec.delay_max);
                }
            } else {
                sample = ThreadSample { active: task.threads, ..ThreadSample::default() };
            }
            affinity.owners.sense(now, TaskId(number as u16), &affinity.specs, sample, signals);
        }
        affinity.owners.open_yielded(&signals.cores);
        for core in affinity.asked.drain(..) {
            let misses = self.logical_cores[usize::from(core.0)].misses();
            signals.cores[usize::from(core.0)].sample = Some(Sample { misses, at: now });
        }
        self.affinity = Some(affinity);
    }

    /// Carries out the decisions of a round.
    pub(super) fn set_masks(&mut self, now: Time, actions: &[Action]) {
        let Some(affinity) = &mut self.affinity else { return };
        for &action in actions {
            affinity.asked.extend(affinity.owners.record(now, action));
        }
        for task in 0..affinity.specs.len() {
            let id = TaskId(task as u16);
            affinity.masks[task] = affinity.owners.mask(&affinity.specs, id);
            affinity.behind[task] = affinity.owners.is_behind(now, id, &affinity.specs);
        }
        for core in 0..self.logical_cores.len() {
            let holder = self.logical_cores[core].holder;
            if holder.is_some_and(|holder| !self.may_run(holder.index(), core)) {
                self.preempt(now, core);
            }
        }
        for task in 0..self.tasks.len() {
            // Each takes a core.
            for _ in 0..self.tasks[task].waiting().min(self.logical_cores.len()) {
                self.wake(now, task);
            }
        }
        for core in 0..self.logical_cores.len() {
            if self.logical_cores[core].holder.is_none() {
                self.release(now, core);
            }
        }
    }
}
