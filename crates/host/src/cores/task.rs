//! A task: programs that the kernel knows as processes and threads.
//!
//! Membership is looked up anew every [`RESCAN`]; what a thread starts has its
//! class, cores and folder from the kernel at once, so nobody escapes in
//! between. A thread is noted in the journal before anything of it is changed.
//! Threads that end are forgotten at the next look.

use std::collections::{BTreeMap, BTreeSet};

use queueing::{Span, Time};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::cgroups::Group;
use super::sched_policy::SchedPolicy;
use super::undo_log::{Journal, pid};
use super::{CoresError, TaskSelector};
use crate::proc::{self, Account, Ledger};

mod adopt;
mod task_cgroups;

use adopt::InheritedState;
pub(super) use task_cgroups::OURS;
pub use task_cgroups::group_path;

/// How often members are looked up.
pub const RESCAN: Span = Span::from_millis(50);
/// Who did nothing for so long has no work.
const ACTIVE: Span = Span::from_millis(100);
/// An account is brought up to date at a tick at the latest, of 10 ms at most. LC whose account stands still for
/// longer sleeps, or waits for a core all the time, which the account tells only afterwards: it is
/// asked, and again after as long.
const STILL: Span = Span::from_millis(12);
/// Threads of one task that are watched; more are counted, run in the task's class and
/// on its cores by inheritance, and are seen when others end.
const THREADS_MAX: usize = 4096;
/// How often threads are asked whether they sleep now and then.
const WEIGH: Span = Span::from_millis(10);
/// Real-time threads that were awake for more of that time are so no more,
const BUSY: f64 = 0.8;
/// until they are for less than this part.
const CALM: f64 = 0.5;

/// A task at work.
#[derive(Debug)]
pub struct Managed {
    number: usize,
    critical: bool,
    /// What its threads become here, LC's if they were in the fair class; whoever asks for [`take_fresh`](Managed::take_fresh) does it instead.
    class: Option<SchedPolicy>,
    who: TaskSelector,
    /// When the first process began, where it is known by number.
    began: Option<u64>,
    /// Where its members are, if they have a folder of their own.
    group: Option<Group>,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Threads that cannot be watched or noted, and were counted.
    unwatched: BTreeSet<(u32, u32)>,
    /// Threads that the last scan found.
    fresh: Vec<u32>,
    /// The cores it may run on, once it was told.
    cores: Option<CpuSet>,
    /// What those that are born have from us.
    legacy: InheritedState,
    parked: bool,
    /// Its control group was frozen before it was taken over: it stays as it is.
    is_held: bool,
    ended: bool,
    /// A thread could not become real-time.
    stays_fair: bool,
    /// When threads were asked last whether they sleep now and then.
    weighed: Time,
    figures: Figures,
}

#[derive(Debug)]
struct Thread {
    ledger: Ledger,
    last: Account,
    /// When its account changed last.
    changed: Time,
    /// When it was asked last whether it waits, and whether it did.
    asked: Time,
    waits: bool,
    /// LC's, where it may be real-time: the class to go back to, whether it is, and for how long it had been
    /// awake when it was weighed last.
    fair: Option<SchedPolicy>,
    urgent: bool,
    weighed_ns: u64,
}

/// What a task did, since it was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nanoseconds on cores, all threads together.
    pub ran_ns: u64,
    /// Nanoseconds runnable without one.
    pub waited_ns: u64,
    /// How often one of them got a core.
    pub turns: u64,
    /// Its longest wait of a round since `Managed::take_longest`: the mean of a thread's waits.
    pub longest: Span,
    /// Threads that are watched.
    pub threads: usize,
    /// Threads or processes that could not be scheduled or watched.
    pub refused: u64,
}

/// What a look at a task found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// The longest of its threads' mean waits for a core in this round.
    pub delay: Span,
    /// Threads whose wait was longer than what was asked about.
    pub waiting: u32,
    /// Threads that did anything of late.
    pub active: u32,
}

impl Managed {
    /// Takes task `number` over: notes how it is, and puts its threads into `class`, if any.
    ///
    /// # Errors
    /// It is not there, or we have no right to.
    pub fn take(
        number: usize,
        critical: bool,
        class: Option<SchedPolicy>,
        who: TaskSelector,
        now: Time,
        journal: &mut Journal,
    ) -> Result<Self, CoresError> {
        who.check(critical)?;
        who.check_free()?;
        let began = match who {
            TaskSelector::Process(id) | TaskSelector::Child(id) => proc::began(id, id),
            TaskSelector::Group(_) => None,
        };
        let mut task = Self {
            number,
            critical,
            class,
            who,
            began,
            group: None,
            threads: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            fresh: Vec::new(),
            cores: None,
            legacy: InheritedState::default(),
            parked: false,
            is_held: false,
            ended: false,
            stays_fair: false,
            weighed: now,
            figures: Figures::default(),
        };
        task.gather(journal)?;
        task.scan(now, journal);
        Ok(task)
    }

