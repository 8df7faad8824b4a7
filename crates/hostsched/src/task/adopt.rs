//! Scan for a task's members, and takeover of new ones.
//!
//! All threads of a scan are recorded before any is changed. The first scan therefore finds their
//! original state; later ones may find a state inherited from us.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use queueing::{Span, Time};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::TaskSelector;
use super::super::cgroups::Group;
use super::super::protected::Role;
use super::super::real_time::{Level, REGULAR, RealTime};
use super::super::undo_log::{InheritedMarks, Journal, pid};
use super::standstill::Standstill;
use super::{Managed, RESCAN, RealTimeThread, Thread, WATCHED_MAX};
use host::proc::{self, Ledger};
use host::sched_policy::SchedPolicy;

/// State that a task's threads have from us.
#[derive(Debug, Default)]
pub(super) struct InheritedState {
    /// True once the first threads were recorded: later ones may have inherited the state.
    begun: bool,
    /// Masks given to the threads, the latest last. A thread forked just before a scan may still have
    /// an earlier mask, so those are kept for one more scan.
    cores: Vec<CpuSet>,
    /// Index of the first mask since the last scan: the one that was effective at that scan.
    recent: usize,
}

/// Reason why a process in a task's group is not managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// No task may contain it.
    Protected(Role),
    /// It belongs to another task.
    OtherTask(String),
}

/// Check of a process; see [`Managed::scan`].
pub(crate) type StrangerCheck<'a> = dyn Fn(u32, bool) -> Option<Stranger> + 'a;

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected(role) => write!(f, "{role}"),
            Self::OtherTask(name) => write!(f, "part of task {name}"),
        }
    }
}

/// Times of the next scans, and the number of each process's threads at the last one.
///
/// A scan costs about 2 µs a process, and a list of threads 1 µs a thread, or 10 µs in a threaded group:
/// each is repeated after at least a hundred times as long.
#[derive(Debug)]
pub(super) struct Schedule {
    next: Time,
    next_full: Time,
    counts: BTreeMap<u32, u64>,
}

impl Schedule {
    /// The first scan is at `now`.
    pub(super) fn from(now: Time) -> Self {
        Self { next: now, next_full: now, counts: BTreeMap::new() }
    }

    /// Plans the scans after one at `now` that found this many.
    fn plan(&mut self, now: Time, is_full: bool, processes: usize, threads: usize) {
        self.next = now + (PER_PROCESS * processes as u64).max(RESCAN);
        if is_full {
            self.next_full = now + (PER_THREAD * threads as u64).max(FULL);
        }
    }
}

/// Interval between scans, by process and at least [`RESCAN`].
const PER_PROCESS: Span = Span::from_micros(200);
/// Interval between lists of the threads of processes with as many threads as before, by thread, and
/// the least.
const PER_THREAD: Span = Span::from_micros(200);
const FULL: Span = Span::from_millis(500);
/// The same in a threaded group, whose threads are asked for their processes.
const PER_GROUPED_THREAD: Span = Span::from_millis(1);
/// Threads that get a watch at a scan after others have ended.
const WATCHED_ANEW: usize = 64;

/// A thread that is recorded but not yet changed.
struct New {
    id: (u32, u32),
    class: SchedPolicy,
}

/// Threads found by a scan.
#[derive(Default)]
struct Found {
    threads: BTreeSet<(u32, u32)>,
    /// Processes with as many threads as before, which were not listed.
    same: BTreeSet<u32>,
    counts: BTreeMap<u32, u64>,
}

