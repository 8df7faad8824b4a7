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

use host::proc;

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
    /// Controller field of its line in `/proc/PID/cgroup`; empty in version 2.
    controller: String,
}

impl Hierarchy {
    /// The hierarchy that can freeze processes; version 2 is preferred to version 1.
    #[must_use]
    pub fn freezer() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "").or_else(|| find(&mounts, "freezer"))
    }

    /// The hierarchy of version 1 with `cpu.idle`, in which a group can be made beneath any other.
    #[must_use]
    pub fn idle() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        find(&mounts, "cpu")
    }

    /// The hierarchy in which the kernel divides the time of a core: version 1 with the controller
    /// `cpu`, else version 2 with it.
    #[must_use]
    pub fn cpu() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let has_cpu = |tree: &Self| {
            let controllers = fs::read_to_string(tree.mount.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|one| one == "cpu")
        };
        find(&mounts, "cpu").or_else(|| find(&mounts, "").filter(has_cpu))
    }

    /// Directory of the root group.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.mount
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

/// Place of a control group: the same for every spelling of its path and every mount of its hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(PathBuf);

impl Location {
    /// Place of the group at `path`; `None` if that is no directory of a mounted hierarchy.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        Self::resolve(&mounts, &fs::canonicalize(path).ok()?)
    }

    /// Place of `path`, which has no links, by the text of `/proc/self/mountinfo`.
    fn resolve(mounts: &str, path: &Path) -> Option<Self> {
        let resolve_line = |line: &str| {
            let (mount, kind) = line.split_once(" - ")?;
            let words: Vec<&str> = mount.split(' ').collect();
            let [_, _, _, root, at, ..] = words[..] else { return None };
            let below = path.strip_prefix(unescape(at)).ok()?.to_owned();
            Some((at.len(), kind.starts_with("cgroup"), Path::new(&unescape(root)).join(below)))
        };
        // The deepest mount holds the path, and of several at one place the latest.
        let (_, is_group, path) = mounts.lines().filter_map(resolve_line).max_by_key(|found| found.0)?;
        is_group.then(|| Self(path.components().collect()))
    }

    /// True if one of the two is the other or beneath it. The groups of one path in several hierarchies
    /// of version 1 count as one: service managers put the same processes there.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }

    /// True for the root of a hierarchy.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == Path::new("/")
    }
}

/// A path as `mountinfo` writes it, with `\040` for a space and the like.
fn unescape(text: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
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

    /// Processes in the group and in the groups below, those with only some of their threads there
    /// included.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        let mut members = Vec::new();
        for folder in self.folders() {
            match fs::read_to_string(folder.join("cgroup.procs")) {
                Ok(text) => members.extend(numbers(&text)),
                // A threaded group lists its threads only.
                Err(_) => members.extend(threads(&folder).filter_map(proc::process_of)),
            }
        }
        members.sort_unstable();
        members.dedup();
        members
    }

    /// True for a threaded group of version 2, which may hold some of a process's threads.
    #[must_use]
    pub fn is_threaded(&self) -> bool {
        fs::read_to_string(self.0.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "threaded")
    }

    /// Threads in a threaded group and in the groups below, each after its process.
    #[must_use]
    pub fn threads(&self) -> Vec<(u32, u32)> {
        let all = self.folders().into_iter().flat_map(|folder| threads(&folder).collect::<Vec<_>>());
        all.filter_map(|thread| Some((proc::process_of(thread)?, thread))).collect()
    }

    /// Directories of the group and of the groups below.
    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.0.clone()];
        let mut index = 0;
        while let Some(folder) = folders.get(index) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()).collect::<Vec<_>>());
            index += 1;
        }
        folders
    }

    /// File that freezes the group.
    #[must_use]
    pub fn freezer_file(&self) -> PathBuf {
        let new = self.0.join("cgroup.freeze");
        if new.exists() { new } else { self.0.join("freezer.state") }
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

    /// True if the group itself is frozen, and not only a group above it.
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

/// Process or thread numbers, one a line; 0, which is in another PID namespace, is left out.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.parse().ok()).filter(|&id| id > 0)
}

/// Threads in the group at `folder` itself.
fn threads(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let text = ["cgroup.threads", "tasks"].iter().find_map(|file| fs::read_to_string(folder.join(file)).ok());
    numbers(&text.unwrap_or_default()).collect::<Vec<_>>().into_iter()
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

    //~ sched: overlapping tasks are refused, whatever path, link or mount names them
    #[test]
    fn a_group_has_one_place_in_every_mount_and_spelling() {
        let mounts = "22 1 0:20 / / rw - ext4 /dev/root rw\n\
                      31 22 0:28 / /sys/fs/cgroup rw,mode=755 - tmpfs tmpfs rw\n\
                      34 31 0:34 / /sys/fs/cgroup/freezer rw shared:7 - cgroup cgroup rw,freezer\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      42 22 0:38 /kubepods /mnt/of\\040pods rw - cgroup2 cgroup2 rw\n";
        let at = |path: &str| Location::resolve(mounts, Path::new(path));
        let location = |path: &str| Some(Location(path.into()));
        for (path, expected) in [
            ("/sys/fs/cgroup/unified/system.slice/x.service", location("/system.slice/x.service")),
            ("/sys/fs/cgroup/freezer/system.slice/x.service", location("/system.slice/x.service")),
            ("/mnt/of pods/pod1", location("/kubepods/pod1")),
            ("/sys/fs/cgroup/unified", location("/")),
            ("/mnt/of pods", location("/kubepods")),
            ("/sys/fs/cgroup", None),
            ("/home", None),
        ] {
            assert_eq!(at(path), expected, "{path}");
        }
        let overlaps = |one: &str, other: &str| Location(one.into()).overlaps(&Location(other.into()));
        assert!(overlaps("/a/b", "/a") && overlaps("/a", "/a/b") && overlaps("/a", "/a"));
        assert!(overlaps("/", "/a") && !overlaps("/a/b", "/a/c") && !overlaps("/ab", "/a"));
    }

    #[test]
    fn what_is_no_folder_of_processes_is_refused() {
        assert!(Group::at(Path::new("/proc")).is_err());
        assert!(Group::make(Path::new("/no/such/folder"), "x").is_err());
    }
}
