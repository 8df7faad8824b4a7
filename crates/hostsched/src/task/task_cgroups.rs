//! A task's control groups: one to freeze, and one in the idle class.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::cgroups::{Group, Hierarchy};
use super::super::undo_log::Journal;
use super::super::{CoresError, Protected, TaskSelector};
use super::{FreezerWatch, Managed};
use host::proc;
use host::sched_policy::SchedPolicy;

/// Prefix of the names of our groups; our process and a serial number follow.
pub(crate) const OURS: &str = "greenwave-sched-";
/// Number of groups made by this process, which keeps the tasks of several managers apart.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Attempts to find members outside the task's group while it forks.
const GATHER_TRIES: usize = 100;

impl Managed {
    /// Moves its members into a group of their own where that is possible.
    pub(super) fn gather(&mut self, journal: &mut Journal) -> Result<(), CoresError> {
        let written = |e: std::io::Error| CoresError::of_file("the journal", &e);
        let id = match &self.selector {
            TaskSelector::Group(path) => {
                let group =
                    Group::at(path).map_err(|e| CoresError::of_file(&path.display().to_string(), &e))?;
                // A group that the operator has frozen is neither thawed nor parked.
                self.watch = FreezerWatch::of(&group);
                self.is_held = group.is_frozen();
                if group.is_threaded() {
                    journal.threaded(self.number, path).map_err(written)?;
                }
                self.group = Some(group);
                return Ok(());
            }
            TaskSelector::Process(id) | TaskSelector::Child(id) => *id,
        };
        self.group = Hierarchy::freezer().and_then(|tree| self.move_into(&tree, id, journal));
        self.watch = self.group.as_ref().map(FreezerWatch::of).unwrap_or_default();
        if self.class == Some(SchedPolicy::IDLE)
            && let Some(idle) = Hierarchy::idle().and_then(|tree| self.move_into(&tree, id, journal))
        {
            // Without it the idle class holds within a session only, which the doctor reports.
            let _ = idle.idle();
        }
        Ok(())
    }

    /// Freezes or thaws its group, unless an operator or a process inside forbids it.
    pub(super) fn park(&mut self, park: bool, protected: &Protected, journal: &mut Journal) {
        self.adopt_operator_state(journal);
        if park == self.parked {
            return;
        }
        if !park {
            return self.thaw(journal);
        }
        let Some(group) = self.group.as_ref().filter(|_| self.can_park() && !self.threads.is_empty()) else {
            return;
        };
        // Frozen without an event, where the file cannot be watched.
        if group.is_frozen() {
            self.is_held = true;
            return;
        }
        // They may have come since the last scan, which reports them.
        if group.members().iter().any(|&process| protected.contains(process)) {
            return;
        }
        // One that we made is dissolved in the end, which thaws it.
        let noted = if self.is_of_others() { journal.freezes(group.path()) } else { Ok(()) };
        match noted.and_then(|()| group.freeze(true)) {
            Ok(()) => self.parked = true,
            Err(_) => self.figures.refused += 1,
        }
        self.watch.take();
    }

    /// Thaws its group, which we have frozen.
    pub(super) fn thaw(&mut self, journal: &mut Journal) {
        let Some(group) = &self.group else { return };
        match group.freeze(false) {
            Ok(()) => self.parked = false,
            Err(_) => self.figures.refused += 1,
        }
        if !self.parked && self.is_of_others() {
            // Without the line, the end thaws it once more.
            let _ = journal.thaws(group.path());
        }
        self.watch.take();
    }

    /// Accepts a state that an operator wrote to the freezer file since our last write.
    pub(super) fn adopt_operator_state(&mut self, journal: &mut Journal) {
        let Some(group) = &self.group else { return };
        let was_written = self.watch.take();
        if !was_written && (self.parked || !self.is_held) {
            return;
        }
        self.is_held = group.is_frozen();
        if self.parked && was_written {
            self.parked = false;
            if self.is_of_others() {
                let _ = journal.thaws(group.path());
            }
        }
    }

    /// True if the task's cgroup existed before.
    const fn is_of_others(&self) -> bool {
        matches!(self.selector, TaskSelector::Group(_))
    }

    /// Makes a group in `tree` beneath that of process `id`, and moves the process and its descendants
    /// there.
    fn move_into(&self, tree: &Hierarchy, id: u32, journal: &mut Journal) -> Option<Group> {
        let home = tree.folder_of(id)?;
        let name = format!("{OURS}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        journal.made(self.number, &home.join(&name)).ok()?;
        let group = Group::make(&home, &name).ok()?;
        // A child forked during the move is inside if its parent was: repeat until no member is
        // outside.
        for _ in 0..GATHER_TRIES {
            let inside = group.members();
            let outside: Vec<u32> = proc::family(id)
                .into_iter()
                .filter(|member| !inside.contains(member) && tree.folder_of(*member).as_ref() == Some(&home))
                .collect();
            if outside.is_empty() {
                break;
            }
            for member in outside {
                if group.take(member).is_err() && member == id {
                    let _ = group.dissolve();
                    return None;
                }
            }
        }
        Some(group)
    }
}

/// Path of the control group `given`: absolute, or below the mount of version 2.
#[must_use]
pub fn group_path(given: &str) -> PathBuf {
    let path = PathBuf::from(given);
    if path.join("cgroup.procs").exists() {
        return path;
    }
    let below = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(|root| PathBuf::from(root).join(given.trim_start_matches('/')));
    below.into_iter().find(|path| path.join("cgroup.procs").exists()).unwrap_or(path)
}
