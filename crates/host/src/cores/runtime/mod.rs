//! The mechanism `runtime`: affinity and class, and beside them the workers of
//! programs on our own runtime, which tell what waits for them and leave a core when asked.
//!
//! Of a task that has pulses ([`SharedPage`]) nothing is read in `/proc` to decide:
//! since when its frames, tasks and timers wait, and when its requests began,
//! stands in memory, so a round takes microseconds. As many of its workers go on as
//! it has cores, others with work are parked by a word; which ones, [`Workers`]
//! says. LC keeps one at least, and who has nothing to do sleeps anyway, so LC is
//! woken by the kernel over BE as under [`Affinity`]. BE that is to be parked is asked first, and
//! frozen if it still computes after `GRACE`.
//!
//! Tasks without a pulse, or whose programs have made none yet, are [`Affinity`]'s;
//! their threads are looked at every `LOOK` as a reading takes long, and what was seen then counts once.
//! Source: Caladan (OSDI '20) §4.1, §4.2.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use queueing::{Span, Time};
use sched::cores::worker_signals::{SignalMemory, SignalPage, Workers};
use sched::cores::{Action, CoreSignals, Cores, Signals, TaskId};

use super::cpumask::{CoreOwner, are_all_critical};
use super::undo_log::Restored;
use super::{Affinity, CoresError, Figures, ManagedTasks, Manager, Setup};
use crate::proc;
use crate::signal_page::SharedPage;

/// How often threads are looked at, and those of tasks with pulses counted.
const LOOK: Span = Span::from_millis(2);
/// BE that computes so long after it has lost its last core is frozen.
const GRACE: Span = Span::from_millis(2);
/// A process without a pulse is looked at again after so long, and each time after
/// twice as long, up to the second.
const AGAIN_MIN: Span = Span::from_millis(50);
const AGAIN_MAX: Span = Span::from_secs(2);

/// Tasks of this machine, some of them on our runtime.
pub struct Runtime {
    base: Affinity,
    /// By task; `None` where no pulse is looked for.
    crowds: Vec<Option<Crowd>>,
    /// When threads were looked at.
    looked: Option<Time>,
}

/// A task's workers.
struct Crowd {
    workers: Workers<Program>,
    /// Processes that have no pulse: when they are looked at again, and how long after that.
    without: BTreeMap<u32, (Time, Span)>,
    /// Since when it has no core.
    bare_since: Option<Time>,
    /// Its longest wait since this was asked last.
    longest: Span,
}

/// A program that has a pulse.
struct Program {
    process: u32,
    /// When that began.
    began: u64,
    page: SharedPage,
}

impl Runtime {
    /// Takes tasks over at `now`.
    ///
    /// # Errors
    /// A task is not there or not ours to schedule; the others are put back.
    pub fn new(setup: Setup, now: Time) -> Result<Self, CoresError> {
        let workers = || Workers::new(setup.period);
        let crowd =
            || Crowd { workers: workers(), without: BTreeMap::new(), bare_since: None, longest: Span::ZERO };
        let crowds = setup.tasks.iter().map(|(_, task)| task.pulse.then(crowd)).collect();
        let mut runtime = Self { base: Affinity::new(setup, now)?, crowds, looked: None };
        runtime.find(now);
        Ok(runtime)
    }

    /// Looks for pulses of processes that are new, and forgets those of who has ended.
    fn find(&mut self, now: Time) {
        let ManagedTasks { tasks, journal, .. } = &mut self.base.taken;
        for (task, crowd) in tasks.iter().zip(&mut self.crowds) {
            let Some(crowd) = crowd else { continue };
            crowd
                .workers
                .retain(|program| proc::began(program.process, program.process) == Some(program.began));
            let processes: Vec<u32> = task.processes().collect();
            crowd.without.retain(|process, _| processes.contains(process));
            for process in processes {
                crowd.find(now, process, journal);
            }
        }
    }

    /// The task's workers, if there are any yet.
    fn crowd(&mut self, task: TaskId) -> Option<&mut Crowd> {
        self.crowds[task.index()].as_mut().filter(|crowd| !crowd.workers.is_empty())
    }

