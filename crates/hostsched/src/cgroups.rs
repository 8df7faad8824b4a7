//! Control groups that park best-effort tasks (freezer) and rank them below all others (`cpu.idle`).
//!
//! A task's group is made *beneath* the group of its process: the limits there still hold, and children
//! of the task are inside. Dissolving it moves the members up and removes the directory. The freezer is
//! that of cgroup v2, or of v1 where nothing else is mounted. `cpu.idle` is needed beside `SCHED_IDLE`
//! where the kernel schedules sessions as groups (autogroup).
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst,
//! scheduler/sched-design-CFS.rst.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
    /// Controller field of its line in `/proc/PID/cgroup`; empty in version 2.
    controller: String,
}

impl Hierarchy {
    /// The hierarchy that can freeze processes: version 2 before 1.
    #[must_use]
    pub fn freezer() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "").or_else(|| find(&mounts, "freezer"))
    }

    /// The hierarchy with `cpu.idle`.
    #[must_use]
    pub fn idle() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "cpu")
    }

    /// Directory of the group of `process`.
    #[must_use]
    pub fn folder_of(&self, process: u32) -> Option<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let path = text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|one| one == self.controller).then_some(path)
        })?;
        Some(self.mount.join(path.trim_start_matches('/')))
    }
}

/// Finds the mount of version 2 (`controller` empty) or of a version 1 controller.
fn find(mounts: &str, controller: &str) -> Option<Hierarchy> {
    let mount = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, at, kind, options, ..] = words[..] else { return None };
        let is = match controller {
            "" => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|one| one == controller),
        };
        is.then(|| PathBuf::from(at))
    })?;
    Some(Hierarchy { mount, controller: controller.to_owned() })
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(PathBuf);

impl Group {
    /// The group at `path`.
    ///
    /// # Errors
    /// `path` is not a control group.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path.join("cgroup.procs"))?;
        Ok(Self(path.to_owned()))
    }

    /// Creates the group `name` beneath `parent`.
    ///
    /// # Errors
    /// No permission; no such parent.
    pub fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Self::at(&path),
        }
    }

    /// Directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves `process` into the group.
    ///
    /// # Errors
    /// The process has ended; no permission.
    pub fn take(&self, process: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
    }

    /// Processes in the group and in the groups below.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        let mut members = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            // 0 is a process in another PID namespace.
            members.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|&id| id > 0));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
        }
        members
    }

    /// Freezes or thaws the group.
    ///
    /// # Errors
    /// No freezer here; no permission.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        let (new, old) = (self.0.join("cgroup.freeze"), self.0.join("freezer.state"));
        if new.exists() {
            return fs::write(new, if frozen { "1" } else { "0" });
        }
        fs::write(old, if frozen { "FROZEN" } else { "THAWED" })
    }

    /// True if it is frozen itself, other than by a folder above.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        let says = |file: &str| fs::read_to_string(self.0.join(file)).is_ok_and(|text| text.trim() == "1");
        says("cgroup.freeze") || says("freezer.self_freezing")
    }

    /// True if [`freeze`](Self::freeze) works here.
    #[must_use]
    pub fn can_freeze(&self) -> bool {
        ["cgroup.freeze", "freezer.state"].iter().any(|file| self.0.join(file).exists())
    }

    /// Sets `cpu.idle`: the group runs below all others.
    ///
    /// # Errors
    /// The kernel is older than 5.15; no permission.
    pub fn idle(&self) -> io::Result<()> {
        fs::write(self.0.join("cpu.idle"), "1")
    }

    /// Thaws the group, moves its members up and removes it.
    ///
    /// # Errors
    /// A process stays inside; the kernel's error.
    pub fn dissolve(&self) -> io::Result<()> {
        let Some(parent) = self.0.parent() else { return Ok(()) };
        if self.can_freeze() {
            self.freeze(false)?;
        }
        // A process that forks meanwhile leaves its child here: try again.
        for _ in 0..DISSOLVE_TRIES {
            for process in self.members() {
                // An ended process needs no move.
                let _ = fs::write(parent.join("cgroup.procs"), process.to_string());
            }
            match fs::remove_dir(&self.0) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::yield_now(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                done => return done,
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is not empty", self.0.display())))
    }
}

/// Attempts to empty a group in which a process keeps forking.
const DISSOLVE_TRIES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_say_where_folders_are() {
        let mounts = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let at = |controller| find(mounts, controller).map(|found| found.mount);
        assert_eq!(at(""), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(at("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(at("cpuset"), None);
    }

    #[test]
    fn what_is_no_folder_of_processes_is_refused() {
        assert!(Group::at(Path::new("/proc")).is_err());
        assert!(Group::make(Path::new("/no/such/folder"), "x").is_err());
    }
}
