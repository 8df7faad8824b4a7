//! `greenwave sched` at work for the length of a run.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use host::netlab::{Child, Namespace, TempDir};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// A scheduler; it puts back what it changed when this is dropped.
pub struct Daemon {
    child: Child,
    _folder: TempDir,
}

/// How long it may take to begin, and to put things back.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

impl Daemon {
    /// One that is told `tasks`, a file's text; it stands back from cores that
    /// it shares out by itself. It is started in `place`, which makes no
    /// difference but that it is ended with what else is there.
    ///
    /// # Errors
    /// It does not start; why it says.
    pub fn new(place: &Namespace, tasks: &str) -> Result<Self, Error> {
        let failed = |what: &str| Error::new(format!("greenwave sched: {what}"));
        let folder = TempDir::new("sched").map_err(|e| failed(&e.to_string()))?;
        let config = folder.write("tasks.toml", tasks.as_bytes()).map_err(|e| failed(&e.to_string()))?;
        let this = std::env::current_exe().map_err(|e| failed(&e.to_string()))?;
        let mut command = place.command(&this.to_string_lossy());
        command.args(["sched", "--config"]).arg(config).arg("--journals").arg(folder.path());
        let log = folder.path().join("log");
        let stderr = File::create(&log).map_err(|e| Error::file(&log, &e))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = place.spawn(&mut command).map_err(|e| failed(&e.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no stdout"))?;
        let (tell, told) = channel();
        // Reads on to the end, so that it can always write.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        // It says first what it does; where it cannot, it says why in its log.
        if told.recv_timeout(PATIENCE).is_ok() {
            return Ok(Self { child, _folder: folder });
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let line = said.lines().next().unwrap_or("it says nothing");
        Err(failed(line.trim_start_matches("error: ")))
    }

    /// Whether it is still at work.
    ///
    /// # Errors
    /// It has ended.
    pub fn worked(&self) -> Result<(), Error> {
        match std::path::Path::new(&format!("/proc/{}/fd/0", self.child.id())).exists() {
            true => Ok(()),
            false => Err(Error::new("greenwave sched ended during the run")),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It puts back what it changed when asked to end.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(LOOK);
        }
    }
}
