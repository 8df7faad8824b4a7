//! Who belongs to a task, and what becomes of who is new.
//!
//! Those that a look finds are noted before any of them is changed. So what the first one finds is as it was
//! without us; later, who has what the task was given may have inherited it.

use std::collections::BTreeSet;

use queueing::Time;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::TaskSelector;
use super::super::sched_policy::SchedPolicy;
use super::super::undo_log::{InheritedMarks, Journal, pid};
use super::{Managed, THREADS_MAX, Thread};
use crate::proc::{self, Ledger};

/// What a task's threads have from us.
#[derive(Debug, Default)]
pub(super) struct InheritedState {
    /// Whether the first of them were noted: who comes later may have inherited it.
    begun: bool,
    /// Masks that they were given, the latest last. What was forked and not yet to be seen at a look has one
    /// of before that: they are kept for one look more.
    cores: Vec<CpuSet>,
    /// From which of them on they are those since the last look; that is the one that held then.
    recent: usize,
}

/// A thread that is noted, and not changed yet.
struct New {
    id: (u32, u32),
    ledger: Ledger,
    class: SchedPolicy,
}

impl Managed {
    /// Looks up who belongs to it, and takes over who is new.
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

    /// Notes how a thread is; nothing where it has ended, or cannot be watched or noted.
    fn note(&mut self, id: (u32, u32), journal: &mut Journal) -> Option<New> {
        let (process, thread) = id;
        // Who is put into no class here is put into this one.
        let ours = self.legacy.ours(self.class.unwrap_or(SchedPolicy::EXT));
        let noted = Ledger::open(process, thread).and_then(|ledger| {
            let class = journal.thread(self.number, process, thread, &ours)?;
            Ok(New { id, ledger, class })
        });
        // Who has ended meanwhile refused nothing. It is tried again at every look, and counted once.
        if noted.is_err() && SchedPolicy::of(pid(thread)).is_ok() && self.unwatched.insert(id) {
            self.figures.refused += 1;
        }
        noted.ok()
    }

    /// Puts a thread that was noted into the task's class, and on its cores.
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
        // Who has ended meanwhile refused nothing.
        let is_there = SchedPolicy::of(id).is_ok();
        let fair = (urgent && class == SchedPolicy::OTHER && ours.is_ok()).then_some(class);
        // The fair class serves, too.
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

    /// Whether the thread of that process and number was there at the last look.
    pub fn is_watched(&self, id: (u32, u32)) -> bool {
        self.threads.contains_key(&id)
    }
}

impl InheritedState {
    /// They were let on `cores`.
    pub(super) fn let_on(&mut self, cores: CpuSet) {
        if let Some(place) = self.cores[self.recent..].iter().position(|known| *known == cores) {
            self.cores.remove(self.recent + place);
        }
        self.cores.push(cores);
    }

    /// A look has ended.
    fn looked(&mut self) {
        self.begun = true;
        self.cores.drain(..self.recent);
        self.recent = self.cores.len().saturating_sub(1);
    }

    /// What somebody who is new may have inherited, of a task in `class`.
    fn ours(&self, class: SchedPolicy) -> InheritedMarks<'_> {
        if self.begun {
            InheritedMarks { class: Some(class), cores: &self.cores }
        } else {
            InheritedMarks::default()
        }
    }
}
