//! A managed task: processes and threads.
//!
//! Membership is rescanned every [`RESCAN`], and less often the more processes there are. The kernel
//! gives a child its parent's class, cores and cgroup, so no thread escapes in between. A thread is
//! recorded in the undo log before it is changed. Ended threads are forgotten at the next scan.
//!
//! Accounts of threads that ran lately are read in every round; those of sleeping threads take turns,
//! [`SLEEPERS`] a round. So the cost follows the threads that run, not those that exist.

use std::collections::{BTreeMap, BTreeSet};

use queueing::{Span, Time};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sched::cores::affinity::ThreadSample;

use super::cgroups::Group;
use super::real_time::{CHECK, Level, RealTime};
use super::undo_log::{Journal, pid};
use super::{CoresError, Protected, TaskSelector};
use host::proc::{self, Account, Ledger};
use host::sched_policy::SchedPolicy;

mod adopt;
mod freezer_watch;
mod standstill;
mod task_cgroups;

use adopt::{InheritedState, Schedule};
pub(super) use adopt::{Stranger, StrangerCheck};
use freezer_watch::FreezerWatch;
use standstill::Standstill;
pub(super) use task_cgroups::OURS;
pub use task_cgroups::group_path;

/// Interval between scans for members.
pub const RESCAN: Span = Span::from_millis(50);
/// Idle time after which a thread counts as without work.
const ACTIVE: Span = Span::from_millis(100);
/// Maximum of watched threads per task, since each takes an open file. More have the task's class and
/// cores as well, are counted, and are watched once others end.
const WATCHED_MAX: usize = 4096;
/// Number of sleeping threads whose accounts are read in a round.
const SLEEPERS: usize = 8;
/// A task under management.
#[derive(Debug)]
pub struct Managed {
    number: usize,
    critical: bool,
    /// Class that its threads get here (LC: those of the fair class). With `None`, the caller of
    /// [`take_fresh`](Managed::take_fresh) sets it instead.
    class: Option<SchedPolicy>,
    selector: TaskSelector,
    /// Start time of the first process, if the task is given by process ID.
    began: Option<u64>,
    /// Group of its members, if they have one of their own.
    group: Option<Group>,
    /// Writes by others to the group's freezer file.
    watch: FreezerWatch,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Watched threads that ran or waited within [`ACTIVE`].
    awake: BTreeSet<(u32, u32)>,
    /// The sleeping thread that was read last.
    cursor: (u32, u32),
    /// Members that cannot be recorded, and were counted.
    unrecorded: BTreeSet<(u32, u32)>,
    /// Processes in its group that no task may contain or that another task contains, each with the
    /// reason, and whether it was there at two scans.
    strangers: BTreeMap<u32, (Stranger, bool)>,
    schedule: Schedule,
    /// Threads found by the last scan.
    fresh: Vec<u32>,
    /// Cores on which the task may run, once they were set.
    cores: Option<CpuSet>,
    /// State that new threads inherit from us.
    legacy: InheritedState,
    parked: bool,
    /// True while an operator has its control group frozen: it is neither thawed nor parked.
    is_held: bool,
    ended: bool,
    /// True if a thread could not become real-time.
    lacks_real_time: bool,
    /// Time at which the levels of threads were last checked.
    checked: Time,
    /// True if its threads are behind those of other LC tasks.
    is_behind: bool,
    /// True if a busy thread waited for a core at that check.
    busy_wait: bool,
    figures: Figures,
}

#[derive(Debug)]
struct Thread {
    /// CPU account of the thread; `None` if it is not watched.
    ledger: Option<Ledger>,
    last: Account,
    still: Standstill,
    /// State for threads of LC tasks that may be real-time.
    real_time: Option<RealTimeThread>,
}

/// A real-time thread.
#[derive(Debug)]
struct RealTimeThread {
    /// The class to return to.
    fair: SchedPolicy,
    rule: RealTime,
    /// Level whose scheduling class the thread has.
    level: Level,
}

impl RealTimeThread {
    /// Gives `thread` the class of `level`, unless the program has set one itself.
    fn set(&mut self, thread: u32, level: Level) {
        let (is, becomes, id) = (self.level.class(self.fair), level.class(self.fair), pid(thread));
        if is != becomes && SchedPolicy::of(id).is_ok_and(|class| class == is) && becomes.set(id).is_ok() {
            self.level = level;
        }
    }
}

