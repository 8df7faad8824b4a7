//! Progress lines of a best-effort program: JSON lines in the format of `workloads`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ChildStdout;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use host::signals;
use netlab::Child;
use serde_json::Value;

use crate::error::Error;

/// Progress lines so far, with their times.
#[derive(Clone, Default)]
pub struct ProgressLines(Arc<Mutex<Vec<(Instant, u64)>>>);

/// Timeout of the first line.
const START: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl ProgressLines {
    /// Reads all of `stdout` on a thread that ends with it.
    pub fn of(stdout: Option<ChildStdout>) -> Self {
        let lines = Self::default();
        let Some(stdout) = stdout else { return lines };
        let writer = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line: Option<Value> = serde_json::from_str(&line).ok();
                if let Some(total) = line.and_then(|line| line["total"].as_u64()) {
                    writer.0.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), total));
                }
            }
        });
        lines
    }

    /// Waits until program `child`, called `name`, reports progress.
    ///
    /// # Errors
    /// The program has ended or reports nothing, or the run was interrupted.
    pub fn wait_for_progress(&self, child: &mut Child, name: &str) -> Result<(), Error> {
        let end = Instant::now() + START;
        while self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            // Checked first: ctrl-C also ends the program.
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            let has_exited = child.try_wait().is_ok_and(|status| status.is_some());
            if has_exited || Instant::now() > end {
                let why = if has_exited { "has exited" } else { "prints nothing" };
                return Err(Error::new(format!("{name}: {why}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Rate per second between two instants, from the last lines before each.
    pub fn per_s(&self, from: Instant, to: Instant) -> f64 {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total_at =
            |end: Instant| lines.iter().rev().find(|(at, _)| *at <= end).map_or(0, |&(_, total)| total);
        (total_at(to) - total_at(from)) as f64 / (to - from).as_secs_f64()
    }
}

/// Path of a program of `workloads`, which is built beside this one.
///
/// # Errors
/// The program was not built.
pub fn workload(name: &str) -> Result<PathBuf, Error> {
    let this_program = std::env::current_exe()
        .map_err(|e| Error::new(format!("the path of this program cannot be read: {e}")))?;
    let program = this_program.with_file_name(name);
    match program.exists() {
        true => Ok(program),
        false => Err(Error::new(format!("{}: the program is not built", program.display()))
            .advice("cargo build --release -p cli -p workloads")),
    }
}
