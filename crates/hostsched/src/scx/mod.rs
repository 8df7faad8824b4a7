//! The mechanism `scx`: greenwave's scheduler in the kernel (sched_ext).
//!
//! Threads of tasks are in the class SCHED_EXT, which that scheduler owns. All others keep the kernel's
//! scheduling and run before them. [`Scx`] writes the task of each core into shared memory and kicks
//! the core; the call does not wait, and the expensive part happens on the core. A decision is a word
//! with a sequence number, and a core that has not read it is kicked again. Waits are words too, so a
//! round makes a system call only when a core changes its owner.
//!
//! Commands of C6: to *run* a task on a core or *idle* it is one word and a kick each; to *sample* a
//! core's counter is left to the sensors.
//!
//! A runnable thread that gets no core for long would make the kernel remove the scheduler for all. BE
//! is frozen before that; a task that cannot be frozen is lent a core for a moment.
//!
//! Source: Caladan (OSDI '20) §4.3; Linux, Documentation/scheduler/sched-ext.rst.

use std::io;
use std::path::Path;

use queueing::{Span, Time};
use sched::cores::affinity::estimated_misses;
use sched::cores::{Action, Cores, Sample, Signals, TaskId};

use super::undo_log::{Restored, pid};
use super::{CoresError, Figures, ManagedTasks, Manager, Setup};
use host::sched_policy::SchedPolicy;

mod assignments;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg(feature = "bpf")]
mod program;
mod shared_layout;
#[cfg(not(feature = "bpf"))]
mod stub;
mod threads;

use assignments::Grants;
#[cfg(feature = "bpf")]
use program::load;
use shared_layout::{CORES, Core, Kick, State, TASKS, Task, Thread};
#[cfg(not(feature = "bpf"))]
use stub::load;
use threads::Threads;

/// Interface to the scheduler in the kernel.
pub(crate) trait Kernel {
    /// One entry per Linux core: the word wanted, and the observed state.
    fn cores(&self) -> &[Core];
    /// Core list of each task.
    fn tasks(&self) -> &[Task];
    /// Thread slots.
    fn threads(&self) -> &[Thread];
    /// State of the scheduler: in place, or the reason of its end.
    fn state(&self) -> &State;
    /// Makes cores reschedule; returns before they have.
    fn kick(&self, kick: &Kick) -> io::Result<()>;
    /// True if `thread` belongs to a task.
    fn is_member(&self, thread: u32) -> io::Result<bool>;
    /// Schedules `thread` as one of `task`'s from now on, with its words at slot `slot`.
    fn join(&self, thread: u32, task: TaskId, slot: Option<usize>) -> io::Result<()>;
}

/// Directory with the kernel's state of sched_ext.
const SYS: &str = "/sys/kernel/sched_ext";
/// Wait for a first core after which BE is frozen, if possible: a fifth of the kernel's stall timeout.
const PARK_AFTER: Span = Span::from_secs(1);

/// Checks that the mechanism is available here.
///
/// # Errors
/// The reason, with a remedy.
pub fn check() -> Result<(), CoresError> {
    allowed(Path::new(SYS))?;
    load(false).map(drop)
}

/// Checks of what the kernel reports, in `sys`, before anything is loaded.
///
/// # Errors
/// The reason why the scheduler cannot be loaded.
pub fn allowed(sys: &Path) -> Result<(), CoresError> {
    let refused = |what: String, advice: &str| Err(CoresError { what, advice: Some(advice.to_owned()) });
    if !sys.exists() {
        return refused(
            "scx: this kernel has no sched_ext".to_owned(),
            "Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT (Debian: trixie-backports)",
        );
    }
    let text = |file: &str| std::fs::read_to_string(sys.join(file)).unwrap_or_default().trim().to_owned();
    let state = text("state");
    if !state.is_empty() && state != "disabled" {
        let ops = text("root/ops");
        return refused(
            format!("scx: the scheduler {ops} is already loaded ({state}); only one is possible"),
            "stop it first, or mechanism = \"affinity\"",
        );
    }
    Ok(())
}

/// Tasks managed by a scheduler in the kernel.
pub struct Scx {
    taken: ManagedTasks,
    figures: Vec<Figures>,
    /// Per task: threads that could not join.
    refused: Vec<u64>,
    grants: Grants,
    threads: Threads,
    /// `None` once everything was restored.
    kernel: Option<Box<dyn Kernel>>,
}

impl Scx {
    /// Starts the scheduler and takes tasks over at `now`.
    ///
    /// # Errors
    /// The mechanism is not available here; a task does not exist or we may not schedule it. Nothing is
    /// changed then.
    pub fn new(setup: Setup, now: Time) -> Result<Self, CoresError> {
        allowed(Path::new(SYS))?;
        Self::with(load(true)?, setup, now)
    }

    /// Number of times a core was about to run a task that had lost it, and chose again.
    #[must_use]
    pub fn stale(&self) -> u64 {
        let Some(kernel) = &self.kernel else { return 0 };
        let words = self.taken.layout.cores().iter().map(|core| &kernel.cores()[core.0 as usize]);
        words.map(Core::stale).sum()
    }

    /// Time at which `thread`, which belongs to a task, last went to sleep.
    #[must_use]
    pub fn slept(&self, thread: u32) -> Option<Time> {
        let its = self.kernel.as_ref()?.threads().iter().find(|words| words.owner() == Some(thread))?;
        Some(its.slept())
    }

