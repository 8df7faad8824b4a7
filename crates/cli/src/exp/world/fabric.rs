//! World `fabric`: networks of switches. Source: FISH.
//!
//! One row per size class of flows, as in the paper, and one for all flows, which also has the
//! counters of the network.

use sim::fabric::{self, Config, FlowOutcome, Outcome};
use toml::Table;

use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric};

pub const WORLD: World = World {
    name: "fabric",
    kind: TimeKind::Sim,
    note: "flow completion times in µs; small up to 100 KB, medium up to 10 MB, large above; p99: of single flows",
    stats: &[
        column("flows", "1", "flows"),
        column("unfinished", "%", "unfin. %"),
        column("mean", "µs", "mean"),
        metric("p50", "µs"),
        column("p99", "µs", "p99"),
        metric("max", "µs"),
        metric("slowdown", "×"),
        metric("slowdown_p99", "×"),
        column("again", "%", "retx %"),
        metric("timeouts", "1"),
        column("dropped", "%", "drop %"),
        column("marked", "%", "mark %"),
        metric("hops", "1"),
    ],
    groups: &[("", 3), ("flows", 2), ("completion", 2), ("packets", 3)],
    plot_stat: "mean",
    parts: &[],
    prepare,
};

/// Size classes: name, and the largest size in bytes.
const CLASSES: [(&str, u64); 3] = [("small", 100_000), ("medium", 10_000_000), ("large", u64::MAX)];

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || {
        let outcome = fabric::run(&config);
        Ok(RunResult { events: outcome.events, rows: rows(&outcome), noise: None })
    }))
}

/// One row for all flows, and one for each size class.
#[must_use]
pub fn rows(outcome: &Outcome) -> Vec<ClassFigures> {
    let counters = outcome.counters;
    let percent = |part: u64| part as f64 / counters.sent as f64 * 100.0;
    let network = [percent(counters.dropped), percent(counters.marked), counters.hops as f64];
    let mut rows = vec![row("all", &outcome.flows.iter().collect::<Vec<_>>(), network)];
    let mut least = 0;
    for (name, most) in CLASSES {
        let flows: Vec<&FlowOutcome> =
            outcome.flows.iter().filter(|flow| (least..=most).contains(&flow.bytes())).collect();
        rows.push(row(name, &flows, [f64::NAN; 3]));
        least = most.saturating_add(1);
    }
    rows
}

/// Figures of some flows, and of the network.
fn row(class: &str, flows: &[&FlowOutcome], network: [f64; 3]) -> ClassFigures {
    let mut times: Vec<f64> =
        flows.iter().filter_map(|flow| flow.took).map(|took| took.as_micros_f64()).collect();
    times.sort_by(f64::total_cmp);
    let mut slowdowns: Vec<f64> = flows.iter().filter_map(|flow| flow.slowdown()).collect();
    slowdowns.sort_by(f64::total_cmp);
    let sum = |of: fn(&FlowOutcome) -> u32| flows.iter().map(|flow| f64::from(of(flow))).sum::<f64>();
    let figures = [
        flows.len() as f64,
        (flows.len() - times.len()) as f64 / flows.len() as f64 * 100.0,
        mean(&times),
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        quantile(&times, 1.0),
        mean(&slowdowns),
        quantile(&slowdowns, 0.99),
        sum(|flow| flow.retransmitted) / sum(|flow| flow.segments) * 100.0,
        sum(|flow| flow.timeouts),
    ];
    let share = 1.0 / times.len() as f64;
    let cdf = times.iter().enumerate().map(|(n, &us)| (us, (n + 1) as f64 * share)).collect();
    ClassFigures { class: class.to_owned(), figures: [&figures[..], &network].concat(), cdf }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Quantile `q` of `sorted`; NaN if empty.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = ((sorted.len() as f64 * q) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}
