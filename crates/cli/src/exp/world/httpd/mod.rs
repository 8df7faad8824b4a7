//! World `httpd`: an unmodified HTTP server on the kernel's TCP under overload, the third paper's
//! experiment on a real machine.
//!
//! Two network namespaces and a veth pair. Core 1 has the server, of Debian's package with a
//! configuration of its own, and the kernel's work for it. Core 0 has the clients
//! (`load::short_connections`) on greenwave's stack, so that they are not the bottleneck. The
//! server's capacity is measured first, once per seed, and loads are multiples of it. Background
//! CPU time is sampled in both phases: a disturbed run is repeated, and the table shows the
//! remaining disturbance. Runs are serialized.

mod guard;
mod server;
mod setup;
mod workload;

use std::collections::BTreeMap;

use load::short_connections::{ArrivalModel, LoadBurst, OutcomeCounts, RequestOutcome, ShortConnections};
use queueing::Span;
use serde::Deserialize;
use toml::Table;

use self::server::HttpdServer;
use self::setup::HttpdSetup;
use self::workload::HttpdResults;
use super::host_requirements::{HostLock, least_disturbed};
use super::{
    ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, micros_if, points,
};
use crate::error::Error;
use crate::settings::{text, within};

pub const WORLD: World = World {
    name: "httpd",
    kind: TimeKind::Host { per_core: 1, awake: &[setup::SERVER_CORE] },
    note: "goodput: answered before the client timed out; overflow: the accept queue was full, so the \
           client was connected and never answered; other: CPU use of other processes; client: visits that \
           the client began late",
    stats: &[
        column("offered", "1/s", "offered"),
        column("goodput", "1/s", "good/s"),
        column("p99", "µs", "p99"),
        column("late", "%", "late %"),
        column("phantom", "%", "overflow %"),
        column("refused", "%", "refused %"),
        column("silent", "%", "no reply %"),
        column("per_cpu", "1/s", "good/cpu-s"),
        column("overflows", "1/s", "overfl/s"),
        column("spread", "%", "spread %"),
        column("recovery", "µs", "recovery"),
        column("other", "%", "other %"),
        column("client", "%", "client %"),
        metric("p50", "µs"),
        metric("mean", "µs"),
        metric("bad", "%"),
        metric("wrong", "%"),
        metric("cpu", "%"),
        metric("guard_cpu", "%"),
        metric("capacity", "1/s"),
    ],
    groups: &[("", 3), ("visits", 7), ("server", 2), ("", 2), ("beside", 2)],
    plot_stat: "goodput",
    parts: &[],
    prepare,
};

/// Settings of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Server and content of a request.
    #[serde(flatten)]
    setup: Setup,
    /// Settings of the server's host that differ from the default.
    #[serde(default)]
    sysctl: BTreeMap<String, toml::Value>,
    /// True if a kernel thread receives instead of a softirq.
    #[serde(default)]
    threaded: bool,
    /// Length of the accept queue; the server's default when absent.
    backlog: Option<u32>,
    /// Policy of the guard, if there is one.
    guard: Option<String>,
    /// Target delay of the guard.
    #[serde(default = "target")]
    guard_target: String,
    /// End of a connection's wait as the guard counts it: `accept` or `answer`.
    #[serde(default = "accept")]
    guard_until: String,
    /// Offered load as a multiple of the server's capacity.
    load: f64,
    /// Number of clients in a closed loop with a think time; when absent, visits arrive in an open
    /// loop.
    visitors: Option<u32>,
    /// Periods of higher load.
    swell: Option<SwellConfig>,
    /// Timeout of a visit.
    #[serde(alias = "patience", deserialize_with = "text")]
    timeout: Span,
    /// Warm-up before visits count.
    #[serde(deserialize_with = "text")]
    warmup: Span,
    /// Duration in which visits count.
    #[serde(deserialize_with = "text")]
    duration: Span,
    /// Length of the slices over which the spread of goodput is computed.
    #[serde(default = "slice", deserialize_with = "text")]
    slice: Span,
    /// Duration of the capacity measurement.
    #[serde(deserialize_with = "text")]
    capacity: Span,
    /// Largest background CPU time of a valid run, in % of a core.
    #[serde(default = "other_max")]
    other_max: f64,
    /// Largest number of repetitions.
    #[serde(default)]
    repeats: u32,
    /// Seed of the arrival times.
    #[serde(default)]
    seed: u64,
}

