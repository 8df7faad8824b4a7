//! Decisions of the mechanism `affinity`: which task owns a core, and on which cores each task may run.
//!
//! The kernel does the fast part: LC preempts BE at wake-up, since BE is in the idle class. This module
//! does the slow part, once per round, from waits of threads. An LC task whose threads wait longer than
//! THRESH_QD in spite of the idle class asks for a core; it gives one back when none has for a while.
//! [`CoreOwners`] is the state, [`mask`] the cores that follow from it. Threads, classes and files of
//! Linux are not here.

mod core_set;
mod mask;

use std::collections::VecDeque;

use queueing::{CoreId, Span, Time};

use super::{Action, CoreSignals, Signals, TaskId, TaskSpec};

pub use core_set::CoreSet;
pub use mask::{CoreOwner, are_all_critical, mask};

/// Default time between rounds: reading the accounts of threads takes long.
pub const PERIOD: Span = Span::from_millis(2);

/// Default time without waiting after which an LC task gives a core back.
pub const CALM: Span = Span::from_millis(20);

/// Default THRESH_QD of a task whose threads are observed: shorter waits than half a round end before
/// a decision could end them, by the kernel's idle class.
pub const DELAY_MAX: Span = Span::from_millis(1);

/// Default latency of a load at THRESH_BW, relative to an idle machine, for a latency probe.
pub const LATENCY_MAX: f64 = 2.0;

/// Rounds whose CPU time is remembered.
const ROUNDS: usize = 64;

/// Share of the cores' time from which LC counts as having kept them busy.
const BUSY: f64 = 0.9;
/// The same where LC is real-time: BE can hardly be the cause.
const BUSY_REAL_TIME: f64 = 0.5;

/// Share of all cores' time from which LC is overloaded: best effort and the kernel take the rest.
const OVERLOAD: f64 = 0.8;

/// Owner of each core, as decided so far.
#[derive(Clone, Debug)]
pub struct CoreOwners {
    owners: Vec<CoreOwner>,
    /// Time of the last change of owner, per core.
    since: Vec<Time>,
    /// Time since which a task has not waited beyond its threshold, per task.
    quiet_since: Vec<Time>,
    /// Active threads of each BE task.
    active: Vec<u32>,
    /// CPU time of each LC task in its last rounds, newest first.
    ran: Vec<VecDeque<(Time, Span)>>,
    /// Time until which an LC task beyond its guarantee is behind others, since one within its own
    /// guarantee had to wait for it.
    conflict_until: Time,
    calm: Span,
    is_exclusive: bool,
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
    /// CPU time of its threads in this round.
    pub ran: Span,
}

impl CoreOwners {
    /// `cores` without owners, for `tasks` tasks. An LC task gives a core back after it has not waited
    /// for `calm`. No two LC tasks run on a core that one of them holds if `is_exclusive`; otherwise those
    /// beyond their guarantee are [behind](Self::is_behind) the others.
    #[must_use]
    pub fn new(cores: usize, tasks: usize, calm: Span, is_exclusive: bool, now: Time) -> Self {
        Self {
            owners: vec![CoreOwner::Open; cores],
            since: vec![now; cores],
            quiet_since: vec![now; tasks],
            active: vec![u32::MAX; tasks],
            ran: vec![VecDeque::with_capacity(ROUNDS); tasks],
            conflict_until: now,
            calm,
            is_exclusive,
        }
    }

