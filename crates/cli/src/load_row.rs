//! A load report as table rows, the same for every command.

use ::load::{Breakdown, ClassReport, Report};

use queueing::Histogram;

use crate::table::{Table, micros};

/// First the counts that tell if the other figures are valid.
const COUNTS: [&str; 5] = ["requests", "unsent", "late", "lost", "errors"];
const LATENCY: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// A table of one run: counts per class, latencies from the due time (corrected for coordinated
/// omission), and from the send time.
#[must_use]
pub fn latency_table(report: &Report) -> Table {
    let header: Vec<&str> = ["class"].into_iter().chain(COUNTS).chain(LATENCY).chain(LATENCY).collect();
    let groups = [("", 6), ("from due, µs", 4), ("from send, µs", 4)];
    let mut table = Table::new(1, &header).groups(&groups);
    for class in &report.classes {
        let counts = counts(class).into_iter().chain([class.errors.to_string()]);
        let words = std::iter::once(class.name.clone()).chain(counts);
        let both = latency(class).into_iter().chain(quantiles(&class.latency_from_send));
        table.row(words.chain(both).collect());
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
    quantiles(&class.latency)
}

/// p50, p99, p99.9, max in µs; dashes if there are none.
fn quantiles(latency: &Histogram) -> [String; 4] {
    if latency.count() == 0 {
        return std::array::from_fn(|_| "–".to_owned());
    }
    [latency.quantile(0.5), latency.quantile(0.99), latency.quantile(0.999), latency.max()].map(micros)
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
