//! Sidecar process that serves a runner for its whole run: index partitions and Redis, for runners
//! in other languages.
//!
//! It prints a line for each of its servers once they serve, and ends when its stdin closes, so
//! that an interrupted experiment leaves none.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::runner::{TIMEOUT, lines};
use crate::error::{Error, plain};

/// Running sidecar; dropping it ends the process.
pub struct Sidecar {
    child: Child,
    lines: Receiver<String>,
}

impl Sidecar {
    /// Starts `command`; returns its first `count` lines.
    ///
    /// # Errors
    /// It does not start, or does not print so many lines in time; its stderr is not captured and
    /// shows the reason.
    pub fn start(mut command: Command, count: usize) -> Result<(Self, Vec<String>), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |message: &str| Error::new(format!("{name}: {message}"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| failed(plain(&e.to_string())))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sidecar, deadline) = (Self { child, lines: lines(stdout) }, Instant::now() + TIMEOUT);
        let line = |_| sidecar.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        let first_lines: Result<Vec<String>, _> = (0..count).map(line).collect();
        match first_lines {
            Ok(lines) => Ok((sidecar, lines)),
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
        self.lines.recv_timeout(END_TIMEOUT).ok()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Fails if it has exited, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Timeout for the end of its own servers, and interval between checks.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
