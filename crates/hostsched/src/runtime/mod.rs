//! The mechanism `runtime`: affinity and class, plus the workers of programs on greenwave's runtime,
//! which publish their waits and leave a core on request.
//!
//! For a task with signal pages ([`SharedPage`]), decisions need no read of `/proc`. The start times of
//! waiting frames, tasks, timers and requests are in shared memory, so a round takes microseconds. As
//! many workers run as the task has cores; others with work are parked by a word in that memory, chosen
//! by [`Workers`]. LC keeps at least one. Workers without work sleep anyway, so the kernel wakes LC
//! over BE as under [`Affinity`]. BE workers that must leave get a park request first, and are frozen
//! if they still compute after `GRACE`.
//!
//! [`Affinity`] manages tasks without a signal page, or whose programs have not made one yet. Their
//! threads are sampled every `LOOK`, because reading takes long, and each sample counts once.
//!
//! Source: Caladan (OSDI '20) §4.1, §4.2.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use queueing::{Span, Time};
use sched::cores::affinity::{CoreOwner, are_all_critical};
use sched::cores::worker_signals::{SignalMemory, SignalPage, Workers};
use sched::cores::{Action, CoreSignals, Cores, Signals, TaskId, TaskSignals};

use super::undo_log::Restored;
use super::{Affinity, CoresError, Figures, ManagedTasks, Manager, Setup};
use host::proc;
use host::signal_page::SharedPage;

/// Interval at which threads are sampled, and those of tasks with signal pages counted.
const SAMPLE_INTERVAL: Span = Span::from_millis(2);
/// Time after which BE that still computes without a core is frozen.
const GRACE: Span = Span::from_millis(2);
/// First interval at which a process without a signal page is checked again; it doubles up to one
/// second.
const AGAIN_MIN: Span = Span::from_millis(50);
const AGAIN_MAX: Span = Span::from_secs(2);

/// Tasks, some of them on greenwave's runtime.
pub struct Runtime {
    base: Affinity,
    /// By task; `None` where no signal page is expected.
    pools: Vec<Option<WorkerPool>>,
    /// Time at which threads were last sampled.
    looked: Option<Time>,
}

/// Workers of a task.
struct WorkerPool {
    workers: Workers<Program>,
    /// Processes without a signal page: time of the next check, and the interval after it.
    without: BTreeMap<u32, (Time, Span)>,
    /// Time since which the task has no core.
    coreless_since: Option<Time>,
    /// Longest wait since the last call of `take_longest`.
    longest: Span,
}

/// A program with a signal page.
struct Program {
    process: u32,
    /// Start time of its process.
    began: u64,
    page: SharedPage,
}

impl Runtime {
    /// Takes tasks over at `now`.
    ///
    /// # Errors
    /// A task does not exist or we may not schedule it; the others are restored.
    pub fn new(setup: Setup, now: Time) -> Result<Self, CoresError> {
        let workers = || Workers::new(setup.period);
        let pool = || WorkerPool {
            workers: workers(),
            without: BTreeMap::new(),
            coreless_since: None,
            longest: Span::ZERO,
        };
        let pools = setup.tasks.iter().map(|(_, task)| task.has_signal_page.then(pool)).collect();
        let mut runtime = Self { base: Affinity::with_exclusive(setup, true, now)?, pools, looked: None };
        runtime.find(now);
        Ok(runtime)
    }

    /// Finds signal pages of new processes and forgets ended ones.
    fn find(&mut self, now: Time) {
        let ManagedTasks { tasks, journal, .. } = &mut self.base.taken;
        for (task, pool) in tasks.iter().zip(&mut self.pools) {
            let Some(pool) = pool else { continue };
            pool.workers
                .retain(|program| proc::began(program.process, program.process) == Some(program.began));
            let processes: Vec<u32> = task.processes().collect();
            pool.without.retain(|process, _| processes.contains(process));
            for process in processes {
                pool.find(now, process, journal);
            }
        }
    }

    /// Workers of the task, if it has any yet.
    fn pool(&mut self, task: TaskId) -> Option<&mut WorkerPool> {
        self.pools[task.index()].as_mut().filter(|pool| !pool.workers.is_empty())
    }

    /// Cores on which `task` may run one worker each.
    fn cores(&self, task: TaskId) -> usize {
        let own = |given: &&CoreOwner| match **given {
            CoreOwner::Run(owner) | CoreOwner::Keep(owner) => owner == task,
            CoreOwner::Shared => true,
            CoreOwner::Open => false,
        };
        let (specs, given) = (&self.base.taken.specs, self.base.owners.owners());
        let least = match specs[task.index()].is_critical() {
            true => 1,
            false if are_all_critical(specs, given) => given.len(),
            false => 0,
        };
        given.iter().filter(own).count().max(least)
    }