impl Managed {
    /// Scans for members if that is due, and takes new ones over. `stranger`, given a process and
    /// whether it was not there at the last scan, tells why it must not be managed here.
    pub fn scan(&mut self, now: Time, journal: &mut Journal, stranger: &StrangerCheck<'_>) {
        self.fresh.clear();
        self.adopt_operator_state(journal);
        if now < self.schedule.next {
            return;
        }
        let is_full = now >= self.schedule.next_full;
        let found = self.find(is_full);
        self.ended = found.counts.is_empty();
        let mut strangers = BTreeMap::new();
        for &process in found.counts.keys() {
            let is_new = !self.schedule.counts.contains_key(&process);
            let is_stranger = self.strangers.contains_key(&process);
            if let Some(reason) = stranger(process, is_new || is_stranger) {
                let is_known = self.strangers.get(&process).is_some_and(|known| known.0 == reason);
                strangers.insert(process, (reason, is_known));
            }
        }
        self.strangers = strangers;
        let is_ours = |id: &(u32, u32)| !self.strangers.contains_key(&id.0);
        let missing = found.threads.iter().copied().filter(is_ours);
        let missing: Vec<_> = missing.filter(|id| !self.threads.contains_key(id)).collect();
        let new: Vec<New> = missing.into_iter().filter_map(|id| self.note(id, journal)).collect();
        let mut room = WATCHED_MAX.saturating_sub(self.watched());
        new.into_iter().for_each(|new| self.adopt(now, new, &mut room));
        let strangers = &self.strangers;
        let is_there = |id: &(u32, u32)| {
            !strangers.contains_key(&id.0) && (found.same.contains(&id.0) || found.threads.contains(id))
        };
        if !found.threads.is_empty() || found.counts.len() != self.schedule.counts.len() {
            self.threads.retain(|id, _| is_there(id));
            self.awake.retain(is_there);
            self.unrecorded.retain(is_there);
        }
        self.legacy.after_scan();
        self.watch_more();
        self.figures.threads = self.threads.len();
        self.figures.unwatched = self.threads.len() - self.watched();
        let stranger_threads =
            self.strangers.keys().filter_map(|process| found.counts.get(process)).sum::<u64>();
        self.figures.unmanaged = self.unrecorded.len() + stranger_threads as usize;
        self.schedule.plan(now, is_full, found.counts.len(), self.threads.len());
        if self.group.as_ref().is_some_and(Group::is_threaded) {
            self.schedule.next = now + (PER_GROUPED_THREAD * self.threads.len() as u64).max(RESCAN);
        }
        self.schedule.counts = found.counts;
        if self.parked && (self.threads.is_empty() || !self.strangers.is_empty()) {
            self.thaw(journal);
        }
    }

    /// Lists members: all threads if `is_full`, else those of processes with more or fewer threads.
    fn find(&self, is_full: bool) -> Found {
        let mut found = Found::default();
        if let Some(group) = self.group.as_ref().filter(|group| group.is_threaded()) {
            for id in group.threads() {
                *found.counts.entry(id.0).or_default() += 1;
                found.threads.insert(id);
            }
            return found;
        }
        for process in self.members() {
            let Some(count) = proc::thread_count(process) else { continue };
            let is_same = self.schedule.counts.get(&process) == Some(&count);
            if is_same && !is_full && !self.strangers.contains_key(&process) {
                found.same.insert(process);
            } else {
                found.threads.extend(proc::threads(process).map(|thread| (process, thread)));
            }
            found.counts.insert(process, count);
        }
        found
    }

    /// Number of watched threads.
    fn watched(&self) -> usize {
        self.threads.values().filter(|thread| thread.ledger.is_some()).count()
    }

    /// Watches threads that have no watch, as far as there is room.
    fn watch_more(&mut self) {
        if self.figures.unwatched == 0 {
            return;
        }
        let room = WATCHED_MAX.saturating_sub(self.watched()).min(WATCHED_ANEW);
        let without = self.threads.iter_mut().filter(|(_, thread)| thread.ledger.is_none());
        for (&(process, thread), known) in without.take(room) {
            known.ledger = Ledger::open(process, thread).ok();
            known.last = known.ledger.as_ref().and_then(Ledger::read).unwrap_or_default();
        }
    }

    /// True if the task has a thread of `process`.
    pub(crate) fn has_process(&self, process: u32) -> bool {
        self.threads.range((process, 0)..=(process, u32::MAX)).next().is_some()
    }

    /// True if the task's cgroup holds single threads of processes.
    pub(crate) fn is_threaded(&self) -> bool {
        self.group.as_ref().is_some_and(Group::is_threaded)
    }