/// Figures of a task since it was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Nanoseconds on cores, all threads together.
    pub ran_ns: u64,
    /// Nanoseconds runnable without a core.
    pub waited_ns: u64,
    /// Number of times that a thread of the task got a core.
    pub turns: u64,
    /// Longest wait of a round since `Managed::take_longest`: the mean of a thread's waits.
    pub longest: Span,
    /// Threads that are managed.
    pub threads: usize,
    /// Managed threads whose waits are not read.
    pub unwatched: usize,
    /// Threads in its control group that are not managed.
    pub unmanaged: usize,
    /// Threads or processes that could not be scheduled.
    pub refused: u64,
}

impl Managed {
    /// Takes task `number` over: records its state, and puts its threads into `class`, if any.
    ///
    /// # Errors
    /// The process or group does not exist, or there is no permission.
    pub fn take(
        number: usize,
        critical: bool,
        class: Option<SchedPolicy>,
        selector: TaskSelector,
        now: Time,
        journal: &mut Journal,
        stranger: &StrangerCheck<'_>,
    ) -> Result<Self, CoresError> {
        selector.check(critical)?;
        selector.check_free()?;
        let began = match selector {
            TaskSelector::Process(id) | TaskSelector::Child(id) => proc::began(id, id),
            TaskSelector::Group(_) => None,
        };
        let mut task = Self {
            number,
            critical,
            class,
            selector,
            began,
            group: None,
            watch: FreezerWatch::default(),
            threads: BTreeMap::new(),
            awake: BTreeSet::new(),
            cursor: (0, 0),
            unrecorded: BTreeSet::new(),
            strangers: BTreeMap::new(),
            schedule: Schedule::from(now),
            fresh: Vec::new(),
            cores: None,
            legacy: InheritedState::default(),
            parked: false,
            is_held: false,
            ended: false,
            lacks_real_time: false,
            checked: now,
            is_behind: false,
            busy_wait: false,
            figures: Figures::default(),
        };
        task.gather(journal)?;
        task.scan(now, journal, stranger);
        Ok(task)
    }

    /// Puts its threads behind those of other LC tasks, or back; threads that sleep follow at their next
    /// check.
    pub fn set_behind(&mut self, is_behind: bool) {
        if std::mem::replace(&mut self.is_behind, is_behind) == is_behind {
            return;
        }
        for id in &self.awake {
            let real_time = self.threads.get_mut(id).and_then(|thread| thread.real_time.as_mut());
            let Some(real_time) = real_time else { continue };
            real_time.set(id.1, real_time.rule.level().behind(is_behind));
        }
    }

    /// Gives threads the class of their level. `others_wait` is true if busy threads of other tasks wait
    /// for a core.
    fn set_levels(&mut self, now: Time, others_wait: bool) {
        (self.checked, self.busy_wait) = (now, false);
        for id in &self.awake {
            let Some(thread) = self.threads.get_mut(id) else { continue };
            let Some(real_time) = &mut thread.real_time else { continue };
            let level = real_time.rule.check(now, thread.last, || proc::is_runnable(id.0, id.1));
            real_time.set(id.1, level.behind(self.is_behind));
            self.busy_wait |= real_time.rule.waits();
        }
        if !self.busy_wait && !others_wait {
            return;
        }
        // The kernel's turns in this class are of 100 ms, longer than those of the fair class.
        for id in &self.awake {
            let Some(thread) = self.threads.get_mut(id) else { continue };
            let Some(real_time) = &mut thread.real_time else { continue };
            if real_time.rule.ends_turn() {
                real_time.set(id.1, Level::Yields);
                real_time.set(id.1, Level::Busy);
            }
        }
    }

    /// True if a busy thread of the task waits for a core.
    pub(super) const fn busy_wait(&self) -> bool {
        self.busy_wait
    }

    /// True for LC.
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        self.critical
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

