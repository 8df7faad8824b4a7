//! World `services`: services that call services. Source: D2P.
//!
//! One row per class of users, one for all classes, and one per stage. The latency of a stage is
//! the time since the request's birth, as in the paper's tables.

use queueing::{Histogram, Span};
use sim::world::services::{self, Config, Outcome, StageReport, UserClassOutcome};
use toml::Table;

use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, column, line, metric, micros_if, points};

pub const WORLD: World = World {
    name: "services",
    kind: TimeKind::Sim,
    note: "times in µs since the start of the request; rows of stages: at the end of the stage",
    stats: &[
        metric("requests", "1"),
        column("miss", "%", "miss %"),
        column("dropped", "%", "drop %"),
        column("goodput", "1/s", "good/s"),
        column("mean", "µs", "mean"),
        metric("p50", "µs"),
        metric("p90", "µs"),
        column("p95", "µs", "p95"),
        column("p99", "µs", "p99"),
        metric("max", "µs"),
        metric("p95_all", "µs"),
        column("range", "%", "range %"),
        metric("queue", "µs"),
        metric("parts", "%"),
    ],
    groups: &[("", 3), ("requests", 3), ("elapsed", 4)],
    plot_stat: "miss",
    parts: &[],
    prepare,
};

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    parse(settings).map(simulated)
}

/// Parses settings, loads the files that they name, and checks them.
///
/// # Errors
/// One line: the setting that is invalid.
pub(super) fn parse(settings: Table) -> Result<Config, String> {
    let mut config: Config = settings.try_into().map_err(|e: toml::de::Error| line(&e))?;
    config.load(crate::exp::embedded::text).map_err(|e| line(&e))?;
    config.check().map_err(|e| line(&e))?;
    Ok(config)
}

/// A run of `config` in virtual time.
pub(super) fn simulated(config: Config) -> PreparedRun {
    Box::new(move || {
        let outcome = services::run(&config);
        Ok(RunResult { events: outcome.events, rows: rows(&outcome), noise: None })
    })
}

/// Rows of `outcome`.
pub(super) fn rows(outcome: &Outcome) -> Vec<ClassFigures> {
    let seconds = outcome.arriving.as_secs_f64();
    let mut rows: Vec<ClassFigures> = Vec::new();
    if outcome.classes.len() > 1 {
        rows.push(of_class("all", &outcome.classes, seconds));
    }
    rows.extend(
        outcome.classes.iter().map(|class| of_class(&class.name, std::slice::from_ref(class), seconds)),
    );
    rows.extend(outcome.stages.iter().map(of_stage));
    rows
}

/// Figures of one class, or of several together.
fn of_class(name: &str, classes: &[UserClassOutcome], seconds: f64) -> ClassFigures {
    let sum = |of: fn(&UserClassOutcome) -> u64| classes.iter().map(of).sum::<u64>() as f64;
    let (requests, on_time) = (sum(|class| class.requests), sum(|class| class.on_time));
    let mut latency = Histogram::new();
    classes.iter().for_each(|class| latency.merge(&class.latency));
    let shortest = classes.iter().map(|class| class.shortest).min().unwrap_or(Span::ZERO);
    let range =
        deadline::model::variability_range(latency.max(), shortest.min(latency.max()), latency.mean());
    let percent = |part: f64, of: f64| if of > 0.0 { part / of * 100.0 } else { f64::NAN };
    let counts = [
        requests,
        percent(requests - on_time, requests),
        percent(sum(|class| class.dropped), requests),
        on_time / seconds,
    ];
    let parts = percent(sum(|class| class.parts_used), sum(|class| class.parts));
    let all = of_all(&latency, latency.count() as f64 / requests);
    row(name, counts, &latency, [all, range, f64::NAN, parts])
}

/// Figures of one stage; drops are a share of its arrivals.
fn of_stage(stage: &StageReport) -> ClassFigures {
    let served = stage.elapsed.count() as f64;
    let arrivals = served + stage.dropped as f64;
    let counts = [arrivals, f64::NAN, stage.dropped as f64 / arrivals.max(1.0) * 100.0, f64::NAN];
    let all = of_all(&stage.elapsed, served / arrivals);
    let queue = micros_if(stage.queue.count() > 0)(stage.queue.mean());
    row(&stage.name, counts, &stage.elapsed, [all, f64::NAN, queue, f64::NAN])
}

/// p95 in µs with dropped requests counted as infinitely slow: infinite if more than one in twenty
/// is dropped. `answered` is the share of the others.
fn of_all(latency: &Histogram, answered: f64) -> f64 {
    let q = 0.95 / answered;
    if q <= 1.0 { latency.quantile(q).as_micros_f64() } else { f64::INFINITY }
}

fn row(class: &str, counts: [f64; 4], latency: &Histogram, rest: [f64; 4]) -> ClassFigures {
    let us = micros_if(latency.count() > 0);
    let times = [
        us(latency.mean()),
        us(latency.quantile(0.5)),
        us(latency.quantile(0.9)),
        us(latency.quantile(0.95)),
        us(latency.quantile(0.99)),
        us(latency.max()),
    ];
    let figures = [&counts[..], &times, &rest].concat();
    ClassFigures { class: class.to_owned(), figures, cdf: points(latency.cdf()) }
}
