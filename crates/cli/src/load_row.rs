//! A load report as table rows, the same for every command.

use ::load::{Breakdown, ClassReport, Report};

use crate::table::{Table, micros};

/// First the counts that tell if the other figures are valid.
const COUNTS: [&str; 4] = ["requests", "unsent", "late", "lost"];
const LATENCY: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// A table of one run: latencies and counts per class.
#[must_use]
pub fn latency_table(report: &Report) -> Table {
    let header: Vec<&str> = ["class"].into_iter().chain(COUNTS).chain(LATENCY).collect();
    let mut table = Table::new(1, &header).groups(&[("", 5), ("latency, µs", 4)]);
    for class in &report.classes {
        table.row([vec![class.name.clone()], counts(class).to_vec(), latency(class).to_vec()].concat());
    }
    table
}

/// Requests, never sent, late, lost.
#[must_use]
pub fn counts(class: &ClassReport) -> [String; 4] {
    [class.requests, class.never_sent, class.late, class.unanswered].map(|n| n.to_string())
}

/// p50, p99, p99.9, max in µs; dashes without answers.
#[must_use]
pub fn latency(class: &ClassReport) -> [String; 4] {
    if class.answered() == 0 {
        return std::array::from_fn(|_| "–".to_owned());
    }
    [class.p50(), class.p99(), class.p999(), class.max()].map(micros)
}

/// The distribution of a class's latency, for plots: µs and the share answered
/// within.
#[must_use]
pub fn curve(class: &ClassReport) -> Vec<(f64, f64)> {
    class.cdf().into_iter().map(|(latency, share)| (latency.as_micros_f64(), share)).collect()
}

/// Stages of the p99 in µs: NIC queue, TCP, event queue, service, rest.
#[must_use]
pub fn stages(at: &Breakdown) -> [String; 5] {
    [at.nic, at.tcp, at.event, at.service, at.client_and_wire].map(micros)
}
