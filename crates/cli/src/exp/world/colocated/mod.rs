//! World `colocated`: a latency-critical and a best-effort program on one core of this machine.
//!
//! Core 1 is shared; core 0 has the clients and the manager. The throughput of the best-effort
//! program alone is measured first, once per seed, and its work is reported as a part of that. The
//! mode is the way of sharing: the kernel alone (`linux`, `idle`), a partition of CPU time
//! (`static`, `parties`), or `greenwave sched`, which samples threads (`caladan`) or reads the
//! signal pages of programs on greenwave's runtime (`caladan-runtime`). The paper partitions cores;
//! on one core `static` and `parties` limit the best-effort program's CPU time instead. Runs are
//! serialized.

mod core_manager;
mod programs;
mod setup;
mod workload;

use load::{Plan, RequestClass};
use queueing::{Histogram, Span};
use serde::Deserialize;
use toml::{Table, Value};

use self::programs::{BestEffort, Critical};
use self::setup::ColocatedSetup;
use self::workload::ColocatedResults;
use super::host_requirements::HostLock;
use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};
use crate::error::Error;
use crate::settings::{text, text_or_none, within};

pub const WORLD: World = World {
    name: "colocated",
    kind: TimeKind::host(1),
    note: "latencies in µs; lost: never sent or never answered; work: relative to running alone; cpu: of the \
           shared core; other: CPU use of other processes",
    stats: &[
        column("answered", "1/s", "answered/s"),
        column("lost", "%", "lost %"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("p999", "µs", "p99.9"),
        metric("max", "µs"),
        metric("late", "%"),
        column("work", "ratio", "work"),
        metric("per_s", "1/s"),
        column("cpu", "%", "cpu %"),
        column("other", "%", "other %"),
    ],
    groups: &[("", 3), ("requests", 2), ("latency", 3), ("BE", 1), ("", 1), ("beside", 1)],
    plot_stat: "p999",
    parts: &[],
    prepare,
};

/// Settings of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Sharing of the core; by the mode's name when absent.
    sharing: Sharing,
    /// The latency-critical program.
    lc: Critical,
    /// The best-effort one.
    be: BestEffort,
    /// Requests per second, at random instants.
    rate: f64,
    /// Number of connections that carry the requests.
    #[serde(default = "connections")]
    connections: u32,
    /// Warm-up before requests count.
    #[serde(deserialize_with = "text")]
    warmup: Span,
    /// Duration in which requests count.
    #[serde(deserialize_with = "text")]
    duration: Span,
    /// Share of the core's time for BE: fixed under `static`, initial under `parties`.
    #[serde(default = "half")]
    be_share: f64,
    /// Target of p99.9 under `parties`.
    #[serde(default = "tail_target", deserialize_with = "text")]
    tail_target: Span,
    /// THRESH_QD of LC under `caladan` and `caladan-runtime`; the mechanism's default when absent.
    #[serde(default, deserialize_with = "text_or_none")]
    delay_max: Option<Span>,
    /// Live heap of programs with garbage collection, in MiB.
    #[serde(default = "keep_mib")]
    keep_mib: u32,
    /// Seed of the arrival times and of BE's random draws.
    #[serde(default)]
    seed: u64,
}

/// Sharing of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Sharing {
    /// LC alone, without a best-effort program.
    Alone,
    /// Both are ordinary processes.
    Linux,
    /// BE is in the kernel's idle class (`SCHED_IDLE`).
    Idle,
    /// BE has a fixed share of the core's time.
    Static,
    /// BE's share follows LC's tail.
    Parties,
    /// `greenwave sched` with policy `caladan`.
    Caladan,
    /// `greenwave sched` with policy `caladan` by the mechanism `runtime`: LC publishes its queueing delay.
    CaladanRuntime,
}

fn connections() -> u32 {
    16
}

fn half() -> f64 {
    0.5
}

fn tail_target() -> Span {
    Span::from_millis(1)
}

fn keep_mib() -> u32 {
    128
}

fn prepare(mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    settings.entry("sharing").or_insert_with(|| Value::String(mode.to_owned()));
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || run(&config)))
}