    /// Strangers that were found at two scans, to be reported.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = (u32, &Stranger)> {
        let lasting = self.strangers.iter().filter(|(_, (_, is_lasting))| *is_lasting);
        lasting.map(|(&process, (reason, _))| (process, reason))
    }

    fn members(&self) -> Vec<u32> {
        if let Some(group) = &self.group {
            let members = group.members();
            if !members.is_empty() {
                return members;
            }
        }
        match &self.selector {
            TaskSelector::Process(id) | TaskSelector::Child(id)
                if self.began.is_some() && proc::began(*id, *id) == self.began =>
            {
                proc::family(*id)
            }
            _ => Vec::new(),
        }
    }

    /// Records the state of a thread; `None` if it has ended or cannot be recorded.
    fn note(&mut self, id: (u32, u32), journal: &mut Journal) -> Option<New> {
        let (process, thread) = id;
        // Without a class here, the thread will be in this one.
        let ours = self.legacy.ours(self.class.unwrap_or(SchedPolicy::EXT));
        let noted = journal.thread(self.number, process, thread, &ours);
        match noted {
            Ok(class) => {
                self.unrecorded.remove(&id);
                Some(New { id, class })
            }
            // An ended thread is not a refusal. Others are tried again, and counted once.
            Err(_) => {
                if SchedPolicy::of(pid(thread)).is_ok() && self.unrecorded.insert(id) {
                    self.figures.refused += 1;
                }
                None
            }
        }
    }

    /// Puts a recorded thread into the task's class and on its cores; `room` is the number of threads that
    /// may still be watched.
    fn adopt(&mut self, now: Time, new: New, room: &mut usize) {
        let New { id: (process, thread), class } = new;
        let id = pid(thread);
        let urgent = self.class == Some(REGULAR);
        let ours = match self.class {
            Some(_) if class.is_deadline() || urgent && class != SchedPolicy::OTHER => Ok(()),
            Some(ours) => ours.set(id),
            None => Ok(()),
        };
        let cores = self.cores.map_or(Ok(()), |cores| sched_setaffinity(id, &cores));
        // An ended thread is not a refusal.
        let is_there = SchedPolicy::of(id).is_ok();
        let fair = (urgent && class == SchedPolicy::OTHER && ours.is_ok()).then_some(class);
        // The fair class is the fallback.
        let ours = if urgent {
            self.lacks_real_time |= is_there && ours.is_err();
            Ok(())
        } else {
            ours
        };
        if is_there && (class.is_deadline() || ours.is_err() || cores.is_err()) {
            self.figures.refused += 1;
        }
        // Without open files it is managed, not watched.
        let ledger = if *room > 0 { Ledger::open(process, thread).ok() } else { None };
        *room = room.saturating_sub(usize::from(ledger.is_some()));
        let last = ledger.as_ref().and_then(Ledger::read).unwrap_or_default();
        if ledger.is_some() {
            self.awake.insert((process, thread));
        }
        let real_time =
            fair.map(|fair| RealTimeThread { fair, rule: RealTime::new(now, last), level: Level::Regular });
        let known = Thread { ledger, last, still: Standstill::new(now), real_time };
        self.threads.insert((process, thread), known);
        if !class.is_deadline() {
            self.fresh.push(thread);
        }
    }

    /// True if the thread of that process and number was there at the last scan.
    pub fn is_watched(&self, id: (u32, u32)) -> bool {
        self.threads.contains_key(&id)
    }
}

impl InheritedState {
    /// Records that the threads were given `cores`.
    pub(super) fn record_cores(&mut self, cores: CpuSet) {
        if let Some(index) = self.cores[self.recent..].iter().position(|known| *known == cores) {
            self.cores.remove(self.recent + index);
        }
        self.cores.push(cores);
    }

    /// Ends a scan.
    fn after_scan(&mut self) {
        self.begun = true;
        self.cores.drain(..self.recent);
        self.recent = self.cores.len().saturating_sub(1);
    }

    /// Marks that a new thread may have inherited, of a task in `class`.
    fn ours(&self, class: SchedPolicy) -> InheritedMarks<'_> {
        if self.begun {
            InheritedMarks { class: Some(class), cores: &self.cores }
        } else {
            InheritedMarks::default()
        }
    }
}
