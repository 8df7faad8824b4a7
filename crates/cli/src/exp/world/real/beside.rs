//! A process that serves beside a runner, from before it starts until it is
//! done: partitions of an index and Redis, for runners in other languages.
//!
//! It says a line for each of its servers once they serve, and ends when its
//! stdin does, so an interrupted experiment leaves none.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::runner::{PATIENCE, lines};
use crate::error::{Error, plain};

/// Ends it when dropped.
pub struct Beside(Child);

impl Beside {
    /// Starts `command`; what it says in its first `count` lines.
    ///
    /// # Errors
    /// When it does not start, or does not say so many in time; why, it says
    /// on stderr, which is shown as it is.
    pub fn start(mut command: Command, count: usize) -> Result<(Self, Vec<String>), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |what: &str| Error::new(format!("{name}: {what}"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut beside = Self(child.map_err(|e| failed(plain(&e.to_string())))?);
        let stdout = beside.0.stdout.take().expect("it was piped");
        let (said, ends) = (lines(stdout), Instant::now() + PATIENCE);
        let line = |_| said.recv_timeout(ends.saturating_duration_since(Instant::now()));
        let said: Result<Vec<String>, _> = (0..count).map(line).collect();
        match said {
            Ok(said) => Ok((beside, said)),
            Err(_) => Err(failed("serves nothing").advice("make testbed")),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let ends = Instant::now() + ENDS_MAX;
        while Instant::now() < ends {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(ENDS_STEP);
        }
        // Fails when it has ended, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long it may take to end its own servers, looked at in such steps.
const ENDS_MAX: Duration = Duration::from_secs(5);
const ENDS_STEP: Duration = Duration::from_millis(10);