    /// From now on, no two LC tasks run on a core that one of them holds.
    pub const fn make_exclusive(&mut self) {
        self.is_exclusive = true;
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
    ///
    /// A wait is LC's own if LC kept the cores busy meanwhile: without BE it would not be shorter, and the
    /// task asks for no core.
    pub fn sense(
        &mut self,
        now: Time,
        task: TaskId,
        specs: &[TaskSpec],
        sample: ThreadSample,
        signals: &mut Signals,
    ) {
        let spec = &specs[task.index()];
        if !spec.is_critical() {
            self.active[task.index()] = sample.active;
            signals.tasks[task.index()].delay = sample.delay;
            signals.tasks[task.index()].runnable = sample.active;
            if sample.active == 0 {
                let its = self.owners.iter().zip(&mut signals.cores);
                let its = its.filter(|(owner, _)| **owner == CoreOwner::Run(task));
                its.for_each(|(_, core)| core.yielded = Some(task));
            }
            return;
        }
        let ran = &mut self.ran[task.index()];
        ran.truncate(ROUNDS - 1);
        ran.push_front((now, sample.ran));
        // A short wait asks for no core, whatever its cause.
        let is_long = sample.delay > spec.delay_max;
        let is_own_wait = is_long && self.is_own_wait(now, task, specs, sample.delay);
        let is_overload = is_own_wait && self.is_overloaded(now, specs);
        let seen = &mut signals.tasks[task.index()];
        (seen.delay, seen.is_own_wait, seen.is_overload) = (sample.delay, is_own_wait, is_overload);
        seen.runnable = if is_own_wait { 0 } else { sample.waiting };
        seen.idle = sample.ran == Span::ZERO && sample.waiting == 0;
        if seen.needs_core(spec) {
            self.keep(now, task);
        }
        if let Some(core) = self.give_back(now, task) {
            signals.cores[usize::from(core.0)].yielded = Some(task);
        }
    }

    /// True if LC kept the cores busy while a thread of `task` waited for `wait`, more than THRESH_QD. A
    /// task within its guarantee that waited for other LC puts those beyond theirs behind.
    fn is_own_wait(&mut self, now: Time, task: TaskId, specs: &[TaskSpec], wait: Span) -> bool {
        let is_task_busy = self.is_busy(now, task, specs, wait);
        let is_critical_busy = self.is_critical_busy(now, specs, wait);
        let is_within = self.is_within(now, task, &specs[task.index()]);
        if is_within && is_critical_busy && !is_task_busy {
            self.conflict_until = now + self.calm;
        }
        is_task_busy || is_critical_busy && !(self.is_exclusive && is_within)
    }

    /// True if LC has kept nearly all cores busy for the last `calm`.
    fn is_overloaded(&self, now: Time, specs: &[TaskSpec]) -> bool {
        let all_ns = self.owners.len() as u64 * self.calm.as_nanos();
        self.critical_ns(now, specs, self.calm) as f64 >= OVERLOAD * all_ns as f64
    }

    /// True if `task` is behind other LC tasks: it uses more than its guarantee, and one that does not
    /// had to wait.
    #[must_use]
    pub fn is_behind(&self, now: Time, task: TaskId, specs: &[TaskSpec]) -> bool {
        let spec = &specs[task.index()];
        !self.is_exclusive
            && spec.is_critical()
            && now < self.conflict_until
            && !self.is_within(now, task, spec)
    }

    /// True if `task` has guaranteed cores and used no more than those for the last `calm`.
    fn is_within(&self, now: Time, task: TaskId, spec: &TaskSpec) -> bool {
        let guaranteed_ns = u64::from(spec.guaranteed) * self.calm.as_nanos();
        guaranteed_ns > 0 && self.ran_ns(now, task.index(), self.calm) <= guaranteed_ns
    }

    /// True if `task` kept the cores of its mask busy for the last `wait`.
    fn is_busy(&self, now: Time, task: TaskId, specs: &[TaskSpec], wait: Span) -> bool {
        let cores = self.mask(specs, task).map_or(0, |mask| mask.len());
        self.is_most(self.ran_ns(now, task.index(), wait), cores, wait)
    }

    /// True if LC kept all cores busy for the last `wait`.
    fn is_critical_busy(&self, now: Time, specs: &[TaskSpec], wait: Span) -> bool {
        self.is_most(self.critical_ns(now, specs, wait), self.owners.len(), wait)
    }

    /// CPU time of LC in the rounds that the last `span` met.
    fn critical_ns(&self, now: Time, specs: &[TaskSpec], span: Span) -> u64 {
        let critical = (0..specs.len()).filter(|&task| specs[task].is_critical());
        critical.map(|task| self.ran_ns(now, task, span)).sum()
    }

    /// True if `ran_ns` of CPU time are most of the time of `cores` in `span`.
    fn is_most(&self, ran_ns: u64, cores: usize, span: Span) -> bool {
        let share = if self.is_exclusive { BUSY } else { BUSY_REAL_TIME };
        ran_ns as f64 >= share * (cores as u64 * span.as_nanos()) as f64
    }

    /// CPU time of `task` in the rounds that the last `span` met, its last one at least.
    fn ran_ns(&self, now: Time, task: usize, span: Span) -> u64 {
        let recent = self.ran[task].iter().enumerate();
        let recent = recent.take_while(|(number, (at, _))| *number == 0 || now.since(*at) <= span);
        recent.map(|(_, (_, ran))| ran.as_nanos()).sum()
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

    /// True if BE `task` has a core for each active thread: it gains none by more cores, but loses time if
    /// it must wait for LC on these.
    fn has_all(&self, task: TaskId) -> bool {
        let held = self.owners.iter().filter(|owner| **owner == CoreOwner::Run(task)).count();
        held > 0 && held as u64 >= u64::from(self.active[task.index()])
    }

    /// Cores on which `task` may run; `None` if it is to be parked.
    #[must_use]
    pub fn mask(&self, specs: &[TaskSpec], task: TaskId) -> Option<CoreSet> {
        let mask = mask(specs, &self.owners, task, self.is_exclusive)?;
        let may_move = !self.is_exclusive && !specs[task.index()].is_critical() && self.has_all(task);
        let is_movable = |core: &usize| match self.owners[*core] {
            CoreOwner::Open => true,
            CoreOwner::Run(runner) => !specs[runner.index()].is_critical() && self.has_all(runner),
            CoreOwner::Keep(_) | CoreOwner::Shared => false,
        };
        let open = (0..self.owners.len()).filter(|core| may_move && is_movable(core));
        Some(mask.iter().map(|core| usize::from(core.0)).chain(open).collect())
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

#[cfg(test)]
mod tests;
