//! Folders of processes (cgroups), for two things: to park who has no core,
//! and to hold BE below everybody else.
//!
//! A task's folder is made *beneath* the one that its process is in, so limits
//! that hold there still do, and everything it starts comes along. To undo it,
//! whoever is inside moves up and the folder is removed. Parking is the freezer
//! (version 2, or version 1 where that is all there is); holding down is `cpu.idle`, which
//! `SCHED_IDLE` needs where programs of different sessions are scheduled in
//! groups (autogroup). Source: Linux, Documentation/admin-guide/cgroup-v2.rst,
//! cgroup-v1/freezer-subsystem.rst, scheduler/sched-design-CFS.rst.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A tree of folders that the kernel has mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
    /// In `/proc/PID/cgroup`, what its line begins with after the number: empty in version 2.
    controller: String,
}

impl Hierarchy {
    /// Where processes can be frozen: version 2 before 1.
    #[must_use]
    pub fn freezer() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "").or_else(|| find(&mounts, "freezer"))
    }

    /// Where a folder can be in the idle class.
    #[must_use]
    pub fn idle() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "cpu")
    }

    /// The folder that `process` is in.
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

/// Finds the mount of version 2 (`controller` empty), or of a controller of version 1.
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

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(PathBuf);

impl Group {
    /// That at `path`.
    ///
    /// # Errors
    /// It is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path.join("cgroup.procs"))?;
        Ok(Self(path.to_owned()))
    }

    /// Makes one called `name` beneath `parent`.
    ///
    /// # Errors
    /// No right to; no such parent.
    pub fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Self::at(&path),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes `process` in.
    ///
    /// # Errors
    /// It has ended; no right to.
    pub fn take(&self, process: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
    }

    /// Who is inside, folders below included.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        let mut members = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            // 0 is somebody in another namespace of processes.
            members.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|&id| id > 0));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
        }
        members
    }

    /// Stops everybody inside, or lets them go on.
    ///
    /// # Errors
    /// No freezer here; no right to.
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

    /// Whether [`freeze`](Self::freeze) can work here.
    #[must_use]
    pub fn can_freeze(&self) -> bool {
        ["cgroup.freeze", "freezer.state"].iter().any(|file| self.0.join(file).exists())
    }

    /// Puts it below all others when cores are scarce.
    ///
    /// # Errors
    /// The kernel cannot (before 5.15), or no right to.
    pub fn idle(&self) -> io::Result<()> {
        fs::write(self.0.join("cpu.idle"), "1")
    }

    /// Lets everybody go on, moves them up, and removes the folder.
    ///
    /// # Errors
    /// Somebody stays inside; what the kernel says.
    pub fn dissolve(&self) -> io::Result<()> {
        let Some(parent) = self.0.parent() else { return Ok(()) };
        if self.can_freeze() {
            self.freeze(false)?;
        }
        // Whoever forks meanwhile has its child in here: look again.
        for _ in 0..DISSOLVE_TRIES {
            for process in self.members() {
                // Who has ended needs no moving.
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

/// Looks at a folder that somebody keeps forking in.
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
