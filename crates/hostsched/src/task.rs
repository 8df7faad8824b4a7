//! A managed task: processes and threads.
//!
//! Membership is rescanned every [`RESCAN`]. The kernel gives a child its parent's class, cores and
//! cgroup, so no thread escapes in between. A thread is recorded in the undo log before it is changed.
//! Ended threads are forgotten at the next scan.

use std::collections::{BTreeMap, BTreeSet};

use queueing::{Span, Time};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::cgroups::Group;
use super::undo_log::{Journal, pid};
use super::{CoresError, TaskSelector};
use host::proc::{self, Account, Ledger};
use host::sched_policy::SchedPolicy;

mod adopt;
mod task_cgroups;

use adopt::InheritedState;
pub(super) use task_cgroups::OURS;
pub use task_cgroups::group_path;

/// Interval between scans for members.
pub const RESCAN: Span = Span::from_millis(50);
/// Idle time after which a thread counts as without work.
const ACTIVE: Span = Span::from_millis(100);
/// The kernel updates a thread's CPU account every tick, of 10 ms at most. An LC thread whose account
/// stands still for longer sleeps, or waits for a core all the time, which the account shows only
/// afterwards: its state is read then, and again after the same time.
const STILL: Span = Span::from_millis(12);
/// Maximum of watched threads per task. More are counted. They inherit the task's class and cores, and
/// are watched once others end.
const THREADS_MAX: usize = 4096;
/// Interval at which threads are checked for regular sleep.
const WEIGH: Span = Span::from_millis(10);
/// Share of that time awake above which a thread stops being real-time,
const BUSY: f64 = 0.8;
/// and share below which it becomes real-time again.
const CALM: f64 = 0.5;

/// A task under management.
#[derive(Debug)]
pub struct Managed {
    number: usize,
    critical: bool,
    /// Class that its threads get here (LC: those of the fair class). With `None`, the caller of
    /// [`take_fresh`](Managed::take_fresh) sets it instead.
    class: Option<SchedPolicy>,
    who: TaskSelector,
    /// Start time of the first process, if the task is given by process number.
    began: Option<u64>,
    /// Group of its members, if they have one of their own.
    group: Option<Group>,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Threads that cannot be watched or recorded, and were counted.
    unwatched: BTreeSet<(u32, u32)>,
    /// Threads found by the last scan.
    fresh: Vec<u32>,
    /// Cores it may run on, once they were set.
    cores: Option<CpuSet>,
    /// State that new threads inherit from us.
    legacy: InheritedState,
    parked: bool,
    /// True if its control group was frozen before it was taken over; it stays frozen.
    is_held: bool,
    ended: bool,
    /// True if a thread could not become real-time.
    stays_fair: bool,
    /// When threads were last checked for regular sleep.
    weighed: Time,
    figures: Figures,
}

#[derive(Debug)]
struct Thread {
    ledger: Ledger,
    last: Account,
    /// When its account last changed.
    changed: Time,
    /// When its state was last read, and whether it waited.
    asked: Time,
    waits: bool,
    /// For LC that may be real-time: the class to return to, whether it is real-time, and its time
    /// awake at the last check.
    fair: Option<SchedPolicy>,
    urgent: bool,
    weighed_ns: u64,
}

/// Figures of a task since it was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nanoseconds on cores, all threads together.
    pub ran_ns: u64,
    /// Nanoseconds runnable without a core.
    pub waited_ns: u64,
    /// Number of times one of them got a core.
    pub turns: u64,
    /// Longest wait of a round since `Managed::take_longest`: the mean of a thread's waits.
    pub longest: Span,
    /// Threads that are watched.
    pub threads: usize,
    /// Threads or processes that could not be scheduled or watched.
    pub refused: u64,
}

/// Result of a look at a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// The longest of its threads' mean waits for a core in this round.
    pub delay: Span,
    /// Threads whose wait exceeded the given limit.
    pub waiting: u32,
    /// Threads that were active recently.
    pub active: u32,
}

impl Managed {
    /// Takes task `number` over: records its state, and puts its threads into `class`, if any.
    ///
    /// # Errors
    /// It does not exist; no permission.
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

    /// Makes only threads that sleep regularly real-time. A real-time thread that computes without end
    /// would starve others: the kernel's own threads and, with a time slice of 100 ms, threads of its
    /// own task.
    fn weigh(&mut self, now: Time) {
        let elapsed = now.since(self.weighed).as_nanos() as f64;
        self.weighed = now;
        for (&(_, id), thread) in &mut self.threads {
            let Some(fair) = thread.fair else { continue };
            // A thread that waits for a core sleeps as little as one that has it.
            let awake_ns = thread.last.ran_ns + thread.last.waited_ns;
            let busy = awake_ns.saturating_sub(thread.weighed_ns) as f64 / elapsed;
            thread.weighed_ns = awake_ns;
            let (is, becomes) = match (busy, thread.urgent) {
                (busy, true) if busy > BUSY => (SchedPolicy::URGENT, fair),
                (busy, false) if busy < CALM => (fair, SchedPolicy::URGENT),
                _ => continue,
            };
            // A different class was set by the program itself.
            if SchedPolicy::of(pid(id)).is_ok_and(|class| class == is) && becomes.set(pid(id)).is_ok() {
                thread.urgent = !thread.urgent;
            }
        }
    }

    /// Processes at the last scan, each once.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        let mut last = None;
        let processes = self.threads.keys().map(|&(process, _)| process);
        processes.filter(move |&process| last.replace(process) != Some(process))
    }

    /// Threads found by the last scan.
    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    /// Reads all accounts; a thread counts as waiting from a wait of `longer`.
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
            // A frozen thread does not count as idle.
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

    /// Resets every thread to the task's cores, whatever mask it has set itself since.
    pub fn place_again(&mut self) {
        let Some(cores) = self.cores else { return };
        let mut has = None;
        for &(_, thread) in self.threads.keys() {
            let id = pid(thread);
            match sched_setaffinity(id, &cores) {
                // The kernel leaves out cores that a cpuset forbids.
                Ok(()) => has = has.or_else(|| sched_getaffinity(id).ok()),
                Err(_) => self.figures.refused += u64::from(SchedPolicy::of(id).is_ok()),
            }
        }
        self.legacy.let_on(has.unwrap_or(cores));
    }

    /// True if it can be frozen when it has no core.
    #[must_use]
    pub fn can_park(&self) -> bool {
        !self.critical && !self.is_held && self.group.as_ref().is_some_and(Group::can_freeze)
    }

    /// True if it should be real-time but lacks the permission.
    #[must_use]
    pub const fn stays_fair(&self) -> bool {
        self.stays_fair
    }

    /// True if it is frozen.
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        self.parked
    }

    /// True if no process is left and none can come; an existing cgroup may fill again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.who {
            TaskSelector::Group(path) => self.ended && !path.exists(),
            TaskSelector::Process(_) | TaskSelector::Child(_) => self.ended,
        }
    }

    /// Figures.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Longest wait since the last call.
    pub fn take_longest(&mut self) -> Span {
        std::mem::take(&mut self.figures.longest)
    }
}
