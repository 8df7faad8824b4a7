//! Which core is whose, as it was decided, as it is written, and as it was seen.
//!
//! A decision is written at once and its core kicked. A core that has not looked
//! when the next round comes is kicked again, and so is one that idles while its
//! task waits, less and less often: another class may have it for long.

use queueing::{CoreId, Span, Time};
use sched::cores::{Action, Signals, TaskId};

use super::Kernel;
use super::shared_layout::{Core, Kick};
use super::threads::Threads;
use crate::cores::cpumask::CoreOwner;

/// From kick to kick of a core that does not do as it is told: at first, and at most.
const PATIENCE: Span = Span::from_micros(50);
const PATIENCE_MAX: Span = Span::from_millis(10);
/// Who is stopped, or cannot be, has a core for so long.
const LEND: Span = Span::from_millis(20);

/// All managed cores, by the policy's numbers.
#[derive(Debug)]
pub struct Grants {
    /// Linux's numbers.
    numbers: Vec<u32>,
    given: Vec<CoreOwner>,
    /// Since when it is given so.
    since: Vec<Time>,
    /// When it was kicked last, and how long it is let be then.
    kicked: Vec<(Time, Span)>,
    calm: Span,
    lent: Option<Lent>,
    asked: Vec<CoreId>,
}

#[derive(Clone, Copy, Debug)]
struct Lent {
    core: usize,
    task: TaskId,
    until: Time,
}

impl Grants {
    /// Nobody has any of `cores`; who has no work for `calm` gives a core back.
    pub fn new(cores: &[CoreId], calm: Span, now: Time) -> Self {
        Self {
            numbers: cores.iter().map(|core| u32::from(core.0)).collect(),
            given: vec![CoreOwner::Open; cores.len()],
            since: vec![now; cores.len()],
            kicked: vec![(now, PATIENCE); cores.len()],
            calm,
            lent: None,
            asked: Vec::with_capacity(cores.len()),
        }
    }

    /// Who has which.
    pub fn given(&self) -> &[CoreOwner] {
        &self.given
    }

    /// Whether `task` has a core.
    pub fn has_any(&self, task: TaskId) -> bool {
        self.given.iter().any(|given| runs(*given) == Some(task))
    }

    /// A core whose counter was asked for, and is not any more.
    pub fn next_asked(&mut self) -> Option<CoreId> {
        self.asked.pop()
    }

    /// A decision.
    pub fn note(&mut self, now: Time, action: Action) {
        let (core, given) = CoreOwner::of(action);
        let Some(given) = given else { return self.asked.push(core) };
        self.given[core.0 as usize] = given;
        self.since[core.0 as usize] = now;
    }

    /// Who is to run on `core`: as it was decided, or to whom it is lent.
    fn task(&self, core: usize) -> Option<TaskId> {
        let lent = self.lent.filter(|lent| lent.core == core);
        lent.map_or_else(|| runs(self.given[core]), |lent| Some(lent.task))
    }

    /// Writes what was decided, and kicks the cores that it changes.
    pub fn write(&mut self, now: Time, kernel: &dyn Kernel, tasks: usize) {
        let mut kick = Kick::default();
        for core in 0..self.numbers.len() {
            let (words, task) = (&kernel.cores()[self.numbers[core] as usize], self.task(core));
            if words.wanted().task() != task {
                words.want(words.wanted().next(task));
                self.kicked[core] = (now, PATIENCE);
                kick.add(self.numbers[core]);
            }
        }
        if kick.is_empty() {
            return;
        }
        for task in 0..tasks {
            let its = (0..self.numbers.len()).filter(|&core| self.task(core) == Some(TaskId(task as u16)));
            kernel.tasks()[task].set(its.map(|core| self.numbers[core]));
        }
        // Should it fail, the cores are kicked again.
        let _ = kernel.kick(&kick);
    }

    /// Notes which cores have had no work for long.
    pub fn give_back(&mut self, now: Time, cores: &[Core], threads: &Threads, signals: &mut Signals) {
        for (core, signal) in signals.cores.iter_mut().enumerate() {
            let CoreOwner::Run(task) = self.given[core] else { continue };
            let words = &cores[self.numbers[core] as usize];
            let idle_since = words.since().max(self.since[core]);
            let is_lent = self.lent.is_some_and(|lent| lent.core == core);
            if words.runs().is_none()
                && threads.load(task).waiting == 0
                && !signals.tasks[task.index()].late
                && now.since(idle_since) >= self.calm
                && !is_lent
            {
                signal.yielded = Some(task);
                self.given[core] = CoreOwner::Open;
                self.since[core] = now;
            }
        }
    }

    /// Gives `task` a core for a moment: one that LC (`critical`) has not, if there is any.
    pub fn lend(&mut self, now: Time, task: TaskId, critical: impl Fn(TaskId) -> bool) {
        if self.lent.is_some() {
            return;
        }
        let is_free = |core: &usize| !runs(self.given[*core]).is_some_and(&critical);
        let all = 0..self.numbers.len();
        if let Some(core) = all.clone().rfind(is_free).or(all.last()) {
            self.lent = Some(Lent { core, task, until: now + LEND });
        }
    }

    /// Takes back what was lent, and kicks whoever does not do as he was told.
    pub fn insist(&mut self, now: Time, kernel: &dyn Kernel, threads: &Threads) {
        self.lent = self.lent.filter(|lent| now < lent.until && threads.load(lent.task).waiting > 0);
        self.write(now, kernel, threads.tasks());
        let mut kick = Kick::default();
        for core in 0..self.numbers.len() {
            let words = &kernel.cores()[self.numbers[core] as usize];
            let (wanted, runs) = (words.wanted(), words.runs());
            let waits = |task: TaskId| threads.load(task).waiting > 0;
            let is_deaf = words.seen() != wanted || runs.is_some_and(|runs| Some(runs) != wanted.task());
            let is_asleep =
                runs.is_none() && wanted.task().is_some_and(waits) && now.since(words.since()) > PATIENCE;
            let (last, patience) = &mut self.kicked[core];
            if !is_deaf && !is_asleep {
                *patience = PATIENCE;
            } else if now.since(*last) >= *patience {
                (*last, *patience) = (now, (*patience * 2).min(PATIENCE_MAX));
                kick.add(self.numbers[core]);
            }
        }
        if !kick.is_empty() {
            let _ = kernel.kick(&kick);
        }
    }
}

/// Whose threads run on a core given so.
fn runs(given: CoreOwner) -> Option<TaskId> {
    match given {
        CoreOwner::Run(task) | CoreOwner::Keep(task) => Some(task),
        CoreOwner::Open | CoreOwner::Shared => None,
    }
}