/// Server and content, which determine the capacity.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Setup {
    /// Server under test.
    server: HttpdServer,
    /// True if each response is compressed.
    #[serde(default)]
    gzip: bool,
    /// Length of the file.
    bytes: usize,
    /// Share of a core that the server may use.
    #[serde(default = "whole")]
    share: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwellConfig {
    times: f64,
    #[serde(deserialize_with = "text")]
    length: Span,
    #[serde(deserialize_with = "text")]
    period: Span,
}

fn accept() -> String {
    "accept".to_owned()
}

fn target() -> String {
    "20ms".to_owned()
}

fn slice() -> Span {
    Span::from_millis(50)
}

fn other_max() -> f64 {
    10.0
}

fn whole() -> f64 {
    1.0
}

/// Number of concurrent clients of the capacity measurement: enough that the server never idles,
/// and few enough that none times out.
const CAPACITY_CLIENTS: u32 = 32;

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || run(&config)))
}

impl Config {
    fn check(&self) -> Result<(), String> {
        within("load", self.load, 0.001..=1000.0)?;
        within("share", self.setup.share, 0.05..=1.0)?;
        within("bytes", self.setup.bytes as f64, 1.0..=1e7)?;
        within("visitors", self.visitors.unwrap_or(1).into(), 1.0..=20_000.0)?;
        for (name, span) in [
            ("timeout", self.timeout),
            ("duration", self.duration),
            ("slice", self.slice),
            ("capacity", self.capacity),
        ] {
            within(&format!("{name} in seconds"), span.as_secs_f64(), 0.001..=3600.0)?;
        }
        if let Some(swell) = &self.swell {
            within("swell.times", swell.times, 1.0..=1000.0)?;
            // The swell begins after a quarter of its period.
            let most = swell.period.as_secs_f64() * 0.75;
            within("swell.length in seconds", swell.length.as_secs_f64(), 0.001..=most)?;
        }
        if let Some(name) = self.sysctl.keys().find(|name| !name.starts_with("net.")) {
            return Err(format!("sysctl {name:?} does not belong to a network namespace; valid: net.…"));
        }
        Ok(())
    }

    /// This configuration without anything that a mode changes.
    fn stock(&self) -> Self {
        let (sysctl, threaded, backlog, guard) = (BTreeMap::new(), false, None, None);
        Self { sysctl, threaded, backlog, guard, ..self.clone() }
    }

    fn swell(&self) -> Option<LoadBurst> {
        self.swell.map(|SwellConfig { times, length, period }| LoadBurst { times, length, period })
    }

    /// Visits at `load` times `capacity` per second.
    fn visits(&self, capacity: f64) -> ShortConnections {
        let rate_per_s = self.load * capacity;
        let pace = match self.visitors {
            None => ArrivalModel::Open { rate_per_s, burst: self.swell() },
            Some(visitors) => {
                let think = Span::from_secs_f64(f64::from(visitors) / rate_per_s);
                ArrivalModel::Closed { clients: visitors, think }
            }
        };
        let (warmup, duration, slice) = (self.warmup, self.duration, self.slice);
        let Self { timeout, seed, .. } = *self;
        ShortConnections { request: server::request(), pace, timeout, warmup, duration, slice, seed }
    }
}

/// Serializes runs; caches the capacity for each seed of an experiment.
static RUN_LOCK: HostLock<CapacityKey> = HostLock::new();

/// Cache key of a capacity: the inputs of its measurement, and settings that distinguish
/// experiments with the same server, which may run at different times.
type CapacityKey = (Setup, u64, [Span; 2], bool, Option<u32>);