    fn with(kernel: Box<dyn Kernel>, setup: Setup, now: Time) -> Result<Self, CoresError> {
        let too_many =
            |what: String| Err(CoresError { what, advice: Some("mechanism = \"affinity\"".to_owned()) });
        if let Some(core) = setup.layout.cores().iter().find(|core| core.0 as usize >= CORES) {
            return too_many(format!("scx: core {} is outside 0..{CORES}", core.0));
        }
        if setup.tasks.len() > TASKS {
            return too_many(format!("scx: {} tasks exceed the maximum of {TASKS}", setup.tasks.len()));
        }
        let calm = setup.calm;
        let taken = ManagedTasks::new(setup, [None, None], now)?;
        let tasks = taken.tasks.len();
        let mut scx = Self {
            figures: vec![Figures::default(); tasks],
            refused: vec![0; tasks],
            grants: Grants::new(taken.layout.cores(), calm, now),
            threads: Threads::new(tasks),
            taken,
            kernel: Some(kernel),
        };
        // Threads get the mask of all managed cores: the scheduler places them, and a narrower mask
        // would only keep some waiting in vain.
        let all = scx.taken.layout.all();
        (0..tasks as u16).for_each(|task| scx.taken.place(TaskId(task), Some(all)));
        scx.join();
        Ok(scx)
    }

    /// Makes new threads members of their tasks.
    fn join(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        for (number, task) in self.taken.tasks.iter_mut().enumerate() {
            let id = TaskId(number as u16);
            for thread in task.take_fresh() {
                // Children of a member are members already.
                if kernel.is_member(thread).is_ok_and(|is| is) {
                    continue;
                }
                let slot = threads::take_slot(kernel.threads(), thread, id);
                let result = kernel.join(thread, id, slot);
                // An ended thread is not a refusal.
                if result.is_err() && SchedPolicy::of(pid(thread)).is_ok() {
                    self.refused[number] += 1;
                }
                if let Some(slot) = slot.filter(|_| result.is_err()) {
                    kernel.threads()[slot].free();
                }
            }
            self.figures[number].threads = task.figures().threads;
            self.figures[number].refused = task.figures().refused + self.refused[number];
        }
        self.threads.find(kernel.threads());
    }

    /// Freezes BE that has no core and has waited long; a task that cannot be frozen is lent a core.
    fn park(&mut self, now: Time) {
        for number in 0..self.taken.tasks.len() {
            let id = TaskId(number as u16);
            let load = self.threads.load(id);
            if load.waiting == 0 || load.oldest < PARK_AFTER {
                continue;
            }
            if self.grants.has_any(id) {
                // It has cores and still waits: perhaps one of its threads may no longer run there.
                if self.taken.was_scanned(now) {
                    self.taken.tasks[number].reset_affinity();
                }
                continue;
            }
            self.taken.place(id, None);
            // Freezing, too, takes a core.
            let critical = |task: TaskId| self.taken.specs[task.index()].is_critical();
            self.grants.lend(now, id, critical);
        }
    }
}

impl Cores for Scx {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        if self.taken.rescan(now) {
            self.join();
        }
        let Some(kernel) = &self.kernel else { return };
        self.taken.listen(now, signals);
        self.threads.sample(now, kernel.threads(), &mut self.figures);
        for (number, seen) in signals.tasks.iter_mut().enumerate() {
            let load = self.threads.load(TaskId(number as u16));
            seen.delay = load.delay;
            seen.runnable = match self.taken.tasks[number].is_parked() {
                // A frozen task does not count as idle.
                true => self.figures[number].threads as u32,
                false => load.waiting + load.running,
            };
        }
        signals.cores.iter_mut().for_each(|core| *core = sched::cores::CoreSignals::default());
        self.grants.give_back(now, kernel.cores(), &self.threads, signals);
        while let Some(core) = self.grants.next_sample() {
            let given = self.grants.given();
            let ran = |task: TaskId| self.figures[task.index()].ran_ns;
            let counted = self.taken.sensor.misses(self.taken.layout.cores()[core.0 as usize]);
            let misses = counted.unwrap_or_else(|| estimated_misses(given, &self.taken.specs, ran, core));
            signals.cores[core.0 as usize].sample = Some(Sample { misses, at: now });
        }
        self.taken.sensor.bandwidth(now, &mut signals.bandwidth);
        self.park(now);
        if let Some(kernel) = &self.kernel {
            self.grants.kick_stale(now, &**kernel, &self.threads);
        }
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        let all = self.taken.layout.all();
        for &action in actions {
            if let Action::Run { task, .. } = action
                && self.taken.tasks[task.index()].is_parked()
            {
                self.taken.place(task, Some(all));
            }
            self.grants.note(now, action);
        }
        if let Some(kernel) = &self.kernel {
            self.grants.write(now, &**kernel, self.taken.tasks.len());
        }
    }
}

impl Manager for Scx {
    fn mechanism(&self) -> &'static str {
        "scx"
    }

    fn taken(&self) -> &ManagedTasks {
        &self.taken
    }

    fn taken_mut(&mut self) -> &mut ManagedTasks {
        &mut self.taken
    }

    fn put_back(&mut self) -> io::Result<Restored> {
        // The scheduler goes first, so that waiting threads run.
        self.kernel = None;
        self.taken.put_back()
    }

    fn figures(&self, task: TaskId) -> &Figures {
        &self.figures[task.index()]
    }

    fn take_longest(&mut self, task: TaskId) -> Span {
        std::mem::take(&mut self.figures[task.index()].longest)
    }

    fn lost(&self) -> Option<String> {
        self.kernel.as_ref()?.state().why()
    }
}

#[cfg(test)]
mod tests;
