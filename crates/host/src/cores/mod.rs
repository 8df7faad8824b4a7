//! Linux's cores for `sched::cores`: the mechanism `affinity`; beside it [`scx`], a
//! scheduler of ours in the kernel where that can be, and [`runtime`], which asks the
//! workers of programs on our own runtime.
//!
//! Any kernel, any program, no code in the kernel. The fast path is the kernel's own: BE
//! is in the idle class and LC, where that is allowed, real-time, so LC that wakes up has the core in
//! the time of a wake, over BE and over the kernel's own threads.
//! What [`Affinity`] adds are the slow decisions, every few milliseconds: it
//! senses who waits for a core and how busy DRAM is, keeps BE off cores that
//! LC needs for itself as long as there is another, and parks BE that has none while a
//! core is left idle on purpose.
//!
//! So signals mean here: LC *could use* a core when its threads wait longer for
//! one than its THRESH_QD, in spite of the idle class; and it *gives one back* when
//! they have not for a while. Nothing tells when a request began, so long requests (C5) are not seen.
//!
//! Not here: microseconds. Those take shared memory with the programs (`runtime`), or a scheduler in the kernel.
//! Source: Caladan (OSDI '20) §5; sched(7).

use std::fmt;
use std::io;
use std::path::PathBuf;

use queueing::{CoreId, Span, Time};
use rustix::thread::CpuSet;
use sched::cores::{Action, Cores, Sample, Signals, TaskId, TaskSpec};

mod cgroups;
pub mod cpulist;
mod cpumask;
pub mod handoff_latency;
mod layout;
mod managed_tasks;
mod manager;
mod pressure_files;
pub mod runtime;
pub mod sched_policy;
pub mod scx;
mod sensor;
mod tail_latency_files;
mod task;
mod task_selector;
pub mod undo_log;

pub use cgroups::{Group, Hierarchy};
pub use layout::Layout;
pub use managed_tasks::{ManagedTasks, Setup};
pub use manager::{Manager, Mechanism};
pub use runtime::Runtime;
pub use scx::Scx;
pub use sensor::{Counters, Limit, NullSensor, Probe, Sensor};
pub use task::{Figures, group_path};
pub use undo_log::{Journal, Restored};

use cpumask::{CoreOwner, mask};
use sched_policy::SchedPolicy;

/// Which processes a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSelector {
    /// A process of somebody else's, and what it started.
    Process(u32),
    /// One that we started.
    Child(u32),
    /// Everybody in a cgroup: the folder's path.
    Group(PathBuf),
}

/// A task to be managed.
#[derive(Clone, Debug)]
pub struct TaskSetup {
    /// What it may have.
    pub spec: TaskSpec,
    /// What it is.
    pub who: TaskSelector,
    /// Where its clients write their tail, a span such as `812us`.
    pub tail: Option<PathBuf>,
    /// Files in which its services tell of their requests: who is behind there asks for a core.
    pub joined: Vec<PathBuf>,
    /// Whether it runs on our runtime and tells what waits there; only `runtime` looks.
    pub pulse: bool,
}

/// Why a machine cannot be shared so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoresError {
    what: String,
    advice: Option<String>,
}

impl CoresError {
    fn of_file(name: &str, e: &io::Error) -> Self {
        Self { what: format!("{name}: {e}"), advice: None }
    }

    /// What to do about it, if anything is known to help.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        self.advice.clone()
    }

    /// The same, of the task called `name`.
    #[must_use]
    pub fn of_task(self, name: &str) -> Self {
        Self { what: format!("task {name}: {}", self.what), ..self }
    }
}

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CoresError {}

/// Tasks of this machine, shared by affinity and class.
pub struct Affinity {
    taken: ManagedTasks,
    given: Vec<CoreOwner>,
    /// Per core, when it was given.
    since: Vec<Time>,
    /// Per task, since when it has not waited beyond its threshold.
    quiet_since: Vec<Time>,
    calm: Span,
    asked: Vec<CoreId>,
    /// Tasks in the order in which they are moved: BE leaves before LC comes.
    order: Vec<TaskId>,
}

impl Affinity {
    /// Takes tasks over at `now`. What was changed is put back by [`put_back`](Manager::put_back), or
    /// from the journal.
    ///
    /// # Errors
    /// A task is not there or not ours to schedule; the others are put back.
    pub fn new(setup: Setup, now: Time) -> Result<Self, CoresError> {
        let calm = setup.calm;
        let lc = setup.real_time.then_some(SchedPolicy::URGENT);
        let taken = ManagedTasks::new(setup, [lc, Some(SchedPolicy::IDLE)], now)?;
        let (cores, tasks) = (taken.layout.cores().len(), taken.tasks.len());
        let mut order: Vec<TaskId> = (0..tasks as u16).map(TaskId).collect();
        order.sort_by_key(|task| taken.specs[task.index()].is_critical());
        Ok(Self {
            taken,
            order,
            given: vec![CoreOwner::Open; cores],
            since: vec![now; cores],
            quiet_since: vec![now; tasks],
            calm,
            asked: Vec::with_capacity(cores),
        })
    }