    /// Who computes without end would keep others waiting, the kernel's own threads and, since
    /// equals take turns of 100 ms, threads of its own task: only who sleeps now and then is real-time.
    fn weigh(&mut self, now: Time) {
        let elapsed = now.since(self.weighed).as_nanos() as f64;
        self.weighed = now;
        for (&(_, id), thread) in &mut self.threads {
            let Some(fair) = thread.fair else { continue };
            // Who waits for a core sleeps as little as who has it.
            let awake_ns = thread.last.ran_ns + thread.last.waited_ns;
            let busy = awake_ns.saturating_sub(thread.weighed_ns) as f64 / elapsed;
            thread.weighed_ns = awake_ns;
            let (is, becomes) = match (busy, thread.urgent) {
                (busy, true) if busy > BUSY => (SchedPolicy::URGENT, fair),
                (busy, false) if busy < CALM => (fair, SchedPolicy::URGENT),
                _ => continue,
            };
            // Another class is the program's own doing.
            if SchedPolicy::of(pid(id)).is_ok_and(|class| class == is) && becomes.set(pid(id)).is_ok() {
                thread.urgent = !thread.urgent;
            }
        }
    }

    /// Its processes, as the last scan found them, each once.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        let mut last = None;
        let processes = self.threads.keys().map(|&(process, _)| process);
        processes.filter(move |&process| last.replace(process) != Some(process))
    }

    /// Threads that the last scan found.
    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    /// Reads all accounts; `longer` is the wait from which a thread counts as waiting.
    pub fn look(&mut self, now: Time, longer: Span) -> ScanResult {
        let mut look = ScanResult::default();
        let (figures, parked, critical) = (&mut self.figures, self.parked, self.critical);
        self.threads.retain(|&(process, id), thread| {
            if !parked {
                let Some(account) = thread.ledger.read() else { return false };
                let ran = account.ran_ns.saturating_sub(thread.last.ran_ns);
                let waited = account.waited_ns.saturating_sub(thread.last.waited_ns);
                let turns = account.turns.saturating_sub(thread.last.turns);
                if account != thread.last {
                    (thread.changed, thread.waits) = (now, false);
                } else if critical && now.since(thread.changed.max(thread.asked)) >= STILL {
                    (thread.asked, thread.waits) = (now, proc::is_runnable(process, id));
                }
                thread.last = account;
                let so_far = if thread.waits { now.since(thread.changed) } else { Span::ZERO };
                let delay = Span::from_nanos(waited.checked_div(turns).unwrap_or(0)).max(so_far);
                look.delay = look.delay.max(delay);
                look.waiting += u32::from(delay > longer);
                figures.ran_ns += ran;
                figures.waited_ns += waited;
                figures.turns += turns;
            }
            look.active += u32::from(parked || now.since(thread.changed) <= ACTIVE);
            true
        });
        if parked {
            // Nobody counts as idle for having been stopped.
            self.threads.values_mut().for_each(|thread| thread.changed = now);
        }
        self.figures.longest = self.figures.longest.max(look.delay);
        if critical && now.since(self.weighed) >= WEIGH {
            self.weigh(now);
        }
        look
    }

    /// Lets it run on `cores`, or parks it.
    pub fn place(&mut self, cores: Option<CpuSet>) {
        let park = cores.is_none();
        if park != self.parked && (self.parked || self.can_park()) {
            match self.group.as_ref().map(|group| group.freeze(park)) {
                Some(Ok(())) => self.parked = park,
                _ => self.figures.refused += 1,
            }
        }
        let Some(cores) = cores.filter(|cores| self.cores != Some(*cores)) else { return };
        self.cores = Some(cores);
        self.place_again();
    }

    /// Lets every thread run where its task may, whatever it has chosen since.
    pub fn place_again(&mut self) {
        let Some(cores) = self.cores else { return };
        let mut has = None;
        for &(_, thread) in self.threads.keys() {
            let id = pid(thread);
            match sched_setaffinity(id, &cores) {
                // The kernel leaves out what a cpuset forbids.
                Ok(()) => has = has.or_else(|| sched_getaffinity(id).ok()),
                Err(_) => self.figures.refused += u64::from(SchedPolicy::of(id).is_ok()),
            }
        }
        self.legacy.let_on(has.unwrap_or(cores));
    }

    /// Whether it can be stopped when it has no core.
    #[must_use]
    pub fn can_park(&self) -> bool {
        !self.critical && !self.is_held && self.group.as_ref().is_some_and(Group::can_freeze)
    }

    /// Whether it was to be real-time and may not.
    #[must_use]
    pub const fn stays_fair(&self) -> bool {
        self.stays_fair
    }

    /// Whether it is stopped.
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        self.parked
    }

    /// Whether nobody of it is left, and nobody can come: a folder that is there may fill again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.who {
            TaskSelector::Group(path) => self.ended && !path.exists(),
            TaskSelector::Process(_) | TaskSelector::Child(_) => self.ended,
        }
    }

    /// What it did.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Its longest wait since this was asked last.
    pub fn take_longest(&mut self) -> Span {
        std::mem::take(&mut self.figures.longest)
    }
}
