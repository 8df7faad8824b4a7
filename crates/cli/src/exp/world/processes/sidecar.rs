//! Sidecar process that serves a runner for its whole run: index partitions and Redis, for runners
//! in other languages.
//!
//! It prints a line for each of its servers once they serve, and ends when its stdin closes, so
//! that an interrupted experiment leaves none.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::runner::{PATIENCE, lines};
use crate::error::{Error, plain};

/// Running sidecar; dropping it ends the process.
pub struct Sidecar {
    child: Child,
    said: Receiver<String>,
}

impl Sidecar {
    /// Starts `command`; returns its first `count` lines.
    ///
    /// # Errors
    /// It does not start, or does not print so many lines in time; its stderr is not captured and
    /// shows the reason.
    pub fn start(mut command: Command, count: usize) -> Result<(Self, Vec<String>), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |what: &str| Error::new(format!("{name}: {what}"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| failed(plain(&e.to_string())))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (beside, ends) = (Self { child, said: lines(stdout) }, Instant::now() + PATIENCE);
        let line = |_| beside.said.recv_timeout(ends.saturating_duration_since(Instant::now()));
        let said: Result<Vec<String>, _> = (0..count).map(line).collect();
        match said {
            Ok(said) => Ok((beside, said)),
            Err(_) => Err(failed("serves nothing").advice("make testbed")),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process; returns its last line if it arrives in time.
    pub fn end(mut self) -> Option<String> {
        drop(self.child.stdin.take());
        self.said.recv_timeout(ENDS_MAX).ok()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let ends = Instant::now() + ENDS_MAX;
        while Instant::now() < ends {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(ENDS_STEP);
        }
        // Fails if it has exited, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Timeout for the end of its own servers, and interval between checks.
const ENDS_MAX: Duration = Duration::from_secs(5);
const ENDS_STEP: Duration = Duration::from_millis(10);
