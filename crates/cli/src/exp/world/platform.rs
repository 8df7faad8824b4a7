//! World `platform`: a whole platform of tiers on a fabric, with a switch for every mechanism.
//!
//! One row per class of requests with arrivals, and one, `total`, for all classes, which also has
//! the throughput of BE and bulk flows.

use queueing::{Histogram, Span};
use sim::world::platform::{self, ClassOutcome, Config, Outcome};
use toml::Table;

use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};

pub const WORLD: World = World {
    name: "platform",
    kind: TimeKind::Sim,
    note: "latencies in µs from start to response; unanswered requests count with the client's timeout or more; \
           good: answered in time; beside: BE's work, in hyperthreads of an otherwise idle machine",
    stats: &[
        column("requests", "1", "reqs"),
        column("answered", "1/s", "answ/s"),
        column("good", "1/s", "good/s"),
        column("miss", "%", "miss %"),
        metric("refused", "%"),
        metric("shed", "%"),
        metric("lost", "%"),
        metric("unanswered", "1"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("p999", "µs", "p99.9"),
        metric("max", "µs"),
        metric("p999_answered", "µs"),
        column("fabric", "µs", "fabric"),
        column("receive", "µs", "recv"),
        column("queue", "µs", "queue"),
        column("service", "µs", "serve"),
        column("beside", "×", "BE"),
        column("bulk", "Gbit/s", "bulk"),
        metric("dropped", "1"),
    ],
    groups: &[
        ("", 4),
        ("requests", 3),
        ("latency", 3),
        ("p99.9 of answered requests spent in", 4),
        ("others", 2),
    ],
    plot_stat: "p999",
    parts: &["fabric", "receive", "queue", "service"],
    prepare,
};

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = platform::run(&config);
        Ok(RunResult { events: outcome.events, rows: rows(&outcome), noise: None })
    }))
}

fn rows(outcome: &Outcome) -> Vec<ClassFigures> {
    let classes = outcome.classes.iter().filter(|class| class.requests > 0);
    let mut rows: Vec<ClassFigures> = classes.map(|class| row(class, outcome.counted)).collect();
    rows.push(total(outcome));
    rows
}

/// Row of a class with arrivals.
fn row(class: &ClassOutcome, counted: Span) -> ClassFigures {
    let seconds = counted.as_secs_f64();
    let percent = |part: u64| part as f64 / class.requests as f64 * 100.0;
    let us = Span::as_micros_f64;
    let of = |histogram: &Histogram, q| micros_if(histogram.count() > 0)(histogram.quantile(q));
    let spent = class.spent;
    let figures = vec![
        class.requests as f64,
        (class.on_time + class.late) as f64 / seconds,
        class.on_time as f64 / seconds,
        class.miss_share() * 100.0,
        percent(class.refused),
        percent(class.shed),
        percent(class.lost),
        class.unanswered as f64,
        of(&class.latency, 0.5),
        of(&class.latency, 0.99),
        of(&class.latency, 0.999),
        micros_if(class.latency.count() > 0)(class.latency.max()),
        of(&class.answered, 0.999),
        us(spent.fabric),
        us(spent.receive),
        us(spent.queue),
        us(spent.service),
        f64::NAN,
        f64::NAN,
        f64::NAN,
    ];
    ClassFigures { class: class.name.clone(), figures, cdf: points(class.latency.cdf()) }
}

/// Row of all classes together, BE and bulk flows.
fn total(outcome: &Outcome) -> ClassFigures {
    let seconds = outcome.counted.as_secs_f64();
    let sum = |of: fn(&ClassOutcome) -> u64| outcome.classes.iter().map(of).sum::<u64>() as f64;
    let requests = sum(|class| class.requests);
    let on_time = sum(|class| class.on_time);
    let percent = |part: f64| part / requests * 100.0;
    let bulk = outcome.bulk_bytes as f64 * 8.0 / 1e9 / outcome.elapsed.as_secs_f64();
    let known = [
        ("requests", requests),
        ("answered", (on_time + sum(|class| class.late)) / seconds),
        ("good", on_time / seconds),
        ("miss", percent(requests - on_time)),
        ("refused", percent(sum(|class| class.refused))),
        ("shed", percent(sum(|class| class.shed))),
        ("lost", percent(sum(|class| class.lost))),
        ("unanswered", sum(|class| class.unanswered)),
        ("beside", outcome.beside),
        ("bulk", bulk),
        ("dropped", outcome.packets.dropped as f64),
    ];
    WORLD.row("total", &known, Vec::new())
}
