//! Table of every metric that greenwave exports, and Prometheus' text of them.
//!
//! The table is the contract: its names and labels do not change. The guide's table
//! (`docs/guide/watch.md`) is this one, which a test checks, as it does the Grafana dashboard.
//! Every export (`--ui`, `sched`'s metrics file, `guard status --metrics`) goes through [`text`].
//! Source: Prometheus' text exposition format 0.0.4.

use std::fmt::Write as _;

use queueing::{Histogram, Span};

use super::labels::Labels;
use super::snapshot::Figure;
use crate::renames;

/// Kinds of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Monotonic, from 0.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Spans, in buckets of [`BOUNDS_NS`].
    Histogram,
}

impl MetricKind {
    /// Prometheus' name of the kind.
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
    /// Name; counters end in `_total`, spans in `_seconds`.
    pub name: &'static str,
    /// Kind.
    pub kind: MetricKind,
    /// Labels, as a list; empty for none.
    pub labels: &'static str,
    /// The commands that export it.
    pub by: &'static str,
    /// Help text.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, by, help }
}

const fn gauge(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, by, help }
}

const fn spans(name: &'static str, labels: &'static str, by: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, by, help }
}

/// Waiting times of requests.
pub const WAIT: &str = "greenwave_stage_wait_seconds";
/// Remaining budgets.
pub const LEFT: &str = "greenwave_deadline_slack_seconds";
/// Shed connections.
pub const SHED: &str = "greenwave_guard_shed_total";
/// Connections seen by a guard.
pub const OFFERED: &str = "greenwave_guard_offered_total";
/// Connections seen by a guard at a port, those that it shed there, and 1 if the port has a limit.
pub const PORT_OFFERED: &str = "greenwave_guard_port_offered_total";
pub const PORT_SHED: &str = "greenwave_guard_port_shed_total";
pub const PORT_HANDSHAKES: &str = "greenwave_guard_port_handshake_completion_ratio";
pub const PORT_LIMITED: &str = "greenwave_guard_port_limited";
/// Resets, by side.
pub const RESETS: &str = "greenwave_resets_total";
/// Queue depths.
pub const DEPTH: &str = "greenwave_queue_depth";

const STACK: &str = "serve, run";