    /// Reads the accounts that are due; a thread counts as waiting from a wait of `longer`. `others_wait`
    /// is true if busy threads of other tasks wait for a core.
    pub fn sample(&mut self, now: Time, longer: Span, others_wait: bool) -> ThreadSample {
        let mut result = ThreadSample::default();
        let mut ran_ns = 0;
        if self.parked {
            // A frozen thread does not count as idle.
            for id in &self.awake {
                self.threads.get_mut(id).into_iter().for_each(|thread| thread.still = Standstill::new(now));
            }
            result.active = u32::try_from(self.awake.len()).unwrap_or(u32::MAX).max(1);
            return result;
        }
        let sleepers = self.next_sleepers();
        // Reading the state of a thread takes ten times as long as reading its account.
        let mut asks_sleeper = true;
        let due: Vec<(u32, u32)> = self.awake.iter().copied().chain(sleepers).collect();
        for id in due {
            let is_awake = self.awake.contains(&id);
            let Some(thread) = self.threads.get_mut(&id) else { continue };
            let Some(account) = thread.ledger.as_ref().and_then(Ledger::read) else {
                self.threads.remove(&id);
                self.awake.remove(&id);
                continue;
            };
            let ran = account.ran_ns.saturating_sub(thread.last.ran_ns);
            let waited = account.waited_ns.saturating_sub(thread.last.waited_ns);
            let turns = account.turns.saturating_sub(thread.last.turns);
            if account != thread.last {
                thread.still = Standstill::new(now);
            } else if self.critical
                && thread.still.is_due(now)
                && (is_awake || std::mem::take(&mut asks_sleeper))
            {
                thread.still.check(now, proc::is_runnable(id.0, id.1));
            }
            thread.last = account;
            let delay = Span::from_nanos(waited.checked_div(turns).unwrap_or(0)).max(thread.still.wait(now));
            result.delay = result.delay.max(delay);
            result.waiting += u32::from(delay > longer);
            let figures = &mut self.figures;
            figures.ran_ns += ran;
            ran_ns += ran;
            figures.waited_ns += waited;
            figures.turns += turns;
            let is_active = now.since(thread.still.changed()) <= ACTIVE;
            result.active += u32::from(is_active);
            match is_active || thread.still.waits() {
                true => self.awake.insert(id),
                false => self.awake.remove(&id),
            };
        }
        result.ran = Span::from_nanos(ran_ns);
        self.figures.longest = self.figures.longest.max(result.delay);
        if self.critical && now.since(self.checked) >= CHECK {
            self.set_levels(now, others_wait);
        }
        result
    }

    /// Sleeping threads whose turn it is to be read.
    fn next_sleepers(&mut self) -> Vec<(u32, u32)> {
        use std::ops::Bound::{Excluded, Unbounded};
        // At most twice as many are passed over: awake threads are read anyway.
        let after = self.threads.range((Excluded(self.cursor), Unbounded));
        let all = after.chain(self.threads.range(..=self.cursor)).take(2 * SLEEPERS);
        let mut sleepers = Vec::with_capacity(SLEEPERS);
        let mut cursor = self.cursor;
        for (&id, thread) in all {
            cursor = id;
            if thread.ledger.is_some() && !self.awake.contains(&id) {
                sleepers.push(id);
            }
            if sleepers.len() == SLEEPERS {
                break;
            }
        }
        self.cursor = cursor;
        sleepers
    }

    /// Lets the task run on `cores`, or parks it. A task that sleeps is parked once it wakes up:
    /// the freezer would wake all of its threads, and each would count as active.
    pub fn place(&mut self, cores: Option<CpuSet>, protected: &Protected, journal: &mut Journal) {
        let sleeps = self.awake.is_empty() && self.figures.unwatched == 0;
        let park = cores.is_none() && (self.parked || !sleeps);
        if park != self.parked {
            self.park(park, protected, journal);
        }
        let Some(cores) = cores.filter(|cores| self.cores != Some(*cores)) else { return };
        self.cores = Some(cores);
        self.reset_affinity();
    }

    /// Resets every thread to the task's cores, whatever mask it has set itself since.
    pub fn reset_affinity(&mut self) {
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
        self.legacy.record_cores(has.unwrap_or(cores));
    }

    /// True if the task can be frozen when it has no core.
    #[must_use]
    pub fn can_park(&self) -> bool {
        !self.critical
            && !self.is_held
            && self.strangers.is_empty()
            && self.group.as_ref().is_some_and(Group::can_freeze)
    }

    /// True if the task should be real-time but lacks the permission.
    #[must_use]
    pub const fn lacks_real_time(&self) -> bool {
        self.lacks_real_time
    }

    /// True if the task is frozen.
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        self.parked
    }

    /// True if no process is left and none can come; an existing cgroup may fill again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.selector {
            TaskSelector::Group(path) => self.ended && !path.exists(),
            TaskSelector::Process(_) | TaskSelector::Child(_) => self.ended,
        }
    }

    /// Figures of the task.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Longest wait since the last call.
    pub fn take_longest(&mut self) -> Span {
        std::mem::take(&mut self.figures.longest)
    }
}