    /// Cores on which `task` may have a worker each.
    fn cores(&self, task: TaskId) -> usize {
        let own = |given: &&CoreOwner| match **given {
            CoreOwner::Run(who) | CoreOwner::Keep(who) => who == task,
            CoreOwner::Shared => true,
            CoreOwner::Open => false,
        };
        let (specs, given) = (&self.base.taken.specs, &self.base.given);
        let least = match specs[task.index()].is_critical() {
            true => 1,
            false if are_all_critical(specs, given) => given.len(),
            false => 0,
        };
        given.iter().filter(own).count().max(least)
    }

    /// What the task's workers tell.
    fn hear(&mut self, now: Time, task: TaskId, signals: &mut Signals) {
        let cores = self.cores(task);
        let Some(crowd) = self.crowd(task) else { return };
        let told = crowd.workers.sense(now);
        crowd.longest = crowd.longest.max(told.delay);
        let seen = &mut signals.tasks[task.index()];
        (seen.delay, seen.runnable) = (told.delay, told.runnable);
        if seen.late || told.runnable as usize >= cores {
            self.base.quiet_since[task.index()] = now;
        } else if let Some(core) = self.base.gives_back(now, task) {
            signals.cores[core].yielded = Some(task);
        }
        let Some(crowd) = &self.crowds[task.index()] else { return };
        for ((core, given), number) in
            signals.cores.iter_mut().zip(&self.base.given).zip(self.base.taken.layout.cores())
        {
            if matches!(given, CoreOwner::Run(who) | CoreOwner::Keep(who) if *who == task) {
                core.request_since = crowd.workers.request_since(*number);
            }
        }
    }

    /// Lets the task have its cores.
    fn place(&mut self, now: Time, task: TaskId) {
        let (mask, cores) = (self.base.mask(task), self.cores(task));
        if let Some(crowd) = self.crowd(task) {
            crowd.workers.act(cores);
            let since = *crowd.bare_since.get_or_insert(now);
            if mask.is_some() {
                crowd.bare_since = None;
            } else if now.since(since) < GRACE || !crowd.workers.is_running() {
                return;
            }
        }
        self.base.taken.tasks[task.index()].place(mask);
    }
}

impl Crowd {
    /// Looks whether `process` has a pulse, if it is time to.
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

    /// `process`, if it has a pulse of its own.
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
        let is_due = self.looked.is_none_or(|looked| now.since(looked) >= LOOK);
        if is_due {
            self.looked = Some(now);
        }
        for number in 0..self.crowds.len() {
            let task = TaskId(number as u16);
            let tells = self.crowd(task).is_some();
            match (tells, is_due) {
                (false, true) => self.base.look(now, number, signals),
                // What was seen has been acted on.
                (false, false) => {
                    signals.tasks[number].delay = Span::ZERO;
                    signals.tasks[number].late = false;
                }
                (true, _) => {
                    if is_due {
                        // For the figures alone.
                        self.base.taken.tasks[number].look(now, Span::MAX);
                    }
                    self.hear(now, task, signals);
                }
            }
        }
        self.base.looked(now, signals);
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        actions.iter().for_each(|&action| self.base.note(now, action));
        for place in 0..self.base.order.len() {
            self.place(now, self.base.order[place]);
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
        self.crowd(task).map_or(of_threads, |crowd| std::mem::take(&mut crowd.longest))
    }

    fn workers(&self, task: TaskId) -> Option<(usize, usize)> {
        let crowd = self.crowds[task.index()].as_ref().filter(|crowd| !crowd.workers.is_empty())?;
        Some((crowd.workers.len(), crowd.workers.parked()))
    }

    fn is_parked(&self, task: TaskId) -> bool {
        let is_asked = |crowd: &Crowd| crowd.workers.parked() > 0 && !crowd.workers.is_running();
        self.taken().of(task).is_parked() || self.crowds[task.index()].as_ref().is_some_and(is_asked)
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