/// All metrics, in the order of export.
pub const METRICS: &[Metric] = &[
    gauge(
        "greenwave_build_info",
        "command, version",
        "all",
        "Always 1; the labels hold the command and the version.",
    ),
    gauge("greenwave_uptime_seconds", "", "all", "Seconds since the command started."),
    spans(
        WAIT,
        "class, stage",
        "serve",
        "Time that requests spent in each stage; stage service is the worker's processing time.",
    ),
    spans(
        LEFT,
        "class, hop",
        "serve",
        "Deadline budget left when a worker started the request; 0: deadline missed.",
    ),
    counter("greenwave_connections_total", "shard", STACK, "Incoming connections."),
    counter("greenwave_datagrams_total", "shard", STACK, "UDP datagrams received."),
    counter("greenwave_requests_total", "shard", "serve", "Requests dispatched to workers."),
    counter("greenwave_responses_total", "shard", "serve", "Responses passed to the transport in full."),
    counter(
        RESETS,
        "shard, by",
        STACK,
        "Connections reset, by the stack or by the peer, and segments answered with a reset.",
    ),
    counter(
        "greenwave_dropped_total",
        "shard, reason",
        STACK,
        "Frames, requests and responses dropped, by reason.",
    ),
    counter("greenwave_frames_total", "shard", STACK, "Frames received."),
    counter("greenwave_bytes_total", "shard, direction", "run", "Bytes read and written by the application."),
    counter(
        "greenwave_connect_total",
        "shard, outcome",
        "run",
        "Outgoing connections of the application, by outcome.",
    ),
    counter(
        "greenwave_kernel_sockets_total",
        "protocol, use",
        "run",
        "Kernel sockets opened by the application that greenwave's stack should have served.",
    ),
    gauge(
        "greenwave_kernel_sockets_watched",
        "",
        "run",
        "1 if greenwave scans the application for kernel sockets.",
    ),
    gauge(
        "greenwave_kernel_sockets_unseen",
        "",
        "run",
        "Application processes whose sockets greenwave has no permission to inspect.",
    ),
    gauge(DEPTH, "shard, queue", STACK, "Entries in a queue."),
    gauge("greenwave_connections", "shard", STACK, "Open connections."),
    gauge("greenwave_workers_busy", "shard", "serve", "Workers that are processing a request."),
    counter(OFFERED, "device, class", "serve, run, guard", "New connections that reached the guard."),
    counter(
        SHED,
        "device, class, reason",
        "serve, run, guard",
        "New connections dropped by the guard, by reason.",
    ),
    counter(PORT_OFFERED, "device, port", "guard", "New connections to a port that reached the guard."),
    counter(PORT_SHED, "device, port", "guard", "New connections to a port dropped by the guard."),
    gauge(
        PORT_HANDSHAKES,
        "device, port",
        "guard",
        "Recent share of admitted SYNs to the port whose handshake was completed; a SYN flood lowers it.",
    ),
    gauge(PORT_LIMITED, "device, port", "guard", "1 if the guard limits new connections to the port."),
    spans(
        "greenwave_guard_head_age_seconds",
        "device",
        "serve",
        "Age of the oldest waiting connection, sampled in each control interval.",
    ),
    counter(
        "greenwave_guard_failopen_total",
        "device",
        "guard",
        "Connections admitted because the guard's controller was stalled.",
    ),
    gauge(
        "greenwave_guard_accept_queue_age_seconds",
        "device",
        "guard",
        "Age of the oldest connection in the accept queues.",
    ),
    gauge("greenwave_guard_accept_queue_length", "device", "guard", "Connections in the accept queues."),
    gauge(
        "greenwave_guard_accept_queue_limit",
        "device",
        "guard",
        "Capacity of the accept queues, in connections.",
    ),
    gauge(
        "greenwave_guard_pending_response",
        "device",
        "guard",
        "Connections without a first response byte; 0 unless attached with --measure first-byte.",
    ),
    gauge(
        "greenwave_guard_pending_response_age_seconds",
        "device",
        "guard",
        "Age of the oldest connection without a first response byte.",
    ),
    gauge(
        "greenwave_guard_reporters",
        "device",
        "guard",
        "Services configured to report their request queue to the guard.",
    ),
    gauge(
        "greenwave_guard_reporters_alive",
        "device",
        "guard",
        "Services currently reporting their request queue to the guard.",
    ),
    gauge(
        "greenwave_guard_app_queue_length",
        "device",
        "guard",
        "Requests waiting inside the reporting services.",
    ),
    gauge(
        "greenwave_guard_app_queue_age_seconds",
        "device",
        "guard",
        "Age of the oldest request waiting inside the reporting services.",
    ),
    counter("greenwave_guard_accepted_total", "device", "guard", "Connections accepted by the server."),
    counter(
        "greenwave_guard_listen_overflows_total",
        "device",
        "guard",
        "Connections dropped by the kernel at a full accept queue since the attach, in the network namespace.",
    ),
    counter(
        "greenwave_guard_listen_drops_total",
        "device",
        "guard",
        "Connections dropped by the kernel at listening sockets, for any reason.",
    ),
    gauge("greenwave_guard_controller_up", "device", "guard", "1 if the guard's controller is running."),
    gauge("greenwave_sched_cores", "task, class", "sched", "Cores assigned to a task."),
    gauge("greenwave_sched_cpu_cores", "task, class", "sched", "CPU time used by a task, in cores."),
    gauge(
        "greenwave_sched_wait_seconds",
        "task, class",
        "sched",
        "Mean run-queue delay of a task's threads.",
    ),
    gauge(
        "greenwave_sched_wait_longest_seconds",
        "task, class",
        "sched",
        "Highest per-round mean of the run-queue delay of a task's threads.",
    ),
    gauge("greenwave_sched_parked", "task, class", "sched", "1 if the task is parked (has no core)."),
    gauge(
        "greenwave_sched_unmanaged_threads",
        "task, class",
        "sched",
        "Threads in a task's control group that are not managed.",
    ),
    gauge(
        "greenwave_sched_unwatched_threads",
        "task, class",
        "sched",
        "Managed threads of a task whose waits are not read.",
    ),
    counter("greenwave_sched_rounds_total", "", "sched", "Scheduling rounds."),
    counter("greenwave_sched_reallocations_total", "", "sched", "Scheduling decisions carried out."),
    counter("greenwave_sched_alarms_total", "", "sched", "Interference alarms raised."),
    spans("greenwave_sched_round_seconds", "", "sched", "Duration of a scheduling round."),
    gauge(
        "greenwave_sched_dram_slowdown",
        "",
        "sched",
        "DRAM load latency relative to an idle machine; 1: idle.",
    ),
    gauge(
        "greenwave_sched_alarm",
        "trouble, where",
        "sched",
        "1 while greenwave detects interference that it cannot remove.",
    ),
];

