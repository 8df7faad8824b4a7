//! Progress reports of a best-effort program: lines of JSON on stdout.
//!
//! One line a second while it works, and a last one with the check of its
//! result. The format is the same for all programs:
//!
//! ```text
//! {"workload":"swaptions","unit":"paths","at_s":1.0067,"total":72320,"per_s":71835.2}
//! {"workload":"swaptions","check":"holds","says":"0.044164 ± 0.000554, by formula 0.044235"}
//! ```

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use queueing::Span;
use serde::Serialize;

/// Duration of a program and interval of its reports: arguments of all programs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ProgressArgs {
    /// Duration of the work; default: until ctrl-C or SIGTERM
    #[arg(long = "for", value_name = "SPAN")]
    pub lasts: Option<Span>,
    /// Interval between progress lines
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    pub every: Span,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Check of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// True if the result is right.
    pub holds: bool,
    /// The result, and the expected one.
    pub says: String,
}

/// Counts and reports work.
#[derive(Debug)]
pub struct ProgressReporter {
    workload: &'static str,
    unit: &'static str,
    every: Duration,
    start: Instant,
    end: Option<Instant>,
    last_report: Instant,
    reported_total: u64,
    total: u64,
    stdout_is_open: bool,
    stop: &'static AtomicBool,
}

#[derive(Serialize)]
struct Line {
    workload: &'static str,
    unit: &'static str,
    at_s: f64,
    total: u64,
    per_s: f64,
}

#[derive(Serialize)]
struct Last<'a> {
    workload: &'static str,
    check: &'static str,
    says: &'a str,
}

impl ProgressReporter {
    /// Starts to count `unit`s; ends early when `stop` becomes true, or stdout has no reader.
    #[must_use]
    pub fn new(
        workload: &'static str,
        unit: &'static str,
        pace: ProgressArgs,
        stop: &'static AtomicBool,
    ) -> Self {
        let start = Instant::now();
        let end = pace.lasts.map(|span| start + Duration::from(span));
        let every = Duration::from(pace.every);
        let (last_report, reported_total, total, stdout_is_open) = (start, 0, 0, true);
        Self { workload, unit, every, start, end, last_report, reported_total, total, stdout_is_open, stop }
    }

    /// Counts `count` more units; true if the work shall continue.
    pub fn add(&mut self, count: u64) -> bool {
        self.total += count;
        let now = Instant::now();
        let since = now - self.last_report;
        if since >= self.every {
            let per_s = (self.total - self.reported_total) as f64 / since.as_secs_f64();
            let at_s = (now - self.start).as_secs_f64();
            let (workload, unit, total) = (self.workload, self.unit, self.total);
            self.stdout_is_open = print_line(&Line { workload, unit, at_s, total, per_s }).is_ok();
            (self.last_report, self.reported_total) = (now, self.total);
        }
        self.stdout_is_open && self.end.is_none_or(|end| now < end) && !self.stop.load(Ordering::Relaxed)
    }

    /// Reports the check of the result; returns the exit status, 1 for a wrong result.
    #[must_use]
    pub fn end(self, check: &Check) -> ExitCode {
        report_check(self.workload, check)
    }
}

/// Reports the check of `workload`'s result; returns its exit status.
#[must_use]
pub fn report_check(workload: &'static str, check: &Check) -> ExitCode {
    let word = if check.holds { "holds" } else { "fails" };
    let _ = print_line(&Last { workload, check: word, says: &check.says });
    ExitCode::from(u8::from(!check.holds))
}

/// Prints one line. Without a reader most programs here end by SIGPIPE; one that also writes to
/// other pipes gets the error.
fn print_line(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line).expect("plain figures and text");
    text.push('\n');
    io::stdout().lock().write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    static RUNS: AtomicBool = AtomicBool::new(false);
    static STOPPED: AtomicBool = AtomicBool::new(true);

    #[test]
    fn work_ends_after_its_duration_or_on_stop() {
        let pace = |lasts| ProgressArgs { lasts, every: Span::from_secs(3600), seed: 1 };
        assert!(ProgressReporter::new("x", "things", pace(None), &RUNS).add(1));
        assert!(!ProgressReporter::new("x", "things", pace(Some(Span::ZERO)), &RUNS).add(1));
        assert!(!ProgressReporter::new("x", "things", pace(None), &STOPPED).add(1));
    }

    #[test]
    fn a_wrong_result_is_an_exit_status() {
        let check = |holds| Check { holds, says: String::new() };
        assert_eq!(report_check("x", &check(true)), ExitCode::SUCCESS);
        assert_eq!(report_check("x", &check(false)), ExitCode::from(1));
    }
}
