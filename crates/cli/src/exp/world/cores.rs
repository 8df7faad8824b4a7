//! World `cores`: a machine shared by tasks that interfere. Source: Caladan.
//!
//! One row per task, and a row `machine` for the policy's actions. A mode's name is a policy unless
//! the settings name one.

use queueing::Span;
use sim::cores::{self, Config, Outcome, TaskOutcome};
use toml::{Table, Value};

use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};

pub const WORLD: World = World {
    name: "cores",
    kind: TimeKind::Sim,
    note: "latency in µs, unanswered requests included; peak: the highest p99.9 of any 100 ms; work: in hyperthreads of an otherwise idle machine",
    stats: &[
        column("answered", "1/s", "answered/s"),
        column("unanswered", "1", "never"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("p999", "µs", "p99.9"),
        metric("max", "µs"),
        column("peak", "µs", "peak"),
        column("work", "×", "work"),
        column("actions", "1/s", "actions/s"),
    ],
    groups: &[("", 5), ("latency", 4), ("lanes", 1), ("policy", 1)],
    plot_stat: "p999",
    parts: &[],
    prepare,
};

fn prepare(mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    settings.entry("policy").or_insert_with(|| Value::String(mode.to_owned()));
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = cores::run(&config);
        Ok(RunResult { events: outcome.events, rows: rows(&config, &outcome), noise: None })
    }))
}

fn rows(config: &Config, outcome: &Outcome) -> Vec<ClassFigures> {
    let tasks = config.tasks.iter().zip(&outcome.tasks);
    let mut rows: Vec<ClassFigures> =
        tasks.map(|(task, result)| row(task.name.clone(), result, outcome.counted)).collect();
    let work = outcome.tasks.iter().map(|task| task.cores(outcome.counted)).sum();
    let actions = outcome.actions as f64 / outcome.counted.as_secs_f64();
    rows.push(WORLD.row("machine", &[("work", work), ("actions", actions)], Vec::new()));
    rows
}

fn row(class: String, task: &TaskOutcome, counted: Span) -> ClassFigures {
    let answers = task.latency.count() > 0;
    let us = micros_if(answers);
    let figures = vec![
        if answers { task.answered as f64 / counted.as_secs_f64() } else { f64::NAN },
        if answers { (task.unanswered + task.lost) as f64 } else { f64::NAN },
        us(task.latency.quantile(0.5)),
        us(task.latency.quantile(0.99)),
        us(task.latency.quantile(0.999)),
        us(task.latency.max()),
        us(task.peak),
        task.cores(counted),
        f64::NAN,
    ];
    ClassFigures { class, figures, cdf: points(task.latency.cdf()) }
}
