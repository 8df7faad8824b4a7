//! A program and its descendants.
//!
//! Orphaned descendants become children of this process (subreaper), so that none outlives it. If
//! this process is killed, the kernel sends SIGTERM to the program. Source: prctl(2),
//! PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};

use host::proc;

/// A started program, and its descendants.
#[derive(Debug)]
pub struct ProcessTree {
    first: Pid,
    /// Another child of this process, which wait(2) does not report.
    other: Option<Pid>,
    /// Exit status of the program.
    status: Option<ExitStatus>,
    /// True while a process of the tree runs.
    any: bool,
    /// Processes that were sent SIGTERM.
    asked: Vec<Pid>,
}

impl ProcessTree {
    /// Starts `command`, from a thread that must live as long as the program: the kernel sends the
    /// death signal when the thread ends. `other` is a child that is never signalled
    /// ([`Watcher`](super::bypass::Watcher)).
    ///
    /// # Errors
    /// An error of execve(2).
    pub fn start(command: &mut Command, other: Option<Pid>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let parent = getpid();
        let tied = move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // This process may have been killed before that.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::NotConnected.into()),
            }
        };
        // SAFETY: between fork and exec it makes two system calls, allocates nothing and takes no
        // lock.
        unsafe { command.pre_exec(tied) };
        let child = command.spawn()?;
        Ok(Self { first: Pid::from_child(&child), other, status: None, any: true, asked: Vec::new() })
    }

    /// True while a process of the tree runs.
    pub fn run(&mut self) -> bool {
        while self.any {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.first => {
                    self.status = Some(ExitStatus::from_raw(status.as_raw()));
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => self.any = false,
            }
        }
        self.any
    }

    /// Exit status of the program, once it has ended.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Sends SIGTERM to all of them that are children of this process, once each. Call it again:
    /// orphans become children later.
    pub fn end(&mut self) {
        let other = self.other;
        for child in children().filter(|child| Some(*child) != other) {
            if !self.asked.contains(&child) {
                self.asked.push(child);
                // Fails if it has ended meanwhile.
                let _ = kill_process(child, Signal::TERM);
            }
        }
    }

    /// Sends `signal` to all of them that are children of this process: the program, and orphans.
    pub fn signal(&self, signal: Signal) {
        for child in children().filter(|child| Some(*child) != self.other) {
            // Fails if it has ended meanwhile.
            let _ = kill_process(child, signal);
        }
    }
}

impl Drop for ProcessTree {
    /// Kills all that are left.
    fn drop(&mut self) {
        while self.run() {
            self.signal(Signal::KILL);
            std::thread::yield_now();
        }
    }
}

/// Child processes.
fn children() -> impl Iterator<Item = Pid> {
    let this = std::process::id();
    let ours = proc::processes().filter(move |&id| proc::parent(id) == Some(this));
    ours.filter_map(|id| Pid::from_raw(id.try_into().ok()?))
}
