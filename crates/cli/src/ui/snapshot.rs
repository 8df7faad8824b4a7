//! Snapshot of a running command, the common source of page, terminal and Prometheus.
//!
//! Plain data without a clock or presentation. Sent as JSON (`/snapshot.json`); spans are
//! nanoseconds, times are seconds since the command's start.

use queueing::Span;
use serde::{Deserialize, Serialize};

use super::labels::Labels;

/// Schema version; changes when a reader of the last one would misread this one.
pub const SCHEMA: u32 = 1;

/// State of a running command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Subcommand: `serve`, `run`, `sched`, `guard`.
    pub command: String,
    /// Version of greenwave.
    pub version: String,
    /// Description in a line.
    pub about: String,
    /// Process id.
    pub process: u32,
    /// Time of the snapshot, in seconds since the start.
    pub at_s: f64,
    /// Time since the last report; longer than a second or two means that the command is busy or
    /// stuck.
    pub silent_s: f64,
    /// The window of rates, spreads and moves; shorter than requested early in a run.
    pub window_s: f64,
    /// The metric of [`history`](Self::history).
    pub rate: String,
    /// Counters and gauges, in the order of the report.
    pub figures: Vec<Figure>,
    /// Distributions over the window.
    pub spreads: Vec<MetricDistribution>,
    /// A point about every second of the last minute, the oldest first.
    pub history: Vec<RatePoint>,
    /// Core assignment.
    pub owners: Vec<Owner>,
    /// Core moves within the window, the oldest first.
    pub moves: Vec<Move>,
    /// Moves of the window that were not kept.
    pub moves_lost: u64,
    /// The slowest requests of the window, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowRequest>,
}

/// A counter or a gauge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Prometheus' name, see [`METRICS`](super::metrics::METRICS).
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Current value.
    pub value: f64,
    /// A counter's growth per second over the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
}

impl Figure {
    /// A value of the metric `name`, a counter or gauge of that table.
    pub fn new(name: &str, labels: Labels, value: f64) -> Self {
        Self { name: name.to_owned(), labels, value, per_s: None }
    }
}

/// A distribution over the window, to two digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricDistribution {
    /// Prometheus' name.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Values per second.
    pub per_s: f64,
    /// 1st percentile.
    pub p1_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// Rates in the interval since the previous point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// End of the interval.
    pub at_s: f64,
    /// Growth of [`Snapshot::rate`] per second.
    pub rate: f64,
    /// Shed connections per second.
    pub shed: f64,
}

/// A core and its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// The core's number.
    pub core: u16,
    /// The task, if any.
    pub task: Option<String>,
    /// State of the core: `runs` (a task), `keeps` (reserved for a task), `quiet` (idle for its
    /// sibling), `free`, `shared` (scheduled by the kernel).
    pub how: String,
    /// Beginning of the assignment.
    pub since_s: f64,
}

/// A core's move from one task to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Time of the move.
    pub at_s: f64,
    /// The core's number.
    pub core: u16,
    /// The previous task; `free` for none.
    pub from: String,
    /// The new task.
    pub to: String,
    /// Observations at the move.
    pub why: String,
}

/// A slow request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Arrival or departure time.
    pub at_s: f64,
    /// Level, 0 the most urgent.
    pub class: u8,
    /// The operation, such as `GET /pay`, or `→ GET /pay` for a call by a program of this machine;
    /// empty if unknown.
    pub what: String,
    /// Outcome: `answered`, `gone`, `failed`.
    pub end: String,
    /// Sum of the stages.
    pub total_ns: u64,
    /// Time in the receive buffer, in TCP, in the event queue, at a worker, waiting for space in the send buffer.
    pub stages_ns: [u64; 5],
}

impl Snapshot {
    /// The figures called `name`.
    pub fn figures<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Figure> + 'a {
        self.figures.iter().filter(move |figure| figure.name == name)
    }

    /// The spreads called `name`.
    pub fn spreads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a MetricDistribution> + 'a {
        self.spreads.iter().filter(move |spread| spread.name == name)
    }

    /// True if the last report is so old that a reader should be warned.
    pub fn is_stale(&self) -> bool {
        self.silent_s > STALE.as_secs_f64()
    }
}

/// Age from which the last report counts as stale: several report intervals.
const STALE: Span = Span::from_secs(4);