impl Config {
    fn check(&self) -> Result<(), String> {
        within("rate", self.rate, 1.0..=1e6)?;
        within("connections", self.connections.into(), 1.0..=10_000.0)?;
        within("be_share", self.be_share, 0.05..=0.95)?;
        within("keep_mib", self.keep_mib.into(), 1.0..=65_536.0)?;
        if self.sharing == Sharing::CaladanRuntime && !self.lc.publishes_delay() {
            let lc = self.lc.program();
            return Err(format!(
                "sharing caladan-runtime needs lc = storage or tpcc: {lc} does not run on greenwave's runtime"
            ));
        }
        for (name, span) in
            [("warmup", self.warmup), ("duration", self.duration), ("tail_target", self.tail_target)]
        {
            within(&format!("{name} in seconds"), span.as_secs_f64(), 0.000_01..=3600.0)?;
        }
        Ok(())
    }

    /// Requests to LC and their times.
    fn plan(&self) -> Plan {
        let class = |&(name, share, kind, length): &(&str, f64, u8, usize)| RequestClass {
            name: name.to_owned(),
            share,
            // The server itself determines the service time.
            service: "1ns".parse().expect("a distribution"),
            length,
            kind,
            priority: 0,
        };
        let arrivals = queueing::Arrivals::Poisson { rate_per_s: self.rate };
        let mut plan = Plan::new(self.connections, arrivals, self.lc.requests().iter().map(class).collect());
        plan.warmup = self.warmup;
        plan.duration = Some(self.warmup + self.duration);
        plan.timeout = TIMEOUT;
        plan.seed = self.seed;
        plan
    }

    /// All inputs on which BE's throughput alone depends.
    fn baseline_key(&self) -> (BestEffort, u32, Span, u64) {
        (self.be, self.keep_mib, self.duration, self.seed)
    }
}

/// Timeout of a request.
const TIMEOUT: Span = Span::from_secs(5);

/// Serializes runs; caches BE's throughput alone.
static RUN_LOCK: HostLock<(BestEffort, u32, Span, u64)> = HostLock::new();

fn run(config: &Config) -> Result<RunResult, Error> {
    let mut lock = RUN_LOCK.enter();
    if config.sharing == Sharing::Alone {
        let results = ColocatedSetup::new(config)?.drive(config)?;
        return Ok(run_result(config, &results, f64::NAN));
    }
    let baseline =
        lock.get_or_measure(config.baseline_key(), || ColocatedSetup::best_effort_alone(config))?;
    let results = ColocatedSetup::new(config)?.drive(config)?;
    Ok(run_result(config, &results, baseline))
}

fn run_result(config: &Config, results: &ColocatedResults, baseline: f64) -> RunResult {
    let mut rows = vec![critical(config, results)];
    if let Some(be_work) = &results.be_work {
        let known =
            [("work", be_work.per_s / baseline), ("per_s", be_work.per_s), ("cpu", be_work.cores * 100.0)];
        rows.push(WORLD.row("be", &known, Vec::new()));
    }
    let events = results.report.requests();
    RunResult { events, rows, noise: None }
}

/// Row of LC: all its requests together.
fn critical(config: &Config, results: &ColocatedResults) -> ClassFigures {
    let mut latency = Histogram::new();
    results.report.classes.iter().for_each(|class| latency.merge(&class.latency));
    let requests = results.report.requests() as f64;
    let answered = results.report.answered() as f64;
    let late: u64 = results.report.classes.iter().map(|class| class.late).sum();
    let us = micros_if(answered > 0.0);
    let figures = vec![
        answered / config.duration.as_secs_f64(),
        (requests - answered) / requests * 100.0,
        us(latency.quantile(0.5)),
        us(latency.quantile(0.99)),
        us(latency.quantile(0.999)),
        us(latency.max()),
        late as f64 / requests * 100.0,
        f64::NAN,
        f64::NAN,
        results.lc_cores * 100.0,
        results.other * 100.0,
    ];
    ClassFigures { class: "lc".to_owned(), figures, cdf: points(latency.cdf()) }
}

#[cfg(test)]
mod tests;
