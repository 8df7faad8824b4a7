//! `greenwave sched` for the length of a run.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use netlab::TempDir;
use netlab::{Child, Namespace};

use super::child_process::{drained_lines, terminate};
use crate::error::Error;

/// Running scheduler; it restores its changes on drop.
pub struct Daemon {
    child: Child,
    _folder: TempDir,
}

/// Timeout of its start, and of restoring its changes.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Daemon {
    /// Starts a scheduler with the task file text `tasks` in namespace `namespace`, which only bounds
    /// its lifetime. It stays off the cores that it allocates.
    ///
    /// # Errors
    /// The scheduler does not start; the error has the reason from its log.
    pub fn new(namespace: &Namespace, tasks: &str) -> Result<Self, Error> {
        let failed = |message: &str| Error::new(format!("greenwave sched: {message}"));
        let folder = TempDir::new("sched").map_err(|e| failed(&e.to_string()))?;
        let config = folder.write("tasks.toml", tasks.as_bytes()).map_err(|e| failed(&e.to_string()))?;
        let this = std::env::current_exe().map_err(|e| failed(&e.to_string()))?;
        let mut command = namespace.command(&this.to_string_lossy());
        command.args(["sched", "--config"]).arg(config).arg("--state-dir").arg(folder.path());
        let log = folder.path().join("log");
        let stderr = File::create(&log).map_err(|e| Error::file(&log, &e))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = namespace.spawn(&mut command).map_err(|e| failed(&e.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        // The first line reports the mechanism; a failure is in the log.
        if drained_lines(stdout).recv_timeout(TIMEOUT).is_ok() {
            return Ok(Self { child, _folder: folder });
        }
        let log_text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = log_text.lines().next().unwrap_or("prints nothing");
        Err(failed(line.trim_start_matches("error: ")))
    }

    /// Checks that the scheduler still runs.
    ///
    /// # Errors
    /// The scheduler has ended.
    pub fn check_running(&self) -> Result<(), Error> {
        match std::path::Path::new(&format!("/proc/{}/fd/0", self.child.id())).exists() {
            true => Ok(()),
            false => Err(Error::new("greenwave sched ended during the run")),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It restores its changes on SIGTERM.
        terminate(&mut self.child, TIMEOUT);
    }
}
