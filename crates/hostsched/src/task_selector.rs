//! Checks of a task selector, before anything is changed.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::thread::sched_setaffinity;

use super::cgroups::{Group, Hierarchy, Location};
use super::task::OURS;
use super::undo_log::pid;
use super::{CoresError, Protected, TaskSelector};
use host::proc;

impl TaskSelector {
    /// Rejects processes that cannot be managed.
    ///
    /// # Errors
    /// The processes do not exist, or we lack the permission to change or to restore them.
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
                // Its affinity is set below, as a test of the permission.
                if proc::is_kernel_thread(*id) {
                    return refused(
                        format!("process {id} ({}) is a kernel thread", proc::name(*id)),
                        "the ID of a program, as pgrep -x NAME prints it",
                    );
                }
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

/// Refuses tasks that contain a protected process, and tasks that overlap: in any spelling of a path, on
/// any mount, and by the processes inside. Each is given with its name.
///
/// # Errors
/// The first invalid task or pair, its content, and the valid selectors.
pub fn check_all<'a>(
    tasks: impl IntoIterator<Item = (&'a str, &'a TaskSelector)>,
    protected: &Protected,
) -> Result<(), CoresError> {
    let mut before: Vec<(&str, &TaskSelector, Extent)> = Vec::new();
    for (name, selector) in tasks {
        let extent = Extent::of(selector);
        extent.check_protected(selector, protected).map_err(|e| e.of_task(name))?;
        for (other_name, other, other_extent) in &before {
            if let Some(what) = extent.overlap(selector, other, other_extent) {
                let what = format!("tasks {other_name} and {name} overlap: {what}");
                let advice = "cgroups of which none is inside another, and processes outside all of them";
                return Err(CoresError { what, advice: Some(advice.to_owned()) });
            }
        }
        before.push((name, selector, extent));
    }
    Ok(())
}

/// Place and processes of a task at the moment.
struct Extent {
    location: Option<Location>,
    is_threaded: bool,
    processes: BTreeSet<u32>,
}

impl Extent {
    fn of(selector: &TaskSelector) -> Self {
        match selector {
            TaskSelector::Group(path) => {
                let group = Group::at(path).ok();
                Self {
                    location: Location::of(path),
                    is_threaded: group.as_ref().is_some_and(Group::is_threaded),
                    processes: group.map(|group| group.members()).unwrap_or_default().into_iter().collect(),
                }
            }
            TaskSelector::Process(id) | TaskSelector::Child(id) => Self {
                location: None,
                is_threaded: false,
                processes: proc::family(*id).into_iter().collect(),
            },
        }
    }

    fn check_protected(&self, selector: &TaskSelector, protected: &Protected) -> Result<(), CoresError> {
        let refused = |what: String| {
            let advice = "programs and cgroups without greenwave, the shell or service that started it, and \
                          kernel threads";
            Err(CoresError { what, advice: Some(advice.to_owned()) })
        };
        if self.location.as_ref().is_some_and(Location::is_root) {
            return refused(format!("{} is the root cgroup, which contains all processes", named(selector)));
        }
        if let TaskSelector::Process(id) = selector
            && let Some(role) = protected.role(*id)
        {
            return refused(format!("{} is {role}", named(selector)));
        }
        let role = |&id: &u32| Some((id, protected.role(id)?));
        match self.processes.iter().find_map(role) {
            Some((id, role)) => {
                refused(format!("{} contains process {id} ({}), {role}", named(selector), proc::name(id)))
            }
            None => Ok(()),
        }
    }

    /// Common part of two tasks, as text.
    fn overlap(&self, selector: &TaskSelector, other: &TaskSelector, extent: &Self) -> Option<String> {
        let is_nested = |one: &Location| extent.location.as_ref().is_some_and(|other| one.overlaps(other));
        if self.location.as_ref().is_some_and(is_nested) {
            return Some(format!(
                "{} and {} are the same, or one is inside the other",
                named(other),
                named(selector)
            ));
        }
        // Two threaded groups may divide the threads of a process.
        if self.is_threaded && extent.is_threaded {
            return None;
        }
        let id = self.processes.intersection(&extent.processes).next()?;
        Some(format!("process {id} ({}) is in {} and in {}", proc::name(*id), named(other), named(selector)))
    }
}

/// `cgroup PATH`, `process 4242 (memcached)`.
fn named(selector: &TaskSelector) -> String {
    match selector {
        TaskSelector::Group(path) => format!("cgroup {}", path.display()),
        TaskSelector::Process(id) | TaskSelector::Child(id) => format!("process {id} ({})", proc::name(*id)),
    }
}

/// Number of the greenwave process that manages the control group `path`, if one does.
fn manager(path: &Path) -> Option<String> {
    path.iter().find_map(|name| name.to_str()?.strip_prefix(OURS)?.split('-').next().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protected_process_is_refused_for_its_own_role_whatever_its_number() {
        // Numbers start again at a maximum, so an ancestor may have the greater one.
        for (this, ancestor) in [(5_000_005, 5_000_009), (5_000_009, 5_000_005)] {
            let protected = Protected::of(this, None, None, |id| (id == this).then_some(ancestor));
            let processes = [this, ancestor].into();
            let extent = Extent { location: None, is_threaded: false, processes };
            let error = extent.check_protected(&TaskSelector::Process(ancestor), &protected).unwrap_err();
            assert!(error.to_string().ends_with(" is an ancestor of greenwave"), "{error}");
        }
    }
}