/// The metric called `name`.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// True if `command` exports a metric of that name.
pub fn is_known(name: &str, command: &str) -> bool {
    find(name).is_some_and(|metric| metric.by == "all" || metric.by.split(", ").any(|by| by == command))
}

/// True if `name` is a counter.
pub fn is_counter(name: &str) -> bool {
    find(name).is_some_and(|metric| metric.kind == MetricKind::Counter)
}

/// Upper bounds of buckets in nanoseconds: 1, 2.5 and 5 of each decade from 1 µs to 10 s.
pub const BOUNDS_NS: [u64; 22] = {
    let (mut bounds, mut unit, mut slot) = ([0; 22], 1_000, 0);
    while slot < 21 {
        bounds[slot] = unit;
        bounds[slot + 1] = unit * 5 / 2;
        bounds[slot + 2] = unit * 5;
        unit *= 10;
        slot += 3;
    }
    bounds[21] = unit;
    bounds
};

/// A cumulative histogram, as Prometheus keeps it.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's labels.
    pub labels: Labels,
    /// Counts above the previous bound and up to this one.
    counts: [u64; BOUNDS_NS.len()],
    count: u64,
    sum_s: f64,
}

impl Buckets {
    /// An empty histogram.
    pub const fn new(name: &'static str, labels: Labels) -> Self {
        Self { name, labels, counts: [0; BOUNDS_NS.len()], count: 0, sum_s: 0.0 }
    }

    /// Adds `recorded`, at the recorder's precision.
    pub fn add(&mut self, recorded: &Histogram) {
        for (span, times) in recorded.counts() {
            let bucket = BOUNDS_NS.partition_point(|&bound| bound < span.as_nanos());
            if let Some(count) = self.counts.get_mut(bucket) {
                *count += times;
            }
        }
        self.count += recorded.count();
        self.sum_s += recorded.mean().as_secs_f64() * recorded.count() as f64;
    }

    /// Writes the histogram under `name`.
    fn write(&self, name: &str, text: &mut String) {
        let labels = &self.labels;
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

/// Prometheus' text of `figures` and `sums`, in the table's order; a renamed metric follows once more
/// under its old name.
pub fn text(figures: &[Figure], sums: &[Buckets]) -> String {
    let mut text = String::new();
    for Metric { name, kind, help, .. } in METRICS {
        let figures: Vec<_> = figures.iter().filter(|figure| figure.name == *name).collect();
        let sums: Vec<_> = sums.iter().filter(|sum| sum.name == *name).collect();
        if figures.is_empty() && sums.is_empty() {
            continue;
        }
        let mut family = |name: &str, help: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
            figures.iter().for_each(|figure| line(&mut text, name, &figure.labels, figure.value));
            sums.iter().for_each(|sum| sum.write(name, &mut text));
        };
        family(name, help);
        for (old, _) in renames::METRICS.iter().filter(|(_, new)| new == name) {
            family(old, &format!("Renamed to {name}; removed in the next release."));
        }
    }
    text
}

//~ views: `/metrics` passes a strict parser and matches the guide and the Grafana dashboard
#[cfg(test)]
mod tests;
