//! Core allocation on Linux for `sched::cores`, by class and affinity ([`Affinity`]).
//!
//! There are two other mechanisms: [`scx`], a scheduler in the kernel, and [`runtime`], which sends
//! requests to workers of programs on greenwave's runtime.
//!
//! [`Affinity`] needs no code in the kernel and works with any program. The fast path is the kernel's
//! own. BE is in the idle class and LC, where permitted, real-time: LC that wakes up gets the core
//! within one wake-up, before BE and the kernel's own threads. [`Affinity`] adds the slow decisions,
//! every few milliseconds. It measures waits for a core and the load of DRAM, keeps BE off cores that
//! LC needs for itself while there is another, and parks BE without a core where a core is left idle on
//! purpose.
//!
//! Signals therefore mean: LC *could use* a core when its threads wait longer than THRESH_QD in spite
//! of the idle class, and *gives one back* when they have not for a while. The start of a request is
//! not visible, so long requests (C5) are not seen.
//!
//! Not here: decisions within microseconds. Such decisions need memory shared with the programs
//! (`runtime`) or a scheduler in the kernel (`scx`).
//!
//! Source: Caladan (OSDI '20) §5; sched(7).

use std::fmt;
use std::io;
use std::path::PathBuf;

use queueing::{CoreId, Span, Time};
use rustix::thread::CpuSet;
use sched::cores::affinity::{CoreOwners, estimated_misses};
use sched::cores::{Action, CoreSignals, Cores, Sample, Signals, TaskId, TaskSpec};

mod cgroups;
mod cpu_ranks;
pub mod cpulist;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod handoff_latency;
mod layout;
mod managed_tasks;
mod manager;
mod pressure_files;
mod protected;
pub mod real_time;
pub mod runtime;
pub mod scx;
mod sensor;
#[cfg(test)]
#[path = "../../host/src/soon.rs"]
mod soon;
mod tail_latency_files;
mod task;
mod task_selector;
pub mod undo_log;

pub use cgroups::{Group, Hierarchy, Location};
pub use layout::Layout;
pub use managed_tasks::{ManagedTasks, Setup};
pub use manager::{Manager, Mechanism};
pub use protected::{Protected, Role};
pub use runtime::Runtime;
pub use scx::Scx;
pub use sensor::{Counters, Limit, NullSensor, Probe, ProbedCounters, Sensor};
pub use task::{Figures, group_path};
pub use task_selector::check_all;
pub use undo_log::{Journal, Restored};

use host::sched_policy::SchedPolicy;

/// Processes of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSelector {
    /// A running process and its descendants.
    Process(u32),
    /// A child of greenwave.
    Child(u32),
    /// All processes of the control group at this path.
    Group(PathBuf),
}

/// A task to manage.
#[derive(Clone, Debug)]
pub struct TaskSetup {
    /// Class, cores and thresholds.
    pub spec: TaskSpec,
    /// Processes.
    pub selector: TaskSelector,
    /// File in which its clients write their tail latency, a span such as `812us`.
    pub tail: Option<PathBuf>,
    /// Queue-report files of its services; a service that is behind asks for a core.
    pub queue_reports: Vec<PathBuf>,
    /// True if it runs on greenwave's runtime and publishes its waits; only `runtime` uses it.
    pub has_signal_page: bool,
}

/// Reason why cores cannot be managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoresError {
    what: String,
    advice: Option<String>,
}

impl CoresError {
    fn of_file(name: &str, e: &io::Error) -> Self {
        Self { what: format!("{name}: {e}"), advice: None }
    }

    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        self.advice.clone()
    }

    /// The same error for the task called `name`.
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

/// Tasks managed by affinity and class.
pub struct Affinity {
    taken: ManagedTasks,
    owners: CoreOwners,
    asked: Vec<CoreId>,
    /// Order in which tasks are moved: BE leaves before LC comes.
    order: Vec<TaskId>,
}

