//! Every metric that greenwave exports, and Prometheus' text of them.
//!
//! The table is the contract: names and labels in it stay as they are. The
//! guide's table (`docs/guide/watch.md`) is this one, held to it by a test; so
//! is the Grafana dashboard. Whoever exports (`--ui`, `sched`'s metrics file,
//! `guard status --metrics`) goes through [`text`].
//! Source: Prometheus' text exposition format 0.0.4.

use std::fmt::Write as _;

use queueing::{Histogram, Span};

use super::labels::Labels;
use super::snapshot::Figure;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows from 0.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Spans, in buckets of [`BOUNDS_NS`].
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name; counters end in `_total`, spans in `_seconds`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, in a list; empty for none.
    pub labels: &'static str,
    /// The commands that export it.
    pub by: &'static str,
    /// What it says.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, by, help }
}

const fn gauge(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, by, help }
}

const fn spans(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, by, help }
}

/// How long requests waited.
pub const WAIT: &str = "greenwave_wait_seconds";
/// What was left of budgets.
pub const LEFT: &str = "greenwave_budget_left_seconds";
/// Who was shed.
pub const SHED: &str = "greenwave_guard_shed_total";
/// Who came.
pub const CAME: &str = "greenwave_guard_seen_total";
/// Side that reset.
pub const RESETS: &str = "greenwave_resets_total";
/// What waits.
pub const DEPTH: &str = "greenwave_queue_depth";

const STACK: &str = "serve, run";

/// All of them, in the order in which they are exported.
pub const METRICS: &[Metric] = &[
    gauge("greenwave_build_info", "command, version", "all", "Always 1; its labels say what runs."),
    gauge("greenwave_up_seconds", "", "all", "Since the command began."),
    spans(WAIT, "class, stage", "serve", "How long requests waited at a stage; service is the worker's."),
    spans(
        LEFT,
        "class, hop",
        "serve",
        "What requests could still wait when a worker took them; 0: too late.",
    ),
    counter("greenwave_connections_total", "shard", STACK, "Connections that came."),
    counter("greenwave_datagrams_total", "shard", STACK, "Datagrams that came."),
    counter("greenwave_requests_total", "shard", "serve", "Requests given to workers."),
    counter("greenwave_responses_total", "shard", "serve", "Responses handed to the transport in full."),
    counter(
        RESETS,
        "shard, by",
        STACK,
        "Connections reset by us or by their peers, and segments refused by a reset.",
    ),
    counter("greenwave_dropped_total", "shard, reason", STACK, "Frames, requests and responses given up."),
    counter("greenwave_frames_total", "shard", STACK, "Frames that came."),
    counter(
        "greenwave_bytes_total",
        "shard, direction",
        "run",
        "Bytes handed to programs, and written by them.",
    ),
    counter(
        "greenwave_opened_total",
        "shard, outcome",
        "run",
        "Connections that programs opened, or could not.",
    ),
    counter(
        "greenwave_kernel_sockets_total",
        "protocol, use",
        "run",
        "Sockets of the program that are the kernel's and should be the stack's.",
    ),
    gauge("greenwave_kernel_sockets_watched", "", "run", "Whether such sockets are looked for."),
    gauge("greenwave_kernel_sockets_unseen", "", "run", "Processes whose sockets may not be looked at."),
    gauge(DEPTH, "shard, queue", STACK, "What waits in a queue now."),
    gauge("greenwave_connections", "shard", STACK, "Connections that are open."),
    gauge("greenwave_workers_busy", "shard", "serve", "Workers that serve a request."),
    counter(CAME, "device, class", "serve, run, guard", "Connections that came to the guard."),
    counter(SHED, "device, class, reason", "serve, run, guard", "Connections that were shed."),
    spans(
        "greenwave_guard_oldest_seconds",
        "device",
        "serve",
        "How long the oldest had waited at each look.",
    ),
    counter("greenwave_guard_passed_silent_total", "device", "guard", "Let in as the controller was silent."),
    gauge(
        "greenwave_guard_delay_seconds",
        "device",
        "guard",
        "How long the first in the accept queue has waited.",
    ),
    gauge("greenwave_guard_waiting", "device", "guard", "Connections in the accept queues."),
    gauge("greenwave_guard_room", "device", "guard", "Connections that fit there."),
    gauge(
        "greenwave_guard_unanswered",
        "device",
        "guard",
        "Connections that wait for their first answer, where the guard looks at that.",
    ),
    gauge(
        "greenwave_guard_unanswered_delay_seconds",
        "device",
        "guard",
        "How long the first of these has waited.",
    ),
    gauge("greenwave_guard_services", "device", "guard", "Services that are to tell of their requests."),
    gauge("greenwave_guard_services_telling", "device", "guard", "Services that do."),
    gauge("greenwave_guard_requests_waiting", "device", "guard", "Requests that wait there."),
    gauge(
        "greenwave_guard_requests_delay_seconds",
        "device",
        "guard",
        "How long the first of these has waited.",
    ),
    counter("greenwave_guard_served_total", "device", "guard", "Connections that the server accepted."),
    counter(
        "greenwave_guard_phantoms_total",
        "device",
        "guard",
        "Dropped by the kernel at full accept queues.",
    ),
    counter("greenwave_guard_listen_drops_total", "device", "guard", "Dropped by the kernel at listeners."),
    gauge("greenwave_guard_alive", "device", "guard", "Whether the controller looks."),
    gauge("greenwave_sched_cores", "task, class", "sched", "Cores that a task holds."),
    gauge("greenwave_sched_cpu", "task, class", "sched", "Cores that a task used."),
    gauge("greenwave_sched_wait_seconds", "task, class", "sched", "Mean wait for a core."),
    gauge("greenwave_sched_wait_longest_seconds", "task, class", "sched", "Longest mean wait of a round."),
    gauge("greenwave_sched_parked", "task, class", "sched", "Whether a task is parked."),
    counter("greenwave_sched_rounds_total", "", "sched", "Rounds."),
    counter("greenwave_sched_actions_total", "", "sched", "Decisions carried out."),
    counter("greenwave_sched_conditions_total", "", "sched", "Conditions raised."),
    spans("greenwave_sched_round_seconds", "", "sched", "What a round took."),
    gauge("greenwave_sched_dram_slowdown", "", "sched", "A load's time over an idle machine's."),
    gauge(
        "greenwave_sched_condition",
        "trouble, where",
        "sched",
        "Interference that cannot be managed here.",
    ),
];

