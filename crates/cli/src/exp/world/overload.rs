//! World `overload`: a two-stage server under overload. Source: the third paper.
//!
//! One row. `model` is the closed-form result for the same settings.

use sim::world::overload::{self, AdmissionControl, Config, Outcome};
use toml::Table;

use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};

pub const WORLD: World = World {
    name: "overload",
    kind: TimeKind::Sim,
    note: "goodput: served before the client timed out; model: throughput by the closed form",
    stats: &[
        column("offered", "1/s", "offered"),
        column("served", "1/s", "served"),
        column("goodput", "1/s", "good/s"),
        column("model", "1/s", "model"),
        column("shed", "%", "shed %"),
        column("lost_receiving", "%", "recv %"),
        column("lost_serving", "%", "serve %"),
        metric("mean", "µs"),
        metric("p50", "µs"),
        column("p99", "µs", "p99"),
    ],
    groups: &[("", 3), ("per second", 4), ("lost", 3), ("time", 1)],
    plot_stat: "goodput",
    parts: &[],
    prepare,
};

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = overload::run(&config);
        Ok(RunResult { events: outcome.events, rows: vec![row(&config, &outcome)], noise: None })
    }))
}

fn row(config: &Config, outcome: &Outcome) -> ClassFigures {
    let seconds = outcome.arriving.as_secs_f64();
    let offered = config.requests as f64 / seconds;
    let model = match config.guard {
        AdmissionControl::None => config.model().outcome(offered),
        AdmissionControl::Model | AdmissionControl::Policy(_) => {
            let admitted = config.model().admitted_best(offered, config.shed);
            config.model().outcome_shedding(offered, admitted, config.shed)
        }
    };
    let percent = |part: u64| part as f64 / config.requests as f64 * 100.0;
    let us = micros_if(outcome.sojourn.count() > 0);
    let figures = vec![
        offered,
        (outcome.in_time + outcome.in_vain) as f64 / seconds,
        outcome.in_time as f64 / seconds,
        model.served * offered,
        percent(outcome.shed),
        percent(outcome.lost_receiving),
        percent(outcome.lost_serving),
        us(outcome.sojourn.mean()),
        us(outcome.sojourn.quantile(0.5)),
        us(outcome.sojourn.quantile(0.99)),
    ];
    ClassFigures { class: "all".to_owned(), figures, cdf: points(outcome.sojourn.cdf()) }
}
