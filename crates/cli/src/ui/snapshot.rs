//! What is live now: the one thing that page, terminal and Prometheus show.
//!
//! Plain data, no clock, no opinion on how it looks. It travels as JSON
//! (`/snapshot.json`); spans there are nanoseconds, times are seconds since the
//! command began.

use queueing::Span;
use serde::{Deserialize, Serialize};

use super::labels::Labels;

/// Changes when a reader of the last one would misread this one.
pub const SCHEMA: u32 = 1;

/// What is live now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `serve`, `run`, `sched`, `guard`.
    pub command: String,
    /// Of greenwave.
    pub version: String,
    /// What it does, in a line.
    pub about: String,
    /// Its process.
    pub process: u32,
    /// When this was taken, in seconds since it began.
    pub at_s: f64,
    /// For how long it has not said anything new; longer than a second or two
    /// means that it is busy with something else, or stuck.
    pub silent_s: f64,
    /// The time that rates, spreads and moves are of; less than what was asked
    /// for when it has not run for so long.
    pub window_s: f64,
    /// The figure that [`history`](Self::history) follows.
    pub rate: String,
    /// Counters and gauges, in the order in which the command tells them.
    pub figures: Vec<Figure>,
    /// How long things took, over the window.
    pub spreads: Vec<Spread>,
    /// A point about every second, the oldest first; of the last minute.
    pub history: Vec<Point>,
    /// Who has which core.
    pub owners: Vec<Owner>,
    /// Cores that changed hands within the window, the oldest first.
    pub moves: Vec<Move>,
    /// Moves of the window that were too many to keep.
    pub moves_lost: u64,
    /// The slowest requests of the window, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Request>,
}

/// A counter or a gauge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// As Prometheus knows it, see [`METRICS`](super::metrics::METRICS).
    pub name: String,
    /// Of what.
    pub labels: Labels,
    /// Now.
    pub value: f64,
    /// Of a counter, how much it grew each second of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
}

impl Figure {
    /// Of the metric `name`, a counter or gauge of that table.
    pub fn new(name: &str, labels: Labels, value: f64) -> Self {
        Self { name: name.to_owned(), labels, value, per_s: None }
    }
}

/// A distribution over the window, to two digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// As Prometheus knows it.
    pub name: String,
    /// Of what.
    pub labels: Labels,
    /// How many there were, each second.
    pub per_s: f64,
    /// A hundredth of them was not longer.
    pub p1_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// All but a hundredth were not longer.
    pub p99_ns: u64,
    /// All but a thousandth.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What happened until a moment, since the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When.
    pub at_s: f64,
    /// Of [`Snapshot::rate`], each second.
    pub rate: f64,
    /// Shed, each second.
    pub shed: f64,
}

/// A core and who has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub core: u16,
    /// The task, or nobody.
    pub task: Option<String>,
    /// How: `runs`, `keeps`, `quiet`, `free`, `shared`.
    pub how: String,
    /// Since when.
    pub since_s: f64,
}

/// A core that changed hands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// When.
    pub at_s: f64,
    /// Its number.
    pub core: u16,
    /// Who had it; `free` for nobody.
    pub from: String,
    /// Who has it.
    pub to: String,
    /// What was seen then.
    pub why: String,
}

/// A slow request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// When it came, or left.
    pub at_s: f64,
    /// Its level, 0 the most urgent.
    pub class: u8,
    /// What it wanted, such as `GET /pay`, or `→ GET /pay` where a program of this
    /// machine asked; empty where it does not say.
    pub what: String,
    /// `answered`, `gone`, `failed`.
    pub end: String,
    /// All stages together.
    pub total_ns: u64,
    /// In the receive buffer, in TCP, in the event queue, at a worker, on the way out.
    pub stages_ns: [u64; 5],
}

impl Snapshot {
    /// The figures called `name`.
    pub fn figures<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Figure> + 'a {
        self.figures.iter().filter(move |figure| figure.name == name)
    }

    /// The spreads called `name`.
    pub fn spreads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Spread> + 'a {
        self.spreads.iter().filter(move |spread| spread.name == name)
    }

    /// Whether it has been silent for so long that a reader should know.
    pub fn is_stale(&self) -> bool {
        self.silent_s > STALE.as_secs_f64()
    }
}

/// A few times what lies between two looks.
const STALE: Span = Span::from_secs(4);
