//! Runner process: receives a setup and a plan on stdin, reports line by line on stdout.
//!
//! It is killed at its time limit, after an invalid line, or when the reader is gone. A runner also
//! ends when its stdout is closed, so that an interrupted experiment leaves none.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use host::signals;
use queueing::{Span, Time};
use serde_json::json;
use sim::world::services::{Config, TraceRequest};

use crate::error::{Error, plain};

/// Input of a runner.
pub struct Conversation {
    /// The first line.
    pub setup: String,
    /// The other lines.
    pub plan: String,
}

/// The first line for `config`.
pub fn setup(config: &Config) -> String {
    let stage = |stage: &sim::world::services::Stage| {
        json!({
            "name": stage.name, "threads": stage.servers, "parts": stage.parts,
            "reserve_ns": stage.reserve.as_nanos(), "partial": stage.partial,
        })
    };
    let slo = |slo: &sim::world::services::Slo| json!({"name": slo.name, "slo_ns": slo.slo.as_nanos()});
    json!({
        "order": config.order.to_string(), "shedding": config.shedding.to_string(),
        "patience_ns": config.age_max.as_nanos(), "capacity": config.capacity,
        "stages": config.stages.iter().map(stage).collect::<Vec<_>>(),
        "slos": config.slos.iter().map(slo).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The other lines, for `trace`.
pub fn plan(trace: &[TraceRequest]) -> String {
    let mut text = String::new();
    for born in trace {
        let _ = write!(text, "{},{}", born.at.as_nanos(), born.class);
        for part in &born.parts {
            let _ = write!(text, ",{}", part.service.as_nanos());
        }
        if let Some(query) = born.query {
            let _ = write!(text, ",{query}");
        }
        text.push('\n');
    }
    text
}

/// Time limit of a run of `trace` after `ready`: the last birth, the total work of the busiest
/// stage on one server, and the runner's own timeout.
pub fn lasts(trace: &[TraceRequest]) -> Duration {
    let births = trace.last().map_or(Span::ZERO, |born| born.at.since(Time::ZERO));
    let work = |n: usize| trace.iter().map(|born| born.parts[n].service).sum::<Span>();
    let parts = trace.last().map_or(0, |born| born.parts.len());
    let most = (0..parts).map(work).max().unwrap_or(Span::ZERO);
    Duration::from(births + most) + PATIENCE
}

impl Conversation {
    /// Starts `command`, writes the input, and passes each line after `ready` to `hear`. The run
    /// may take `limit` after `ready`.
    ///
    /// # Errors
    /// The runner does not start, fails, sends a line that `hear` rejects, or exceeds its time
    /// limit.
    pub fn with(
        self,
        mut command: Command,
        limit: Duration,
        hear: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<(), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().map_err(|e| {
            Error::new(format!("{name}: {}", plain(&e.to_string())))
                .advice("make testbed, which reports what is missing")
        })?;
        let mut runner = Running(child);
        let failed = |what: String| Error::new(format!("{name}: {what}"));

        let mut stdin = runner.0.stdin.take().expect("stdin is piped");
        let told = format!("{}\n{}", self.setup, self.plan);
        // A runner that does not read its stdin prints the reason, or times out and is killed.
        std::thread::spawn(move || stdin.write_all(told.as_bytes()));
        let stdout = runner.0.stdout.take().expect("stdout is piped");
        let said = lines(stdout);
        let stderr = runner.0.stderr.take().expect("stderr is piped");
        let complaint = std::thread::spawn(move || complaint(stderr));

        let mut ends = Instant::now() + PATIENCE;
        let mut ready = false;
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            let heard = said.recv_timeout(left.min(LOOK));
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            match heard {
                Ok(line) if ready => hear(&line).map_err(failed)?,
                Ok(line) if line == "ready" => (ready, ends) = (true, Instant::now() + limit),
                Ok(line) => return Err(failed(format!("{line:?} is not \"ready\""))),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if left > LOOK => {}
                Err(RecvTimeoutError::Timeout) if ready => {
                    return Err(failed(format!("not done after {limit:?}")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(failed(format!("not ready after {PATIENCE:?}")));
                }
            }
        }
        let status = runner.0.wait().map_err(|e| failed(plain(&e.to_string()).to_owned()))?;
        let complaint = complaint.join().unwrap_or_default();
        if status.success() { Ok(()) } else { Err(why(&name, &status.to_string(), &complaint)) }
    }
}

/// Child process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has exited, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of `stdout`, read by a thread that ends with them.
pub fn lines(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (lines, said) = channel();
    std::thread::spawn(move || {
        let all = BufReader::new(stdout).lines().map_while(Result::ok);
        all.map(|line| lines.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    said
}

/// Last bytes of a process's stderr.
fn complaint(stderr: impl Read) -> String {
    let mut kept = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if line.starts_with("error: ") || kept.len() > COMPLAINT_MAX {
            kept.clear();
        }
        kept.extend([line.as_str(), "\n"]);
    }
    kept
}

/// Error of a runner that failed with `status`, with its stderr.
fn why(name: &str, status: &str, complaint: &str) -> Error {
    let mut lines = complaint.lines();
    let said = lines.next().and_then(|line| line.strip_prefix("error: "));
    let advice = lines.next().and_then(|line| line.strip_prefix("  try: "));
    match (said, advice) {
        (Some(said), Some(advice)) => Error::new(format!("{name}: {said}")).advice(advice),
        (Some(said), None) => Error::new(format!("{name}: {said}")),
        _ => Error::new(format!(
            "{name}: {status}: {}",
            complaint.lines().last().unwrap_or("without a message")
        )),
    }
}

/// Timeout of a start, and of an exit after all work.
pub const PATIENCE: Duration = Duration::from_secs(75);
/// Interval between checks for an interruption.
const LOOK: Duration = Duration::from_millis(100);
/// Largest stderr tail kept, in bytes.
const COMPLAINT_MAX: usize = 1 << 16;
