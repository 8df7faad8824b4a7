//! `greenwave guard attach` in front of an unmodified server.

use std::process::Stdio;
use std::time::Duration;

use netlab::{Child, Namespace};
use queueing::CoreId;

use super::super::child_process::{drained_lines, terminate};
use super::Config;
use super::server::PORT;
use crate::error::Error;

/// Attached guard; dropping it detaches it.
pub struct AttachedGuard(Child);

/// Timeout of attaching and of detaching.
const TIMEOUT: Duration = Duration::from_secs(10);

impl AttachedGuard {
    /// Attaches a guard to `device` of `host` as in `config`. It runs on `core`, the server's, so
    /// that its CPU time counts against the server.
    pub fn attach(
        host: &Namespace,
        device: &str,
        core: CoreId,
        policy: &str,
        config: &Config,
    ) -> Result<Self, Error> {
        let failed = |message: String| Error::new(format!("guard {policy}: {message}"));
        let this = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
        let mut command = host.command(&this.to_string_lossy());
        command.args(["guard", "attach", device, "--port", &PORT.to_string()]);
        // In driver mode it would run on the clients' core, which receives the frames of a veth.
        command.args(["--policy", policy, "--target-delay", &config.guard_target, "--mode", "skb"]);
        command.args(["--measure", &config.guard_until]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = host.spawn_on(core, &mut command).map_err(|e| failed(e.to_string()))?;
        let stderr = child.stderr.take().ok_or_else(|| failed("no stderr".to_owned()))?;
        let line =
            drained_lines(stderr).recv_timeout(TIMEOUT).unwrap_or_else(|_| "prints nothing".to_owned());
        match line.contains(" guarded by ") {
            true => Ok(Self(child)),
            false => Err(failed(line.trim_start_matches("error: ").to_owned())),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for AttachedGuard {
    fn drop(&mut self) {
        // The guard detaches its program on SIGTERM. A guard that does not exit is killed, and its
        // program is removed with the namespace.
        terminate(&mut self.0, TIMEOUT);
    }
}
