//! Control group that limits and accounts the CPU time of test programs.
//!
//! Members get no more than the granted time in each period, and their time is summed. Dropping it
//! kills all members, including grandchildren, which a [`Child`](super::Child) cannot reach. Uses
//! cgroup v1 where its `cpu` controller is mounted, else v2. The directory's name carries the mark of
//! its creator, so the next [`NetLab::new`](super::NetLab::new) finds and removes groups left by a
//! crash.
//!
//! Source: Linux, Documentation/scheduler/sched-bwc.rst, Documentation/admin-guide/cgroup-v2.rst.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;
use std::{fs, io, thread};

use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::process::Leftovers;
use super::{LabError, Namespace};
use host::cpu_time;

/// A control group with its members.
#[derive(Debug)]
pub struct TestGroup {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Mount point of the `cpu` controller of v1.
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";
/// File with its processes, one per line.
const MEMBERS: &str = "cgroup.procs";
/// Number of checks for the end of killed processes or the start of a thread, and the interval.
const LOOKS: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl TestGroup {
    /// An empty group with preference over others ([`TestGroup::prefer`]).
    ///
    /// # Errors
    /// The errors of [`TestGroup::new`] and [`TestGroup::prefer`].
    pub fn preferred(name: &str) -> Result<Self, LabError> {
        let group = Self::new(name)?;
        group.prefer().map(|()| group)
    }

    /// Reason why groups are not available here, if so.
    #[must_use]
    pub fn unavailable() -> Option<String> {
        home().err().map(|e| format!("no control group limits processor time: {e}"))
    }

    /// An empty group without a limit, with `name` as a part of its name.
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel lacks such groups or refuses.
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
    /// [`LabError::Group`] if the kernel refuses.
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

    /// Gives members precedence over processes outside, by weight.
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel refuses.
    pub fn prefer(&self) -> Result<(), LabError> {
        self.weigh("262144", "10000")
    }

    /// Gives processes outside precedence over members, by weight.
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel refuses.
    pub fn yields(&self) -> Result<(), LabError> {
        self.weigh("2", "1")
    }

    /// Sets its weight, in the units of version 1 or 2.
    fn weigh(&self, one: &str, two: &str) -> Result<(), LabError> {
        match self.version {
            Version::One => self.write("cpu.shares", one),
            Version::Two => self.write("cpu.weight", two),
        }
    }

    /// Permits its members to be real-time for at most `share` of a core, where this needs permission
    /// (version 1 of kernels with `RT_GROUP_SCHED`).
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel refuses.
    pub fn real_time(&self, share: f64) -> Result<(), LabError> {
        match self.version {
            Version::One if self.path.join(REAL_TIME).exists() => {
                self.write(REAL_TIME, &((share * 1e6) as u64).to_string())
            }
            _ => Ok(()),
        }
    }

    /// Command `program` inside this group and `namespace`; the caller adds arguments.
    #[must_use]
    pub fn command(&self, namespace: &Namespace, program: &str) -> Command {
        // It joins before the exec, so that no child is outside.
        let script = format!("echo $$ >'{}/{MEMBERS}' && exec \"$@\"", self.path.display());
        let mut command = namespace.command("sh");
        command.args(["-c", &script, "sh", program]);
        command
    }

    /// Moves the calling thread into the group until it ends. With version 2, which cannot separate
    /// threads of a process, it stays where it is.
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel refuses.
    pub fn join(&self) -> Result<(), LabError> {
        match self.version {
            Version::One => self.write("tasks", "0"),
            Version::Two => Ok(()),
        }
    }

    /// Moves a kernel thread into the group, which limits it; dropping the group moves it back.
    ///
    /// A new kernel thread stays in the root group until it has had a core for the first time, and then
    /// sets its own affinity: pin it after this call.
    ///
    /// # Errors
    /// [`LabError::Group`] if the kernel still refuses after a second.
    pub fn take(&self, kernel_thread: u32) -> Result<(), LabError> {
        let take = || self.write(MEMBERS, &kernel_thread.to_string());
        for _ in 0..LOOKS {
            match take() {
                Err(LabError::Group { source, .. }) if source.kind() == io::ErrorKind::InvalidInput => {
                    thread::sleep(POLL_INTERVAL);
                }
                taken => return taken,
            }
        }
        take()
    }

    /// Processes in the group.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        members(&self.path)
    }

    /// CPU time used by the members; ended ones are not included.
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

impl Drop for TestGroup {
    fn drop(&mut self) {
        end(&self.path);
        Leftovers::removed(&self.path);
    }
}

/// Kills groups whose creator is gone.
pub(super) fn end_leftovers() {
    let Ok((home, _)) = home() else { return };
    Leftovers::in_folder(&home).for_each(|path| end(&path));
}

/// File with the real-time share of members, in µs per second.
const REAL_TIME: &str = "cpu.rt_runtime_us";

/// Kills all members of a group, and removes it.
pub(super) fn end(path: &Path) {
    for _ in 0..LOOKS {
        // A process that forks meanwhile is found by the next check.
        for id in members(path).into_iter().filter(|&id| id != process::id()) {
            if is_kernels(id) {
                let _ = fs::write(path.with_file_name(MEMBERS), id.to_string());
            } else if let Some(pid) = Pid::from_raw(id as i32) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // The grant counts until the kernel has released the group, which takes a while.
        let granted = path.join(REAL_TIME);
        if granted.exists() {
            let _ = fs::write(granted, "0");
        }
        match fs::remove_dir(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => thread::sleep(POLL_INTERVAL),
            _ => return,
        }
    }
}

/// True if `id` is a kernel thread: it has no executable, and signals do not kill it.
fn is_kernels(id: u32) -> bool {
    fs::read_link(format!("/proc/{id}/exe")).is_err()
}

fn members(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join(MEMBERS)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Directory in which groups are created.
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
