//! World `server`: one server on greenwave's stack and its clients. Source: ADPS.

use load::report::ClassReport;
use sim::world::server::{self, Config};
use toml::{Table, Value};

use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};

pub const WORLD: World = World {
    name: "server",
    kind: TimeKind::Sim,
    note: "times in µs; lost: unanswered",
    stats: &[
        column("requests", "1", "reqs"),
        column("never_sent", "1", "never"),
        column("unanswered", "1", "lost"),
        metric("late", "1"),
        metric("mean", "µs"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("p999", "µs", "p99.9"),
        metric("max", "µs"),
        column("wire", "µs", "wire"),
        column("nic", "µs", "nic"),
        column("tcp", "µs", "tcp"),
        column("event", "µs", "event"),
        column("service", "µs", "serve"),
    ],
    groups: &[("", 6), ("latency", 3), ("p99 spent in", 5)],
    plot_stat: "p99",
    parts: &["wire", "nic", "tcp", "event", "service"],
    prepare,
};

/// A mode without settings is the one of its name.
fn prepare(mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    settings.entry("mode").or_insert_with(|| Value::String(mode.to_owned()));
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = server::run(&config, &mut |_| {});
        let rows = outcome.report.classes.iter().map(|class| ClassFigures {
            class: class.name.clone(),
            figures: figures(class).to_vec(),
            cdf: points(class.cdf()),
        });
        Ok(RunResult { events: outcome.events, rows: rows.collect(), noise: None })
    }))
}

/// Figures of one class in the order of the table above.
fn figures(class: &ClassReport) -> [f64; WORLD.stats.len()] {
    let us = micros_if(class.latency.count() > 0);
    let at = &class.at_p99;
    [
        class.requests as f64,
        class.never_sent as f64,
        class.unanswered as f64,
        class.late as f64,
        us(class.latency.mean()),
        us(class.p50()),
        us(class.p99()),
        us(class.p999()),
        us(class.max()),
        us(at.client_and_wire),
        us(at.nic),
        us(at.tcp),
        us(at.event),
        us(at.service),
    ]
}
