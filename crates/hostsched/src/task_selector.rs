//! Checks of a task selector, before anything is changed.

use std::path::Path;

use rustix::thread::sched_setaffinity;

use super::cgroups::{Group, Hierarchy};
use super::task::OURS;
use super::undo_log::pid;
use super::{CoresError, TaskSelector};
use host::proc;

impl TaskSelector {
    /// Rejects processes that cannot be managed.
    ///
    /// # Errors
    /// They do not exist, or we lack the permission to change or to restore them.
    pub fn check(&self, critical: bool) -> Result<(), CoresError> {
        let refused = |what: String, advice: &str| Err(CoresError { what, advice: Some(advice.to_owned()) });
        match self {
            Self::Group(path) => match Group::at(path) {
                Err(e) => refused(
                    format!("{}: {e}", path.display()),
                    "the folder of a cgroup, such as /sys/fs/cgroup/system.slice/memcached.service",
                ),
                Ok(_) if path.to_string_lossy().contains('\n') => {
                    refused("a cgroup's path must not contain a line break".to_owned(), "rename the cgroup")
                }
                Ok(_) if !critical && !proc::may_schedule() => refused(
                    format!("{}: no permission to change its scheduling class", path.display()),
                    "root (CAP_SYS_NICE), or a command that greenwave starts",
                ),
                Ok(_) => Ok(()),
            },
            Self::Process(id) | Self::Child(id) => {
                let is_ours = matches!(self, Self::Child(_));
                let Some(began) = proc::began(*id, *id) else {
                    // One that we started may be over already.
                    return if is_ours {
                        Ok(())
                    } else {
                        refused(
                            format!("no process {id}"),
                            "the ID of a running process, as pgrep -x NAME prints it",
                        )
                    };
                };
                let same = rustix::thread::sched_getaffinity(pid(*id))
                    .and_then(|cores| sched_setaffinity(pid(*id), &cores));
                let is_there = proc::began(*id, *id) == Some(began);
                let may = same.is_ok() && (critical || is_ours || proc::may_schedule());
                if is_there && !may && !is_ours {
                    let name = proc::name(*id);
                    return refused(
                        format!("process {id} ({name}): no permission to change its scheduling class"),
                        "root (CAP_SYS_NICE), or a command that greenwave starts",
                    );
                }
                Ok(())
            }
        }
    }

    /// Rejects a process that another greenwave scheduler manages.
    ///
    /// # Errors
    /// A scheduler manages it; the text names that scheduler's process.
    pub fn check_free(&self) -> Result<(), CoresError> {
        let (Self::Process(id) | Self::Child(id)) = self else { return Ok(()) };
        let Some(manager) = Hierarchy::freezer().and_then(|tree| manager(&tree.folder_of(*id)?)) else {
            return Ok(());
        };
        let what = format!("process {id} ({}) is already managed by greenwave {manager}", proc::name(*id));
        Err(CoresError {
            what,
            advice: Some("greenwave sched restore, if that scheduler has ended".to_owned()),
        })
    }
}

/// Number of the greenwave process that manages the control group `path`, if one does.
fn manager(path: &Path) -> Option<String> {
    path.iter().find_map(|name| name.to_str()?.strip_prefix(OURS)?.split('-').next().map(str::to_owned))
}
