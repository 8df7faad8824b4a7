//! World `callers`: greenwave's stack under overload by clients with one request each.
//!
//! One row for all clients, and one for those that are shed first, if any. `line` is the capacity
//! by (7) of a server that always receives first, from the costs of the stack's steps.

use queueing::Span;
use sim::world::overloaded_stack::{self, Config, Outcome};
use toml::Table;

use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, points};
use crate::error::Error;

pub const WORLD: World = World {
    name: "callers",
    kind: TimeKind::Sim,
    note: "goodput: answered before the client timed out; delay: the longest wait in a control interval",
    stats: &[
        column("offered", "1/s", "offered"),
        column("served", "1/s", "served"),
        column("line", "1/s", "(7)"),
        column("goodput", "1/s", "good/s"),
        column("shed", "%", "shed %"),
        metric("refused", "%"),
        column("receiving", "%", "recv %"),
        metric("frames_lost", "1"),
        column("delay", "µs", "delay"),
        metric("p50", "µs"),
        column("p99", "µs", "p99"),
    ],
    groups: &[("", 3), ("per second", 4), ("share", 2), ("µs", 2)],
    plot_stat: "goodput",
    parts: &[],
    prepare,
};

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = overloaded_stack::run(&config).map_err(|e| {
            Error::new(e.to_string()).advice("a lower load, or a shorter warmup and duration")
        })?;
        let mut rows = vec![row(&config, &outcome)];
        if config.load_others > 0.0 {
            rows.push(others(&outcome));
        }
        Ok(RunResult { events: outcome.events, rows, noise: None })
    }))
}

fn row(config: &Config, outcome: &Outcome) -> ClassFigures {
    let seconds = outcome.counting.as_secs_f64();
    let of = |part: u64, all: u64| part as f64 / all.max(1) as f64 * 100.0;
    let us = Span::as_micros_f64;
    let figures = vec![
        outcome.offered as f64 / seconds,
        outcome.served_per_s,
        config.line_per_s((outcome.offered + outcome.others.0) as f64 / seconds),
        outcome.in_time as f64 / seconds,
        of(outcome.guard.shed(), outcome.guard.seen),
        of(outcome.refused, outcome.offered),
        outcome.receiving * 100.0,
        outcome.frames_lost as f64,
        us(outcome.delay.quantile(0.5)),
        us(outcome.latency.quantile(0.5)),
        us(outcome.latency.quantile(0.99)),
    ];
    ClassFigures { class: "first".to_owned(), figures, cdf: points(outcome.latency.cdf()) }
}

/// Row of the clients that are shed first.
fn others(outcome: &Outcome) -> ClassFigures {
    let seconds = outcome.counting.as_secs_f64();
    let (offered, in_time) = outcome.others;
    let mut figures = vec![0.0; WORLD.stats.len()];
    (figures[0], figures[3]) = (offered as f64 / seconds, in_time as f64 / seconds);
    ClassFigures { class: "others".to_owned(), figures, cdf: Vec::new() }
}