/// The metric called `name`.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Whether there is one that `command` exports.
pub fn is_known(name: &str, command: &str) -> bool {
    find(name).is_some_and(|metric| metric.by == "all" || metric.by.split(", ").any(|by| by == command))
}

/// Whether `name` is a counter.
pub fn is_counter(name: &str) -> bool {
    find(name).is_some_and(|metric| metric.kind == Kind::Counter)
}

/// Where buckets end, in nanoseconds: 1, 2.5 and 5 of each decade from 1 µs to 10 s.
pub const BOUNDS_NS: [u64; 22] = {
    let (mut bounds, mut unit, mut place) = ([0; 22], 1_000, 0);
    while place < 21 {
        bounds[place] = unit;
        bounds[place + 1] = unit * 5 / 2;
        bounds[place + 2] = unit * 5;
        unit *= 10;
        place += 3;
    }
    bounds[21] = unit;
    bounds
};

/// A histogram since the beginning, as Prometheus keeps it.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// The metric.
    pub name: &'static str,
    /// Of what.
    pub labels: Labels,
    /// Up to each bound and not up to the one before.
    counts: [u64; BOUNDS_NS.len()],
    count: u64,
    sum_s: f64,
}

impl Buckets {
    /// Empty.
    pub const fn new(name: &'static str, labels: Labels) -> Self {
        Self { name, labels, counts: [0; BOUNDS_NS.len()], count: 0, sum_s: 0.0 }
    }

    /// Adds what was recorded, to the recorder's digits.
    pub fn add(&mut self, recorded: &Histogram) {
        for (span, times) in recorded.counts() {
            let place = BOUNDS_NS.partition_point(|&bound| bound < span.as_nanos());
            if let Some(count) = self.counts.get_mut(place) {
                *count += times;
            }
        }
        self.count += recorded.count();
        self.sum_s += recorded.mean().as_secs_f64() * recorded.count() as f64;
    }

    fn write(&self, text: &mut String) {
        let (name, labels) = (self.name, &self.labels);
        let mut below = 0;
        for (bound, count) in BOUNDS_NS.iter().zip(self.counts) {
            below += count;
            let le = Span::from_nanos(*bound).as_secs_f64();
            line(text, &format!("{name}_bucket"), &labels.clone().with("le", le), below as f64);
        }
        line(text, &format!("{name}_bucket"), &labels.clone().with("le", "+Inf"), self.count as f64);
        line(text, &format!("{name}_sum"), labels, self.sum_s);
        line(text, &format!("{name}_count"), labels, self.count as f64);
    }
}

fn line(text: &mut String, name: &str, labels: &Labels, value: f64) {
    let value = if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() };
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// Prometheus' text of `figures` and `sums`, in the table's order.
pub fn text(figures: &[Figure], sums: &[Buckets]) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, .. } in METRICS {
        let figures = || figures.iter().filter(|figure| figure.name == *name);
        let sums = || sums.iter().filter(|sum| sum.name == *name);
        if figures().next().is_none() && sums().next().is_none() {
            continue;
        }
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
        figures().for_each(|figure| line(&mut text, name, &figure.labels, figure.value));
        sums().for_each(|sum| sum.write(&mut text));
    }
    text
}

#[cfg(test)]
mod tests;
