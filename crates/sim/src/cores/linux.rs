//! Linux scheduler, for logical cores that no policy controls. BE is in the idle class, or in
//! the normal class with time slices ([`Costs::slice`](super::Costs)).
//!
//! A waking LC thread gets an idle logical core, preferably one with idle siblings, else one of
//! BE's: at once in the idle class, at the end of a slice in the normal class. An LC thread
//! that sleeps yields its core to waiting LC, else to BE. Memory, siblings and queueing delay
//! are ignored.

use queueing::{CoreId, Time};
use sched::cores::TaskId;

use super::logical_core::LogicalCoreState;
use super::machine::{Event, MachineState};

impl MachineState {
    /// Wakes a thread of LC `task` for a waiting request, on a core that the kernel schedules.
    pub(super) fn wake(&mut self, now: Time, task: usize) {
        if self.tasks[task].waking >= self.tasks[task].waiting() {
            return;
        }
        let rank = |&core: &usize| {
            let logical_core = &self.logical_cores[core];
            let mut siblings = self.topology.siblings(CoreId(core as u16));
            match logical_core.state {
                _ if !logical_core.shared || !self.may_run(task, core) => None,
                LogicalCoreState::Idle
                    if siblings.all(|s| self.logical_cores[s.0 as usize].active().is_none()) =>
                {
                    Some(0)
                }
                LogicalCoreState::Idle => Some(1),
                LogicalCoreState::Working if self.costs.slice.is_none() => Some(2),
                LogicalCoreState::Working => None,
                LogicalCoreState::Serving
                    if self.is_behind(logical_core.holder?.index()) && !self.is_behind(task) =>
                {
                    Some(3)
                }
                LogicalCoreState::Switching | LogicalCoreState::Spinning | LogicalCoreState::Serving => None,
            }
        };
        let best = (0..self.logical_cores.len()).filter_map(|core| Some((rank(&core)?, core))).min();
        let Some((rank, core)) = best else { return };
        let cost = if rank >= 2 { self.costs.preempt } else { self.costs.wake };
        self.tasks[task].waking += 1;
        self.switch_to(now, core, TaskId(task as u16), false, cost);
    }

    /// Gives `core`, which is idle and scheduled by the kernel, to a runnable task.
    pub(super) fn release(&mut self, now: Time, core: usize) {
        self.preempt(now, core);
        let oldest = |task: &usize| Some((self.is_behind(*task), self.tasks[*task].oldest()?));
        let waits = (0..self.tasks.len())
            .filter(|&task| oldest(&task).is_some() && self.may_run(task, core))
            .min_by_key(oldest);
        if let Some(task) = waits {
            self.tasks[task].waking += 1;
            return self.switch_to(now, core, TaskId(task as u16), false, self.costs.resume);
        }
        // For the kernel, threads that are being switched in already run.
        let switching_in = |task: usize| {
            let to = |logical_core: &&super::logical_core::LogicalCore| {
                logical_core.state == LogicalCoreState::Switching
                    && logical_core.holder == Some(TaskId(task as u16))
            };
            self.logical_cores.iter().filter(to).count() as u32
        };
        let ready =
            |task: &usize| self.tasks[*task].threads > self.tasks[*task].working + switching_in(*task);
        let next = (0..self.tasks.len())
            .filter(|&task| !self.tasks[task].critical && self.may_run(task, core))
            .filter(ready);
        if let Some(task) = next.min_by_key(|&task| self.tasks[task].working + switching_in(task)) {
            self.switch_to(now, core, TaskId(task as u16), false, self.costs.resume);
        }
    }

    /// Schedules the end of BE's slice on `core`, if slices are enabled.
    pub(super) fn slice(&mut self, now: Time, core: usize) {
        let logical_core = &self.logical_cores[core];
        if let (true, Some(distribution), Some(holder)) =
            (logical_core.shared, self.costs.slice, logical_core.holder)
        {
            let generation = logical_core.generation;
            let lasts = distribution.sample(&mut self.tasks[holder.index()].rng);
            self.engine.schedule(now + lasts, Event::Slice { core, generation });
        }
    }

    /// End of a slice: a waiting LC thread gets the core, else BE gets another slice.
    pub(super) fn end_slice(&mut self, now: Time, core: usize, generation: u32) {
        if self.logical_cores[core].generation != generation {
            return;
        }
        if self.tasks.iter().any(|task| task.critical && task.waiting() > task.waking) {
            return self.release(now, core);
        }
        self.slice(now, core);
    }
}
