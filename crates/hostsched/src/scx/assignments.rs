//! Core assignments as decided, as written to shared memory, and as observed.
//!
//! A decision is written at once and its core kicked. A core that has not read it by the next round is
//! kicked again. A core that idles while its task waits is kicked again at growing intervals, because
//! another class may hold it for long.

use queueing::{CoreId, Span, Time};
use sched::cores::affinity::CoreOwner;
use sched::cores::{Action, Signals, TaskId};

use super::Kernel;
use super::shared_layout::{Core, Kick};
use super::threads::Threads;

/// Interval between kicks of a core that does not run its owner yet: the first, and the maximum.
const KICK_INTERVAL: Span = Span::from_micros(50);
const KICK_INTERVAL_MAX: Span = Span::from_millis(10);
/// Time for which a core is lent to a task that has none and is not frozen.
const LEND: Span = Span::from_millis(20);

/// All managed cores, by policy number.
#[derive(Debug)]
pub struct Grants {
    /// Linux's numbers.
    numbers: Vec<u32>,
    given: Vec<CoreOwner>,
    /// Time of the last change of owner.
    since: Vec<Time>,
    /// Time of the last kick, and the wait until the next.
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
    /// No core has an owner; a task without work for `calm` gives a core back.
    pub fn new(cores: &[CoreId], calm: Span, now: Time) -> Self {
        Self {
            numbers: cores.iter().map(|core| u32::from(core.0)).collect(),
            given: vec![CoreOwner::Open; cores.len()],
            since: vec![now; cores.len()],
            kicked: vec![(now, KICK_INTERVAL); cores.len()],
            calm,
            lent: None,
            asked: Vec::with_capacity(cores.len()),
        }
    }

    /// Owners by core.
    pub fn given(&self) -> &[CoreOwner] {
        &self.given
    }

    /// True if `task` has a core.
    pub fn has_any(&self, task: TaskId) -> bool {
        self.given.iter().any(|given| runs(*given) == Some(task))
    }

    /// Next core whose counter was requested; removes the request.
    pub fn next_sample(&mut self) -> Option<CoreId> {
        self.asked.pop()
    }

    /// Records a decision.
    pub fn note(&mut self, now: Time, action: Action) {
        let (core, given) = CoreOwner::of(action);
        let Some(given) = given else { return self.asked.push(core) };
        self.given[core.0 as usize] = given;
        self.since[core.0 as usize] = now;
    }

    /// Task to run on `core`: its owner, or the task it is lent to.
    fn task(&self, core: usize) -> Option<TaskId> {
        let lent = self.lent.filter(|lent| lent.core == core);
        lent.map_or_else(|| runs(self.given[core]), |lent| Some(lent.task))
    }

    /// Writes the decisions, and kicks the cores that change.
    pub fn write(&mut self, now: Time, kernel: &dyn Kernel, tasks: usize) {
        let mut kick = Kick::default();
        for core in 0..self.numbers.len() {
            let (words, task) = (&kernel.cores()[self.numbers[core] as usize], self.task(core));
            if words.wanted().task() != task {
                words.want(words.wanted().next(task));
                self.kicked[core] = (now, KICK_INTERVAL);
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
        // After an error the cores are kicked again.
        let _ = kernel.kick(&kick);
    }

    /// Reports cores that have had no work for long.
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

    /// Lends `task` a core for a moment, preferably one without LC (`critical`).
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

    /// Takes lent cores back, and kicks cores that do not run their owner yet.
    pub fn kick_stale(&mut self, now: Time, kernel: &dyn Kernel, threads: &Threads) {
        self.lent = self.lent.filter(|lent| now < lent.until && threads.load(lent.task).waiting > 0);
        self.write(now, kernel, threads.tasks());
        let mut kick = Kick::default();
        for core in 0..self.numbers.len() {
            let words = &kernel.cores()[self.numbers[core] as usize];
            let (wanted, runs) = (words.wanted(), words.runs());
            let waits = |task: TaskId| threads.load(task).waiting > 0;
            let is_deaf = words.seen() != wanted || runs.is_some_and(|runs| Some(runs) != wanted.task());
            let is_asleep = runs.is_none()
                && wanted.task().is_some_and(waits)
                && now.since(words.since()) > KICK_INTERVAL;
            let (last, interval) = &mut self.kicked[core];
            if !is_deaf && !is_asleep {
                *interval = KICK_INTERVAL;
            } else if now.since(*last) >= *interval {
                (*last, *interval) = (now, (*interval * 2).min(KICK_INTERVAL_MAX));
                kick.add(self.numbers[core]);
            }
        }
        if !kick.is_empty() {
            let _ = kernel.kick(&kick);
        }
    }
}

/// Task whose threads run on a core with this owner.
fn runs(given: CoreOwner) -> Option<TaskId> {
    match given {
        CoreOwner::Run(task) | CoreOwner::Keep(task) => Some(task),
        CoreOwner::Open | CoreOwner::Shared => None,
    }
}