    /// The core that `task` gives back now, if it has not waited for long.
    fn gives_back(&mut self, now: Time, task: TaskId) -> Option<usize> {
        let since = &mut self.quiet_since[task.index()];
        if now.since(*since) < self.calm {
            return None;
        }
        let its = (0..self.given.len()).filter(|&core| self.given[core] == CoreOwner::Run(task));
        let latest = its.max_by_key(|&core| self.since[core])?;
        // The next one not before it has been as calm with one core less.
        *since = now;
        Some(latest)
    }

    /// What the threads of task `number` did since they were looked at last.
    fn look(&mut self, now: Time, number: usize, signals: &mut Signals) {
        let (id, spec) = (TaskId(number as u16), &self.taken.specs[number]);
        let look = self.taken.tasks[number].look(now, spec.delay_max);
        let seen = &mut signals.tasks[number];
        seen.delay = look.delay;
        if spec.is_critical() {
            seen.runnable = look.waiting;
            if seen.needs_core(spec) {
                self.quiet_since[number] = now;
            }
            if let Some(core) = self.gives_back(now, id) {
                signals.cores[core].yielded = Some(id);
            }
            return;
        }
        seen.runnable = look.active;
        if look.active == 0 {
            let its =
                self.given.iter().zip(&mut signals.cores).filter(|(given, _)| **given == CoreOwner::Run(id));
            its.for_each(|(_, core)| core.yielded = Some(id));
        }
    }

    /// Ends a look at all tasks: what was given back is open, and what was asked for is answered.
    fn looked(&mut self, now: Time, signals: &mut Signals) {
        // What was given back is open until it is given again.
        for (given, core) in self.given.iter_mut().zip(&signals.cores) {
            if core.yielded.is_some() {
                *given = CoreOwner::Open;
            }
        }
        while let Some(core) = self.asked.pop() {
            let ran = |task: TaskId| self.taken.tasks[task.index()].figures().ran_ns;
            let counted = self.taken.sensor.misses(self.taken.layout.cores()[core.0 as usize]);
            let misses = counted.unwrap_or_else(|| misses(&self.given, &self.taken.specs, ran, core));
            signals.cores[core.0 as usize].sample = Some(Sample { misses, at: now });
        }
        self.taken.sensor.bandwidth(now, &mut signals.bandwidth);
    }

    /// A decision.
    fn note(&mut self, now: Time, action: Action) {
        let (core, given) = CoreOwner::of(action);
        let Some(given) = given else { return self.asked.push(core) };
        self.given[core.0 as usize] = given;
        self.since[core.0 as usize] = now;
    }

    /// Cores of `task`; `None`: it is to be parked.
    fn mask(&self, task: TaskId) -> Option<CpuSet> {
        mask(&self.taken.layout, &self.taken.specs, &self.given, task)
    }
}

impl Cores for Affinity {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        self.taken.rescan(now);
        self.taken.listen(now, signals);
        signals.cores.iter_mut().for_each(|core| *core = sched::cores::CoreSignals::default());
        (0..self.taken.tasks.len()).for_each(|number| self.look(now, number, signals));
        self.looked(now, signals);
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        actions.iter().for_each(|&action| self.note(now, action));
        // Who stays as he is costs nothing.
        for place in 0..self.order.len() {
            let task = self.order[place];
            let cores = self.mask(task);
            self.taken.tasks[task.index()].place(cores);
        }
    }
}

impl Manager for Affinity {
    fn mechanism(&self) -> &'static str {
        "affinity"
    }

    fn taken(&self) -> &ManagedTasks {
        &self.taken
    }

    fn taken_mut(&mut self) -> &mut ManagedTasks {
        &mut self.taken
    }

    fn put_back(&mut self) -> io::Result<Restored> {
        self.taken.put_back()
    }

    fn figures(&self, task: TaskId) -> &Figures {
        self.taken.of(task).figures()
    }

    fn take_longest(&mut self, task: TaskId) -> Span {
        self.taken.tasks[task.index()].take_longest()
    }
}

/// Misses of a core, where nothing counts them: the CPU time of the BE task that has it, so that
/// the one that runs most is taken for the one that disturbs most.
fn misses(given: &[CoreOwner], specs: &[TaskSpec], ran_ns: impl Fn(TaskId) -> u64, core: CoreId) -> u64 {
    let CoreOwner::Run(task) = given[core.0 as usize] else { return 0 };
    if specs[task.index()].is_critical() {
        return 0;
    }
    let cores = given.iter().filter(|given| **given == CoreOwner::Run(task)).count() as u64;
    ran_ns(task) / cores.max(1)
}

#[cfg(test)]
mod tests;