    /// Reads the signals of the task's workers.
    fn read_signals(&mut self, now: Time, task: TaskId, signals: &mut Signals) {
        let cores = self.cores(task);
        let Some(pool) = self.pool(task) else { return };
        let sensed = pool.workers.sense(now);
        pool.longest = pool.longest.max(sensed.delay);
        let seen = &mut signals.tasks[task.index()];
        let (late, tail) = (seen.late, seen.tail);
        *seen = TaskSignals {
            delay: sensed.delay,
            runnable: sensed.runnable,
            late,
            tail,
            ..TaskSignals::default()
        };
        if seen.late || sensed.runnable as usize >= cores {
            self.base.owners.keep(now, task);
        } else if let Some(core) = self.base.owners.give_back(now, task) {
            signals.cores[usize::from(core.0)].yielded = Some(task);
        }
        let Some(pool) = &self.pools[task.index()] else { return };
        for ((core, given), number) in
            signals.cores.iter_mut().zip(self.base.owners.owners()).zip(self.base.taken.layout.cores())
        {
            if matches!(given, CoreOwner::Run(owner) | CoreOwner::Keep(owner) if *owner == task) {
                core.request_since = pool.workers.request_since(*number);
            }
        }
    }

    /// Gives the task its cores.
    fn place(&mut self, now: Time, task: TaskId) {
        let (mask, cores) = (self.base.mask(task), self.cores(task));
        if let Some(pool) = self.pool(task) {
            pool.workers.act(cores);
            let since = *pool.coreless_since.get_or_insert(now);
            if mask.is_some() {
                pool.coreless_since = None;
            } else if now.since(since) < GRACE || !pool.workers.is_running() {
                return;
            }
        }
        self.base.taken.place(task, mask);
    }
}

impl WorkerPool {
    /// Checks `process` for a signal page when that is due.
    fn find(&mut self, now: Time, process: u32, journal: &mut super::Journal) {
        let is_known = self.workers.programs().iter().any(|program| program.process == process);
        if is_known || self.without.get(&process).is_some_and(|(again, _)| now < *again) {
            return;
        }
        if let Some(program) = self.program(process)
            && journal.asks(process, program.began).is_ok()
        {
            self.without.remove(&process);
            return self.workers.add(program);
        }
        let (again, span) = self.without.entry(process).or_insert((now, AGAIN_MIN));
        (*again, *span) = (now + *span, (*span * 2).min(AGAIN_MAX));
    }

    /// The program of `process`, if it has a signal page.
    fn program(&self, process: u32) -> Option<Program> {
        let began = proc::began(process, process)?;
        let page = SharedPage::of_process(process).ok()?;
        let is_new = self.workers.programs().iter().all(|program| !program.page.is_same(&page));
        is_new.then_some(Program { process, began, page })
    }
}

impl Cores for Runtime {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        if self.base.taken.rescan(now) {
            self.find(now);
        }
        self.base.taken.listen(now, signals);
        signals.cores.iter_mut().for_each(|core| *core = CoreSignals::default());
        let is_due = self.looked.is_none_or(|looked| now.since(looked) >= SAMPLE_INTERVAL);
        if is_due {
            self.looked = Some(now);
        }
        for number in 0..self.pools.len() {
            let task = TaskId(number as u16);
            let tells = self.pool(task).is_some();
            match (tells, is_due) {
                (false, true) => self.base.sample(now, number, signals),
                // This sample has already been used.
                (false, false) => {
                    signals.tasks[number].delay = Span::ZERO;
                    signals.tasks[number].late = false;
                }
                (true, _) => {
                    if is_due {
                        // For the figures only.
                        self.base.taken.sample(now, number, Span::MAX);
                    }
                    self.read_signals(now, task, signals);
                }
            }
        }
        self.base.end_sample(now, signals);
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        actions.iter().for_each(|&action| self.base.note(now, action));
        for index in 0..self.base.order.len() {
            self.place(now, self.base.order[index]);
        }
    }
}

impl Manager for Runtime {
    fn mechanism(&self) -> &'static str {
        "runtime"
    }

    fn taken(&self) -> &ManagedTasks {
        self.base.taken()
    }

    fn taken_mut(&mut self) -> &mut ManagedTasks {
        self.base.taken_mut()
    }

    fn put_back(&mut self) -> io::Result<Restored> {
        self.base.put_back()
    }

    fn figures(&self, task: TaskId) -> &Figures {
        self.base.figures(task)
    }

    fn take_longest(&mut self, task: TaskId) -> Span {
        let of_threads = self.base.take_longest(task);
        self.pool(task).map_or(of_threads, |pool| std::mem::take(&mut pool.longest))
    }

    fn workers(&self, task: TaskId) -> Option<(usize, usize)> {
        let pool = self.pools[task.index()].as_ref().filter(|pool| !pool.workers.is_empty())?;
        Some((pool.workers.len(), pool.workers.parked()))
    }

    fn is_parked(&self, task: TaskId) -> bool {
        let is_asked = |pool: &WorkerPool| pool.workers.parked() > 0 && !pool.workers.is_running();
        self.taken().of(task).is_parked() || self.pools[task.index()].as_ref().is_some_and(is_asked)
    }
}

impl SignalMemory for Program {
    fn page(&self) -> &SignalPage {
        self.page.page()
    }

    fn wait(&self, word: &AtomicU32, value: u32, span: Duration) {
        self.page.wait(word, value, span);
    }

    fn wake(&self, word: &AtomicU32) {
        self.page.wake(word);
    }
}

#[cfg(test)]
mod tests;
