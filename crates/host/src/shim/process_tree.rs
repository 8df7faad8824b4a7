//! A program and all that it starts.
//!
//! What it leaves behind when it ends becomes our child (a subreaper's), so
//! that nothing outlives us; and when we are killed, the kernel tells the
//! program (SIGTERM) in our place.
//! Source: prctl(2), PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};

use crate::proc;

/// A program that was started, and its descendants.
#[derive(Debug)]
pub struct Programs {
    first: Pid,
    /// A child of ours that is none of them, and that wait(2) does not tell of.
    other: Option<Pid>,
    /// How it ended.
    status: Option<ExitStatus>,
    /// Somebody is there.
    any: bool,
    /// Those that were asked to end.
    asked: Vec<Pid>,
}

impl Programs {
    /// Starts `command`, from a thread that must live as long as the program:
    /// the kernel takes the thread's end for ours. `other` is a child that is left
    /// alone ([`Watcher`](super::bypass::Watcher)).
    ///
    /// # Errors
    /// What execve(2) says.
    pub fn start(command: &mut Command, other: Option<Pid>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let parent = getpid();
        let tied = move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // We may have been killed before that.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::NotConnected.into()),
            }
        };
        // SAFETY: between fork and exec it makes two system calls; it
        // allocates nothing and takes no lock.
        unsafe { command.pre_exec(tied) };
        let child = command.spawn()?;
        Ok(Self { first: Pid::from_child(&child), other, status: None, any: true, asked: Vec::new() })
    }

    /// Whether anybody of them still runs.
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

    /// How the program itself ended, once it has.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Asks all of them that are our children to end, each once (SIGTERM): those that
    /// are left behind by one that ends become our children later.
    pub fn end(&mut self) {
        let other = self.other;
        for child in children().filter(|child| Some(*child) != other) {
            if !self.asked.contains(&child) {
                self.asked.push(child);
                // One that has ended meanwhile needs none.
                let _ = kill_process(child, Signal::TERM);
            }
        }
    }

    /// Sends `signal` to all of them that are our children: the program, and
    /// those that it left behind.
    pub fn signal(&self, signal: Signal) {
        for child in children().filter(|child| Some(*child) != self.other) {
            // One that has ended meanwhile needs none.
            let _ = kill_process(child, signal);
        }
    }
}

impl Drop for Programs {
    /// Nobody outlives us.
    fn drop(&mut self) {
        while self.run() {
            self.signal(Signal::KILL);
            std::thread::yield_now();
        }
    }
}

/// Processes whose parent we are.
fn children() -> impl Iterator<Item = Pid> {
    let this = std::process::id();
    let ours = proc::processes().filter(move |&id| proc::parent(id) == Some(this));
    ours.filter_map(|id| Pid::from_raw(id.try_into().ok()?))
}