impl Affinity {
    /// Takes tasks over at `now`. [`put_back`](Manager::put_back) or the undo log restores all
    /// changes.
    ///
    /// # Errors
    /// A task does not exist or we may not schedule it; the others are restored.
    pub fn new(setup: Setup, now: Time) -> Result<Self, CoresError> {
        Self::with_exclusive(setup, false, now)
    }

    /// As [`new`](Self::new); LC tasks keep off each other's cores if `is_exclusive`.
    fn with_exclusive(setup: Setup, is_exclusive: bool, now: Time) -> Result<Self, CoresError> {
        let calm = setup.calm;
        let is_exclusive = is_exclusive || !setup.real_time;
        let lc = setup.real_time.then_some(real_time::REGULAR);
        let taken = ManagedTasks::new(setup, [lc, Some(SchedPolicy::IDLE)], now)?;
        let (cores, tasks) = (taken.layout.cores().len(), taken.tasks.len());
        let mut order: Vec<TaskId> = (0..tasks as u16).map(TaskId).collect();
        order.sort_by_key(|task| taken.specs[task.index()].is_critical());
        Ok(Self {
            taken,
            order,
            owners: CoreOwners::new(cores, tasks, calm, is_exclusive, now),
            asked: Vec::with_capacity(cores),
        })
    }

    /// Samples the threads of task `number` since the last call.
    fn sample(&mut self, now: Time, number: usize, signals: &mut Signals) {
        let sample = self.taken.sample(now, number, self.taken.specs[number].delay_max);
        self.owners.sense(now, TaskId(number as u16), &self.taken.specs, sample, signals);
    }

    /// Ends the sampling of all tasks: cores given back become open, and requested samples are
    /// answered.
    fn end_sample(&mut self, now: Time, signals: &mut Signals) {
        self.owners.open_yielded(&signals.cores);
        while let Some(core) = self.asked.pop() {
            let ran = |task: TaskId| self.taken.tasks[task.index()].figures().ran_ns;
            let counted = self.taken.sensor.misses(self.taken.layout.cores()[core.0 as usize]);
            let misses = counted
                .unwrap_or_else(|| estimated_misses(self.owners.owners(), &self.taken.specs, ran, core));
            signals.cores[core.0 as usize].sample = Some(Sample { misses, at: now });
        }
        self.taken.sensor.bandwidth(now, &mut signals.bandwidth);
    }

    /// Records a decision.
    fn note(&mut self, now: Time, action: Action) {
        self.asked.extend(self.owners.record(now, action));
    }

    /// CPU set for `task`; `None` if the task is to be parked.
    fn mask(&self, task: TaskId) -> Option<CpuSet> {
        let cores = self.owners.mask(&self.taken.specs, task)?;
        Some(cpulist::set_of(cores.iter().map(|core| self.taken.layout.cores()[usize::from(core.0)])))
    }
}

impl Cores for Affinity {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        self.taken.rescan(now);
        self.taken.listen(now, signals);
        signals.cores.iter_mut().for_each(|core| *core = CoreSignals::default());
        (0..self.taken.tasks.len()).for_each(|number| self.sample(now, number, signals));
        self.end_sample(now, signals);
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        actions.iter().for_each(|&action| self.note(now, action));
        // Without the real-time class no task can be behind another.
        if self.taken.tasks.iter().any(task::Managed::lacks_real_time) {
            self.owners.make_exclusive();
        }
        for index in 0..self.taken.tasks.len() {
            let is_behind = self.owners.is_behind(now, TaskId(index as u16), &self.taken.specs);
            self.taken.tasks[index].set_behind(is_behind);
        }
        // A task that keeps its cores costs nothing.
        for index in 0..self.order.len() {
            let task = self.order[index];
            let cores = self.mask(task);
            self.taken.place(task, cores);
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

#[cfg(test)]
mod tests;
