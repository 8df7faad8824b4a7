//! `greenwave guard attach`, before a server that knows nothing of it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use host::netlab::{Child, Namespace};
use queueing::CoreId;
use rustix::process::{Pid, Signal, kill_process};

use super::Config;
use super::server::PORT;
use crate::error::Error;

/// A guard that is attached; it is detached with this.
pub struct Guard(Child);

/// How long it may take to be attached, and to be detached.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

impl Guard {
    /// A guard on `device` of `host`, as `config` has it. It runs on `core`: the
    /// server's, so that the server pays for it.
    pub fn attach(
        host: &Namespace,
        device: &str,
        core: CoreId,
        policy: &str,
        config: &Config,
    ) -> Result<Self, Error> {
        let failed = |what: String| Error::new(format!("guard {policy}: {what}"));
        let this = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
        let mut command = host.command(&this.to_string_lossy());
        command.args(["guard", "attach", device, "--port", &PORT.to_string()]);
        // In the driver it would run on the visitors' core, where a veth's
        // frames come in.
        command.args(["--policy", policy, "--target-delay", &config.guard_target, "--mode", "skb"]);
        command.args(["--until", &config.guard_until]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = host.spawn_on(core, &mut command).map_err(|e| failed(e.to_string()))?;
        let stderr = child.stderr.take().ok_or_else(|| failed("no stderr".to_owned()))?;
        let (tell, told) = channel();
        // Reads on to the end, so that the guard can always write.
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let line = told.recv_timeout(PATIENCE).unwrap_or_else(|_| "it says nothing".to_owned());
        match line.contains(" guarded by ") {
            true => Ok(Self(child)),
            false => Err(failed(line.trim_start_matches("error: ").to_owned())),
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It takes the program off when asked to end; one that does not is
        // killed, and its program goes with the namespace.
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(LOOK);
        }
    }
}
