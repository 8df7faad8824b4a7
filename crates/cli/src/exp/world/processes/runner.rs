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
pub struct RunnerInput {
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
        "age_max_ns": config.age_max.as_nanos(), "capacity": config.capacity,
        "stages": config.stages.iter().map(stage).collect::<Vec<_>>(),
        "slos": config.slos.iter().map(slo).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The other lines, for `trace`.
pub fn plan(trace: &[TraceRequest]) -> String {
    let mut text = String::new();
    for request in trace {
        let _ = write!(text, "{},{}", request.at.as_nanos(), request.class);
        for part in &request.parts {
            let _ = write!(text, ",{}", part.service.as_nanos());
        }
        if let Some(query) = request.query {
            let _ = write!(text, ",{query}");
        }
        text.push('\n');
    }
    text
}

/// Time limit of a run of `trace` after `ready`: the last birth, the total work of the busiest
/// stage on one server, and the runner's own timeout.
pub fn duration_max(trace: &[TraceRequest]) -> Duration {
    let births = trace.last().map_or(Span::ZERO, |request| request.at.since(Time::ZERO));
    let work = |n: usize| trace.iter().map(|request| request.parts[n].service).sum::<Span>();
    let parts = trace.last().map_or(0, |request| request.parts.len());
    let most = (0..parts).map(work).max().unwrap_or(Span::ZERO);
    Duration::from(births + most) + TIMEOUT
}

impl RunnerInput {
    /// Starts `command`, writes the input, and passes each line after `ready` to `on_line`. The run
    /// may take `limit` after `ready`.
    ///
    /// # Errors
    /// The runner does not start, fails, sends a line that `on_line` rejects, or exceeds its time
    /// limit.
    pub fn run(
        self,
        mut command: Command,
        limit: Duration,
        on_line: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<(), Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().map_err(|e| {
            Error::new(format!("{name}: {}", plain(&e.to_string())))
                .advice("make testbed, which reports what is missing")
        })?;
        let mut runner = KillOnDrop(child);
        let failed = |message: String| Error::new(format!("{name}: {message}"));

        let mut stdin = runner.0.stdin.take().expect("stdin is piped");
        let input = format!("{}\n{}", self.setup, self.plan);
        // A runner that does not read its stdin prints the reason, or times out and is killed.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let stdout = runner.0.stdout.take().expect("stdout is piped");
        let stdout_lines = lines(stdout);
        let stderr = runner.0.stderr.take().expect("stderr is piped");
        let stderr_tail = std::thread::spawn(move || stderr_tail(stderr));

        let mut deadline = Instant::now() + TIMEOUT;
        let mut ready = false;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let next = stdout_lines.recv_timeout(remaining.min(POLL_INTERVAL));
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            match next {
                Ok(line) if ready => on_line(&line).map_err(failed)?,
                Ok(line) if line == "ready" => (ready, deadline) = (true, Instant::now() + limit),
                Ok(line) => return Err(failed(format!("{line:?} is not \"ready\""))),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if remaining > POLL_INTERVAL => {}
                Err(RecvTimeoutError::Timeout) if ready => {
                    return Err(failed(format!("not done after {limit:?}")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(failed(format!("not ready after {TIMEOUT:?}")));
                }
            }
        }
        let status = runner.0.wait().map_err(|e| failed(plain(&e.to_string()).to_owned()))?;
        let stderr_tail = stderr_tail.join().unwrap_or_default();
        if status.success() { Ok(()) } else { Err(failure(&name, &status.to_string(), &stderr_tail)) }
    }
}

/// Child process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Fails if it has exited, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of `stdout`, read by a thread that ends with them.
pub fn lines(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (lines, receiver) = channel();
    std::thread::spawn(move || {
        let all = BufReader::new(stdout).lines().map_while(Result::ok);
        all.map(|line| lines.send(line)).take_while(Result::is_ok).for_each(drop);
    });
    receiver
}

/// Last bytes of a process's stderr.
fn stderr_tail(stderr: impl Read) -> String {
    let mut tail = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if line.starts_with("error: ") || tail.len() > STDERR_MAX {
            tail.clear();
        }
        tail.extend([line.as_str(), "\n"]);
    }
    tail
}

/// Error of a runner that failed with `status`, with its stderr.
fn failure(name: &str, status: &str, stderr_tail: &str) -> Error {
    let mut lines = stderr_tail.lines();
    let message = lines.next().and_then(|line| line.strip_prefix("error: "));
    let advice = lines.next().and_then(|line| line.strip_prefix("  try: "));
    match (message, advice) {
        (Some(message), Some(advice)) => Error::new(format!("{name}: {message}")).advice(advice),
        (Some(message), None) => Error::new(format!("{name}: {message}")),
        _ => Error::new(format!(
            "{name}: {status}: {}",
            stderr_tail.lines().last().unwrap_or("without a message")
        )),
    }
}

/// Timeout of a start, and of an exit after all work.
pub const TIMEOUT: Duration = Duration::from_secs(75);
/// Interval between checks for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Largest stderr tail kept, in bytes.
const STDERR_MAX: usize = 1 << 16;
