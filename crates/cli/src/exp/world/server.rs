//! One server on our stack and its clients: ADPS's world.

use load::report::ClassReport;
use queueing::{Histogram, Span};
use sim::world::server::{self, Config};
use toml::{Table, Value};

use super::{Found, Kind, Row, Run, World, checked, kept, micros_of, points, shown};

pub const WORLD: World = World {
    name: "server",
    kind: Kind::Sim,
    note: "times in µs; lost: sent and not answered",
    stats: &[
        shown("requests", "1", "reqs"),
        shown("never_sent", "1", "never"),
        shown("unanswered", "1", "lost"),
        kept("late", "1"),
        kept("mean", "µs"),
        shown("p50", "µs", "p50"),
        shown("p99", "µs", "p99"),
        shown("p999", "µs", "p99.9"),
        kept("max", "µs"),
        shown("wire", "µs", "wire"),
        shown("nic", "µs", "nic"),
        shown("tcp", "µs", "tcp"),
        shown("event", "µs", "event"),
        shown("service", "µs", "serve"),
    ],
    groups: &[("", 6), ("latency", 3), ("p99 spent in", 5)],
    drawn: "p99",
    parts: &["wire", "nic", "tcp", "event", "service"],
    prepare,
};

/// The mode that is not set is the one its name says.
fn prepare(mode: &str, mut settings: Table) -> Result<Run, String> {
    settings.entry("mode").or_insert_with(|| Value::String(mode.to_owned()));
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = server::run(&config, &mut |_| {});
        let rows = outcome.report.classes.iter().map(|class| Row {
            class: class.name.clone(),
            figures: figures(class).to_vec(),
            cdf: points(class.cdf()),
        });
        Ok(Found { events: outcome.events, rows: rows.collect(), noise: None })
    }))
}

/// One class's figures in the order of the table above.
fn figures(class: &ClassReport) -> [f64; WORLD.stats.len()] {
    let (latency, at) = (&class.latency, &class.at_p99);
    let spent = |span: Span| micros_of(latency, |_| span);
    [
        class.requests as f64,
        class.never_sent as f64,
        class.unanswered as f64,
        class.late as f64,
        micros_of(latency, Histogram::mean),
        micros_of(latency, |latency| latency.quantile(0.5)),
        micros_of(latency, |latency| latency.quantile(0.99)),
        micros_of(latency, |latency| latency.quantile(0.999)),
        micros_of(latency, Histogram::max),
        spent(at.client_and_wire),
        spent(at.nic),
        spent(at.tcp),
        spent(at.event),
        spent(at.service),
    ]
}
