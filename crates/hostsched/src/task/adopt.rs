//! Scan for a task's members, and takeover of new ones.
//!
//! All threads of a scan are recorded before any is changed. The first scan therefore finds their
//! original state; later ones may find a state inherited from us.

use std::collections::BTreeSet;

use queueing::Time;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::TaskSelector;
use super::super::undo_log::{InheritedMarks, Journal, pid};
use super::{Managed, THREADS_MAX, Thread};
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
    /// Index of the first mask since the last scan: the one that was in force then.
    recent: usize,
}

/// A thread that is recorded but not yet changed.
struct New {
    id: (u32, u32),
    ledger: Ledger,
    class: SchedPolicy,
}

impl Managed {
    /// Scans for members, and takes new ones over.
    pub fn scan(&mut self, now: Time, journal: &mut Journal) {
        self.fresh.clear();
        let processes = self.members();
        self.ended = processes.is_empty();
        let (mut seen, mut new) = (BTreeSet::new(), Vec::new());
        for process in processes {
            for thread in proc::threads(process) {
                let id = (process, thread);
                let is_new = seen.insert(id) && !self.threads.contains_key(&id);
                if is_new && self.threads.len() + new.len() < THREADS_MAX {
                    new.extend(self.note(id, journal));
                }
            }
        }
        new.into_iter().for_each(|new| self.adopt(now, new));
        self.threads.retain(|id, _| seen.contains(id));
        self.unwatched.retain(|id| seen.contains(id));
        self.legacy.looked();
        self.figures.threads = self.threads.len();
    }

    fn members(&self) -> Vec<u32> {
        if let Some(group) = &self.group {
            let members = group.members();
            if !members.is_empty() {
                return members;
            }
        }
        match &self.who {
            TaskSelector::Process(id) | TaskSelector::Child(id)
                if self.began.is_some() && proc::began(*id, *id) == self.began =>
            {
                proc::family(*id)
            }
            _ => Vec::new(),
        }
    }

    /// Records the state of a thread; `None` if it has ended, or cannot be watched or recorded.
    fn note(&mut self, id: (u32, u32), journal: &mut Journal) -> Option<New> {
        let (process, thread) = id;
        // Without a class here, the thread will be in this one.
        let ours = self.legacy.ours(self.class.unwrap_or(SchedPolicy::EXT));
        let noted = Ledger::open(process, thread).and_then(|ledger| {
            let class = journal.thread(self.number, process, thread, &ours)?;
            Ok(New { id, ledger, class })
        });
        // An ended thread is not a refusal. Others are tried again at every scan, and counted once.
        if noted.is_err() && SchedPolicy::of(pid(thread)).is_ok() && self.unwatched.insert(id) {
            self.figures.refused += 1;
        }
        noted.ok()
    }

    /// Puts a recorded thread into the task's class and on its cores.
    fn adopt(&mut self, now: Time, new: New) {
        let New { id: (process, thread), ledger, class } = new;
        let id = pid(thread);
        let urgent = self.class == Some(SchedPolicy::URGENT);
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
            self.stays_fair |= is_there && ours.is_err();
            Ok(())
        } else {
            ours
        };
        if is_there && (class.is_deadline() || ours.is_err() || cores.is_err()) {
            self.figures.refused += 1;
        }
        let last = ledger.read().unwrap_or_default();
        let (urgent, weighed_ns) = (fair.is_some(), last.ran_ns + last.waited_ns);
        let known = Thread { ledger, last, changed: now, asked: now, waits: false, fair, urgent, weighed_ns };
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
    pub(super) fn let_on(&mut self, cores: CpuSet) {
        if let Some(place) = self.cores[self.recent..].iter().position(|known| *known == cores) {
            self.cores.remove(self.recent + place);
        }
        self.cores.push(cores);
    }

    /// Ends a scan.
    fn looked(&mut self) {
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
