//! The commands of a configuration, which are started and ended by greenwave.
//!
//! If greenwave is killed, the kernel ends each program, and the guardian ends the processes that
//! the programs have started ([`hostsched::undo_log::end_programs`]).

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hostsched::undo_log::GRACE;
use rustix::process::{Pid, Signal, kill_process_group};

use super::config::Task;
use crate::Error;

/// Programs started by us, each in its own process group.
#[derive(Default)]
pub struct Programs(Vec<(Child, bool)>);

impl Programs {
    /// Starts `task`'s command; returns its process.
    ///
    /// # Errors
    /// The file is not a program, or its output cannot be opened.
    pub fn start(&mut self, task: &Task, words: &[String]) -> Result<u32, Error> {
        let of_task = |what: String| Error::new(format!("task {}: {what}", task.name));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
        host::proc::end_with_us(&mut command, Signal::TERM);
        match &task.output {
            Some(path) => {
                let file = host::files::create(path).and_then(|file| Ok((file.try_clone()?, file)));
                let (out, err) =
                    file.map_err(|e| Error::unwritable(path, &e).begin(&format!("task {}: ", task.name)))?;
                command.stdout(out).stderr(err);
            }
            // Stdout is reserved for our output.
            None => {
                command.stdout(std::io::stderr());
            }
        }
        let child = command.spawn().map_err(|e| {
            of_task(format!("{}: {}", words[0], crate::error::plain(&e.to_string())))
                .advice("an existing program: an absolute path, or a name in PATH")
        })?;
        let id = child.id();
        self.0.push((child, false));
        Ok(id)
    }

    /// Reaps ended programs.
    pub fn reap(&mut self) {
        for (child, ended) in &mut self.0 {
            *ended = *ended || !matches!(child.try_wait(), Ok(None));
        }
    }

    fn signal(&self, signal: Signal) {
        for (child, _) in &self.0 {
            // Signals the whole group: processes started by a program end with it. Ended ones need
            // no signal.
            let _ = i32::try_from(child.id())
                .ok()
                .and_then(Pid::from_raw)
                .map(|id| kill_process_group(id, signal));
        }
    }
}

impl Drop for Programs {
    /// Asks the programs to end, then kills them.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let end = Instant::now() + GRACE;
        self.reap();
        let waits = || Instant::now() < end && !host::signals::is_urgent();
        while self.0.iter().any(|(_, ended)| !ended) && waits() {
            std::thread::park_timeout(Duration::from_millis(5));
            self.reap();
        }
        self.signal(Signal::KILL);
        for (child, _) in &mut self.0 {
            let _ = child.wait();
        }
    }
}