fn run(config: &Config) -> Result<RunResult, Error> {
    let mut lock = RUN_LOCK.enter();
    let spans = [config.capacity, config.timeout];
    let key = (config.setup.clone(), config.seed, spans, config.swell.is_some(), config.visitors);
    let capacity = lock.get_or_measure(key, || measure_capacity(config))?;
    let results = least_disturbed(
        config.repeats,
        config.other_max,
        |results: &HttpdResults| results.other,
        || HttpdSetup::new(config)?.drive(config.visits(capacity)),
    )?;
    let all = &results.outcome.all;
    let mut rows = vec![row(config, &results, "all", all, capacity)];
    if config.swell.is_some() {
        rows.push(row(config, &results, "swell", &results.outcome.burst, capacity));
    }
    Ok(RunResult { events: all.total(), rows, noise: None })
}

/// Measures the server's capacity, per second.
fn measure_capacity(config: &Config) -> Result<f64, Error> {
    let pace = ArrivalModel::Closed { clients: CAPACITY_CLIENTS, think: Span::ZERO };
    let (warmup, duration) = (config.capacity / 4, config.capacity);
    let visits = ShortConnections { pace, warmup, duration, ..config.visits(1.0) };
    let stock = config.stock();
    let results = least_disturbed(
        stock.repeats,
        stock.other_max,
        |results: &HttpdResults| results.other,
        || HttpdSetup::new(&stock)?.drive(visits.clone()),
    )?;
    let answers: u64 = results.outcome.slices.iter().map(|slice| slice.answers).sum();
    if answers == 0 {
        let message = format!(
            "{}: not one of {} visits was answered",
            config.setup.server.program(),
            results.outcome.all.total()
        );
        return Err(Error::new(message));
    }
    Ok(answers as f64 / duration.as_secs_f64())
}

fn row(
    config: &Config,
    results: &HttpdResults,
    class: &str,
    outcomes: &OutcomeCounts,
    capacity: f64,
) -> ClassFigures {
    let outcome = &results.outcome;
    let seconds = config.duration.as_secs_f64();
    let total = outcomes.total() as f64;
    let percent = |part: u64| part as f64 / total * 100.0;
    let of = |outcome| percent(outcomes.count(outcome));
    let good = outcomes.count(RequestOutcome::Ok) as f64;
    let us = micros_if(good > 0.0);
    let is_all = class == "all";
    // Values known only for all visits together.
    let whole = |value: f64| if is_all { value } else { f64::NAN };
    let recovery =
        config.swell().and_then(|swell| swell.recovery(config.warmup, config.slice, &outcome.slices));
    let answers: Vec<f64> = outcome.slices.iter().map(|slice| slice.answers as f64).collect();
    let per_second = |count: f64| if is_all { count / seconds } else { f64::NAN };
    let figures = vec![
        per_second(total),
        per_second(good),
        us(outcomes.latency.quantile(0.99)),
        of(RequestOutcome::Late),
        of(RequestOutcome::NoResponse),
        of(RequestOutcome::Refused),
        of(RequestOutcome::ConnectTimeout),
        whole(good / seconds / results.server_cpu),
        whole(results.overflows),
        whole(spread(&answers)),
        whole(recovery.map_or(f64::NAN, Span::as_micros_f64)),
        whole(results.other),
        whole(percent(outcome.limited)),
        us(outcomes.latency.quantile(0.5)),
        us(outcomes.latency.mean()),
        100.0 - of(RequestOutcome::Ok),
        of(RequestOutcome::BadResponse),
        whole(results.server_cpu * 100.0),
        whole(results.guard_cpu * 100.0),
        whole(capacity),
    ];
    ClassFigures { class: class.to_owned(), figures, cdf: points(outcomes.latency.cdf()) }
}

/// Standard deviation over mean, in %.
fn spread(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() / mean * 100.0
}

#[cfg(test)]
mod tests;
