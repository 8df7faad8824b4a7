//! Programs in the laboratory that share a part of a core.
//!
//! A control group for processor time: what runs inside gets no more than it
//! is granted in each period, and its time is summed up. Dropping it ends all
//! that runs inside, children of children too, which a [`Child`](super::Child)
//! cannot reach. Version 1 of control groups where their `cpu` controller is,
//! else version 2. Its folder's name carries the mark of who made it, so what
//! a crash left is found by the next [`NetLab::new`](super::NetLab::new).
//! Source: Linux, Documentation/scheduler/sched-bwc.rst,
//! Documentation/admin-guide/cgroup-v2.rst.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;
use std::{fs, io, thread};

use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::process::Leftovers;
use super::{LabError, Namespace};
use crate::cpu_time;

/// A control group, and all that runs in it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where the `cpu` controller may be.
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";
/// Who runs inside, a line each.
const MEMBERS: &str = "cgroup.procs";
/// Looks at whether the killed are gone or a thread has begun, and from one to the next.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(5);

impl Group {
    /// An empty group that goes before others ([`Group::prefer`]).
    ///
    /// # Errors
    /// As [`Group::new`] and [`Group::prefer`].
    pub fn preferred(name: &str) -> Result<Self, LabError> {
        let group = Self::new(name)?;
        group.prefer().map(|()| group)
    }

    /// Why there can be none here, if so.
    #[must_use]
    pub fn unavailable() -> Option<String> {
        home().err().map(|e| format!("no control group limits processor time: {e}"))
    }

    /// An empty group without a limit; `name` tells it from others.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel has no such groups or refuses.
    pub fn new(name: &str) -> Result<Self, LabError> {
        let failed = |source| LabError::Group { name: name.to_owned(), source };
        let (home, version) = home().map_err(failed)?;
        let path = home.join(Leftovers::name(name));
        Leftovers::make(&path, |path| fs::create_dir(path)).map_err(failed)?;
        Ok(Self { path, version })
    }

    /// Grants `share` of one core, 0.001..=1, in each `period`, 2 ms..=1 s.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses.
    pub fn limit(&self, share: f64, period: Span) -> Result<(), LabError> {
        let period_us = period.as_nanos() / 1_000;
        let quota_us = (period_us as f64 * share).round() as u64;
        match self.version {
            Version::One => {
                self.write("cpu.cfs_period_us", &period_us.to_string())?;
                self.write("cpu.cfs_quota_us", &quota_us.to_string())
            }
            Version::Two => self.write("cpu.max", &format!("{quota_us} {period_us}")),
        }
    }

    /// Has what runs inside go before what runs outside, as far as weights do.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses.
    pub fn prefer(&self) -> Result<(), LabError> {
        self.weigh("262144", "10000")
    }

    /// Has what runs outside go before what runs inside, as far as weights do.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses.
    pub fn yields(&self) -> Result<(), LabError> {
        self.weigh("2", "1")
    }

    /// Gives it a weight: of version 1, or of version 2.
    fn weigh(&self, one: &str, two: &str) -> Result<(), LabError> {
        match self.version {
            Version::One => self.write("cpu.shares", one),
            Version::Two => self.write("cpu.weight", two),
        }
    }

    /// Lets its members be real-time for `share` of a core at most, where that
    /// takes leave (version 1 of kernels with `RT_GROUP_SCHED`).
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses.
    pub fn real_time(&self, share: f64) -> Result<(), LabError> {
        match self.version {
            Version::One if self.path.join(REAL_TIME).exists() => {
                self.write(REAL_TIME, &((share * 1e6) as u64).to_string())
            }
            _ => Ok(()),
        }
    }

    /// `program`, to be run inside this group and `namespace`; its arguments
    /// are the caller's to add.
    #[must_use]
    pub fn command(&self, namespace: &Namespace, program: &str) -> Command {
        // Inside before it is the program, so that no child of it is outside.
        let script = format!("echo $$ >'{}/{MEMBERS}' && exec \"$@\"", self.path.display());
        let mut command = namespace.command("sh");
        command.args(["-c", &script, "sh", program]);
        command
    }

    /// Takes the calling thread in, until it ends; with version 2, where
    /// threads of one process cannot part, it stays where it is.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses.
    pub fn join(&self) -> Result<(), LabError> {
        match self.version {
            Version::One => self.write("tasks", "0"),
            Version::Two => Ok(()),
        }
    }

    /// Takes in a thread of the kernel's, which works within the limit from
    /// then on and goes back where it was when this is dropped.
    ///
    /// One that was made a moment ago belongs where all begin until it has had
    /// a core for the first time, and then sets its own affinity: who pins it
    /// does so after this.
    ///
    /// # Errors
    /// [`LabError::Group`] when the kernel refuses, still after a second.
    pub fn take(&self, kernel_thread: u32) -> Result<(), LabError> {
        let take = || self.write(MEMBERS, &kernel_thread.to_string());
        for _ in 0..LOOKS {
            match take() {
                Err(LabError::Group { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
                    thread::sleep(LOOK);
                }
                taken => return taken,
            }
        }
        take()
    }

    /// The processes inside.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        members(&self.path)
    }

    /// Processor time that those inside have used; of one that has ended,
    /// nothing.
    #[must_use]
    pub fn used(&self) -> Span {
        self.members().into_iter().filter_map(|id| cpu_time::process(id).ok()).sum()
    }

    fn write(&self, file: &str, value: &str) -> Result<(), LabError> {
        fs::write(self.path.join(file), value).map_err(|source| LabError::Group {
            name: format!("{}={value}", self.path.join(file).display()),
            source,
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        end(&self.path);
        Leftovers::removed(&self.path);
    }
}

/// Ends groups whose maker is gone.
pub(super) fn end_leftovers() {
    let Ok((home, _)) = home() else { return };
    Leftovers::in_folder(&home).for_each(|path| end(&path));
}

/// How long in each second members may be real-time, in µs.
const REAL_TIME: &str = "cpu.rt_runtime_us";

/// Kills all that runs in a group, and removes it.
pub(super) fn end(path: &Path) {
    for _ in 0..LOOKS {
        // One that forks while it is killed is met by the next look.
        for id in members(path).into_iter().filter(|&id| id != process::id()) {
            if is_kernels(id) {
                let _ = fs::write(path.with_file_name(MEMBERS), id.to_string());
            } else if let Some(pid) = Pid::from_raw(id as i32) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // What it was granted counts until the kernel has forgotten it, which takes a while.
        let granted = path.join(REAL_TIME);
        if granted.exists() {
            let _ = fs::write(granted, "0");
        }
        match fs::remove_dir(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => thread::sleep(LOOK),
            _ => return,
        }
    }
}

/// Whether `id` is a thread of the kernel's: such runs no file, and does not
/// die of signals.
fn is_kernels(id: u32) -> bool {
    fs::read_link(format!("/proc/{id}/exe")).is_err()
}

fn members(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join(MEMBERS)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Where groups are made.
fn home() -> io::Result<(PathBuf, Version)> {
    let one = Path::new(VERSION_1);
    if one.join("cpu.shares").exists() {
        return Ok((one.to_owned(), Version::One));
    }
    let two = Path::new(VERSION_2);
    let has = |file: &str| {
        fs::read_to_string(two.join(file)).map(|text| text.split_whitespace().any(|word| word == "cpu"))
    };
    if !has("cgroup.controllers")? {
        return Err(io::Error::other("there is no cpu controller"));
    }
    if !has("cgroup.subtree_control")? {
        fs::write(two.join("cgroup.subtree_control"), "+cpu")?;
    }
    Ok((two.to_owned(), Version::Two))
}
