//! World `web`: a web server with a near and a far client population, in virtual time. Source: ADPS
//! Table 1; world `pages` runs it on a real machine.

use load::closed_loop::KindResults;
use queueing::Span;
use sim::world::web::{self, Config};
use toml::{Table, Value};

use super::web_qoe::qoe::qoe;
use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, points};

pub const WORLD: World = World {
    name: "web",
    kind: TimeKind::Sim,
    note: "pages loaded in the measured time; QoE: computed from the response time alone; busy: the program's core and the stack's",
    stats: &[
        column("pages", "1/s", "pages/s"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("qoe50", "ratio", "p50"),
        column("qoe99", "ratio", "p99"),
        column("program", "share", "program"),
        column("stack", "share", "stack"),
        metric("mean", "µs"),
        metric("broken", "1"),
        metric("answers", "1"),
        metric("unanswered", "1"),
    ],
    groups: &[("", 4), ("response", 2), ("QoE", 2), ("busy", 2)],
    plot_stat: "p99",
    parts: &[],
    prepare,
};

/// A mode without settings is the one of its name.
fn prepare(mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    settings.entry("mode").or_insert_with(|| Value::String(mode.to_owned()));
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = web::run(&config);
        let row = |(class, tally): (&str, &KindResults)| {
            let figures = figures(tally, config.duration, outcome.busy).to_vec();
            ClassFigures { class: class.to_owned(), figures, cdf: points(tally.latency.cdf()) }
        };
        let rows = ["near", "far"].into_iter().zip(&outcome.groups).map(row).collect();
        Ok(RunResult { events: outcome.events, rows, noise: None })
    }))
}

/// Figures of one population in the order of the table above.
fn figures(tally: &KindResults, duration: Span, [program, stack]: [f64; 2]) -> [f64; WORLD.stats.len()] {
    // No samples, no quantile.
    let of = |q| if tally.answers > 0 { tally.latency.quantile(q).as_secs_f64() } else { f64::NAN };
    let [p50, p99] = [0.5, 0.99].map(of);
    [
        tally.answers as f64 / duration.as_secs_f64(),
        p50 * 1e6,
        p99 * 1e6,
        qoe(p50),
        qoe(p99),
        program,
        stack,
        tally.latency.mean().as_micros_f64(),
        tally.broken as f64,
        tally.answers as f64,
        tally.unanswered as f64,
    ]
}
