//! A task's folders among the control groups: one that can be frozen, and one in the idle class.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::cgroups::{Group, Hierarchy};
use super::super::sched_policy::SchedPolicy;
use super::super::undo_log::Journal;
use super::super::{CoresError, TaskSelector};
use super::Managed;
use crate::proc;

/// What names of our folders begin with; then come our process and which folder of its.
pub(in crate::cores) const OURS: &str = "greenwave-sched-";
/// Folders made by this process: one that has several managers keeps their tasks apart.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Looks for members outside the task's folder while it forks.
const GATHER_TRIES: usize = 100;

impl Managed {
    /// Gives its members a folder of their own where that can be.
    pub(super) fn gather(&mut self, journal: &mut Journal) -> Result<(), CoresError> {
        let written = |e: std::io::Error| CoresError::of_file("the journal", &e);
        let id = match &self.who {
            TaskSelector::Group(path) => {
                let group =
                    Group::at(path).map_err(|e| CoresError::of_file(&path.display().to_string(), &e))?;
                // What an operator has frozen is neither thawed nor parked by us.
                self.is_held = group.is_frozen();
                if !self.is_held {
                    journal.freezes(path).map_err(written)?;
                }
                self.group = Some(group);
                return Ok(());
            }
            TaskSelector::Process(id) | TaskSelector::Child(id) => *id,
        };
        self.group = Hierarchy::freezer().and_then(|tree| self.move_into(&tree, id, journal));
        if self.class == Some(SchedPolicy::IDLE)
            && let Some(idle) = Hierarchy::idle().and_then(|tree| self.move_into(&tree, id, journal))
        {
            // Without it the idle class holds within a session only, which the doctor says.
            let _ = idle.idle();
        }
        Ok(())
    }

    /// Makes a folder in `tree` beneath that of process `id`, and moves it and its descendants there.
    fn move_into(&self, tree: &Hierarchy, id: u32, journal: &mut Journal) -> Option<Group> {
        let home = tree.folder_of(id)?;
        let name = format!("{OURS}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        journal.made(self.number, &home.join(&name)).ok()?;
        let group = Group::make(&home, &name).ok()?;
        // What is forked while we move is inside when its parent was: look until nobody is outside.
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

/// The folder of processes at `path`, as it was given: whole, or beneath where version 2 is mounted.
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
