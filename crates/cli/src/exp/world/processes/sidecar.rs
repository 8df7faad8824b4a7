//! A process that serves beside a runner, from before it starts until it is
//! done: partitions of an index and Redis, for runners in other languages.
//!
//! It says a line for each of its servers once they serve, and ends when its
//! stdin does, so an interrupted experiment leaves none.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::runner::{PATIENCE, lines};
use crate::error::{Error, plain};

/// Ends it when dropped.
pub struct Sidecar {
    child: Child,
    said: Receiver<String>,
}

impl Sidecar {
    /// Starts `command`; what it says in its first `count` lines.
    ///
    /// # Errors
    /// When it does not start, or does not say so many in time; why, it says
    /// on stderr, which is shown as it is.
    pub fn start(mut command: Command, count: usize) -> Result<(Self, Vec<String>), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |what: &str| Error::new(format!("{name}: {what}"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| failed(plain(&e.to_string())))?;
        let stdout = child.stdout.take().expect("it was piped");
        let (beside, ends) = (Self { child, said: lines(stdout) }, Instant::now() + PATIENCE);
        let line = |_| beside.said.recv_timeout(ends.saturating_duration_since(Instant::now()));
        let said: Result<Vec<String>, _> = (0..count).map(line).collect();
        match said {
            Ok(said) => Ok((beside, said)),
            Err(_) => Err(failed("serves nothing").advice("make testbed")),
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Has it end; what it says last of all, if it does in time.
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
        // Fails when it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long it may take to end its own servers, looked at in such steps.
const ENDS_MAX: Duration = Duration::from_secs(5);
const ENDS_STEP: Duration = Duration::from_millis(10);
