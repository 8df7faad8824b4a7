//! World `tiers`: three services in three network namespaces of this machine, with a switch for
//! every mechanism; world `platform` on a real machine, at a small scale.
//!
//! Users, in a namespace of their own, call a front. Two workers process each request and answer
//! the front over shaped links that bulk flows saturate. The services share core 1 with a
//! best-effort program; users, bulk flows and the core manager have core 0. A request's level is
//! its class of users: it is sent as DSCP, forwarded with the request and returned with the answer;
//! the budget travels in a header. The trace is that of world `services`. A disturbed run is
//! repeated, and the table shows the remaining disturbance. Runs are serialized.

mod bulk;
mod setup;
mod stack;
mod workload;

use hostbpf::egress::Policy;
use queueing::{Priority, Rate, Span};
use serde::Deserialize;
use sim::world::platform::Mechanisms;
use sim::world::services::{Config, UserClassOutcome};
use toml::{Table, Value};

use self::setup::TiersSetup;
use self::workload::{ServiceCounts, TiersResults};
use super::host_requirements::{HostLock, least_disturbed};
use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, column, line, metric, micros_if, points};
use crate::error::Error;
use crate::settings::{text, text_or_none, within};

pub const WORLD: World = World {
    name: "tiers",
    kind: TimeKind::host(1),
    note: "latencies in µs from the scheduled start; an unanswered request counts as a wait of `unanswered`; \
           good: answered in time; a service's row is its own queue; BE: its work; other: CPU use of other processes",
    stats: &[
        column("requests", "1", "reqs"),
        column("answered", "1/s", "answ/s"),
        column("good", "1/s", "good/s"),
        column("miss", "%", "miss %"),
        metric("dropped", "%"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("p999", "µs", "p99.9"),
        metric("max", "µs"),
        metric("queue_p50", "µs"),
        column("queue", "µs", "queue p99"),
        metric("refused", "1"),
        metric("shed", "1"),
        metric("first", "1"),
        metric("last", "1"),
        metric("unbudgeted", "1"),
        metric("beyond", "µs"),
        column("be", "1/s", "BE/s"),
        metric("be_cpu", "%"),
        column("bulk", "Gbit/s", "bulk"),
        metric("labelled", "1/s"),
        column("other", "%", "other %"),
    ],
    groups: &[("", 3), ("requests", 4), ("latency", 3), ("wait", 1), ("beside", 3)],
    plot_stat: "p999",
    parts: &[],
    prepare,
};

/// Environment of the services; setting `host`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    /// True if users reach the front on greenwave's stack rather than the kernel's TCP.
    #[serde(default)]
    stack: bool,
    /// True if greenwave's stack sheds new connections at the SYN, in modes with a guard.
    #[serde(alias = "door", default = "yes")]
    syn_shedding: bool,
    /// Number of classes, from the last, that open a connection for each request.
    #[serde(default)]
    newcomers: usize,
    /// Rate of the workers' egress.
    #[serde(deserialize_with = "text")]
    rate: Rate,
    /// Endless flows from each worker's host.
    bulk: usize,
    /// Congestion control of bulk flows and answers, such as `cubic`.
    congestion: String,
    /// Bytes of each answer.
    answer: usize,
    /// DSCP of each class of users, the most urgent first.
    dscp: Vec<u8>,
    /// Delay that the loss of a packet on the way to the workers causes; none if no loss is expected.
    #[serde(default, deserialize_with = "text_or_none")]
    loss: Option<Span>,
    /// Target delay of the guard.
    #[serde(deserialize_with = "text")]
    guard_target: Span,
    /// Smallest latency recorded for an unanswered request.
    #[serde(deserialize_with = "text")]
    unanswered: Span,
    /// Largest background CPU time of a valid run, in % of a core.
    other_max: f64,
    /// Largest number of repetitions.
    #[serde(default)]
    repeats: u32,
}

/// Validated settings.
struct Plan {
    config: Config,
    host: Host,
    mechanisms: Mechanisms,
    policy: Policy,
}

fn yes() -> bool {
    true
}

/// Idle time after which a flow counts as new. A bulk flow never ends: one that sends nothing for a
/// while waits for a transmit opportunity or for a retransmission, and keeps its level.
const ENDLESS: Span = Span::from_secs(60);
/// Largest number of bulk flows per worker's host: each has two threads.
const BULK_MAX: usize = 16;
/// Largest number of workers.
const PARTS_MAX: usize = 8;
/// Largest answer of a service, in bytes.
const ANSWER_MAX: usize = 1 << 20;

fn prepare(_mode: &str, mut settings: Table) -> Result<PreparedRun, String> {
    let mechanisms = settings.remove("mechanisms").ok_or("mechanisms is missing, such as \"all\"")?;
    let mechanisms =
        mechanisms.as_str().ok_or(format!("mechanisms {mechanisms} is not a text, such as \"all\""))?;
    let mechanisms: Mechanisms = mechanisms.parse().map_err(|e| line(&e))?;
    let host =
        settings.remove("host").ok_or("the setting host, the environment of the services, is missing")?;
    let host: Host = host.try_into().map_err(|e: toml::de::Error| line(&e))?;
    for (name, value) in [
        ("order", if mechanisms.events { "edf" } else { "fifo" }),
        ("shedding", if mechanisms.deadline { "infeasible" } else { "none" }),
    ] {
        if settings.insert(name.to_owned(), Value::String(value.to_owned())).is_some() {
            return Err(format!("{name} follows from mechanisms and cannot be set"));
        }
    }
    let config: Config = settings.try_into().map_err(|e: toml::de::Error| line(&e))?;
    config.check().map_err(|e| line(&e))?;
    let plan = Plan { policy: policy(mechanisms, &host)?, config, host, mechanisms };
    plan.check()?;
    Ok(Box::new(move || run(&plan)))
}

/// Policy of the workers' egress. Each class has its own level, as far as levels exist, with and
/// without the fabric, so that packets are counted by their label.
fn policy(mechanisms: Mechanisms, host: &Host) -> Result<Policy, String> {
    let mut policy =
        crate::egress::named(if mechanisms.fabric { "fish" } else { "fifo" }).map_err(|e| line(&e))?;
    policy.idle = ENDLESS;
    let lowest = policy.levels() - 1;
    let level = |class: usize| Priority::new(class.min(lowest) as u8).unwrap_or(Priority::LOWEST);
    policy.pin_dscp = host.dscp.iter().enumerate().map(|(class, &dscp)| (dscp, level(class))).collect();
    policy.check().map_err(|e| line(&e))?;
    Ok(policy)
}

impl Plan {
    /// True if the stack limits new connections to the capacity.
    fn sheds_syns(&self) -> bool {
        self.host.stack && self.host.syn_shedding && self.mechanisms.guard
    }

    /// True if a service whose request is behind its budget requests a core.
    fn requests_cores(&self) -> bool {
        self.mechanisms.cores && self.mechanisms.deadline
    }

    fn check(&self) -> Result<(), String> {
        let Host { rate, bulk, answer, dscp, guard_target, unanswered, other_max, .. } = &self.host;
        Policy::check_rate(*rate).map_err(|e| line(&e))?;
        within("host.bulk", *bulk, 0..=BULK_MAX)?;
        within("host.answer", *answer, 1..=ANSWER_MAX)?;
        within("host.other_max", *other_max, 0.0..=1e4)?;
        // Also applies to a guard on the stack.
        within("host.guard_target in seconds", guard_target.as_secs_f64(), 0.001..=10.0)?;
        within("host.unanswered in seconds", unanswered.as_secs_f64(), 0.001..=3600.0)?;
        let classes = self.config.slos.len();
        let is_valid = |(n, value): (usize, &u8)| *value > 0 && *value < 64 && !dscp[..n].contains(value);
        if dscp.len() != classes || !dscp.iter().enumerate().all(is_valid) {
            return Err(format!("host.dscp {dscp:?} is not one of 1..=63 for each of {classes} slos"));
        }
        within("host.newcomers", self.host.newcomers, 0..=classes)?;
        if self.host.stack {
            stack::levels(dscp)?;
        }
        let [front, workers] = &self.config.stages[..] else {
            return Err(format!(
                "{} stages instead of 2: a front end and its workers",
                self.config.stages.len()
            ));
        };
        if front.parts != 1 || workers.partial || workers.reserve > Span::ZERO {
            let message = format!("stages {} and {}", front.name, workers.name);
            let valid = "parts = 1 in the first; partial = false and reserve = 0 in the second";
            return Err(format!("{message} are not a front end and workers that it waits for: {valid}"));
        }
        within(&format!("stage {}: parts", workers.name), workers.parts, 1..=PARTS_MAX)
    }
}

/// Serializes runs; caches nothing.
static RUN_LOCK: HostLock<()> = HostLock::new();

fn run(plan: &Plan) -> Result<RunResult, Error> {
    let _lock = RUN_LOCK.enter();
    let (repeats, other_max) = (plan.host.repeats, plan.host.other_max);
    let results = least_disturbed(
        repeats,
        other_max,
        |results: &TiersResults| results.other,
        || TiersSetup::new(plan)?.drive(plan),
    )?;
    Ok(RunResult { events: results.events, rows: rows(plan, &results), noise: Some(results.noise) })
}

fn rows(plan: &Plan, results: &TiersResults) -> Vec<ClassFigures> {
    let outcome = &results.outcome;
    let seconds = outcome.arriving.as_secs_f64();
    let mut rows: Vec<ClassFigures> =
        outcome.classes.iter().map(|class| of_class(class, plan.host.unanswered, seconds)).collect();
    rows.push(total(results, seconds));
    rows.extend(results.services.iter().map(|(name, counts)| of_service(name, counts)));
    rows
}

fn percent(part: u64, of: u64) -> f64 {
    if of > 0 { part as f64 / of as f64 * 100.0 } else { f64::NAN }
}

/// Row of a class of users with all its requests. An unanswered request counts with `unanswered` or
/// the largest latency, whichever is longer.
fn of_class(class: &UserClassOutcome, unanswered: Span, seconds: f64) -> ClassFigures {
    let mut all = class.latency.clone();
    all.record_n(unanswered.max(class.latency.max()), class.dropped);
    let us = micros_if(all.count() > 0);
    let known = [
        ("requests", class.requests as f64),
        ("answered", (class.on_time + class.late) as f64 / seconds),
        ("good", class.on_time as f64 / seconds),
        ("miss", percent(class.requests - class.on_time, class.requests)),
        ("dropped", percent(class.dropped, class.requests)),
        ("p50", us(all.quantile(0.5))),
        ("p99", us(all.quantile(0.99))),
        ("p999", us(all.quantile(0.999))),
        ("max", us(all.max())),
    ];
    WORLD.row(&class.name, &known, points(all.cdf()))
}

/// Row of all classes together, BE and bulk flows.
fn total(results: &TiersResults, seconds: f64) -> ClassFigures {
    let sum = |of: fn(&UserClassOutcome) -> u64| results.outcome.classes.iter().map(of).sum::<u64>();
    let (requests, on_time) = (sum(|class| class.requests), sum(|class| class.on_time));
    let known = [
        ("requests", requests as f64),
        ("answered", (on_time + sum(|class| class.late)) as f64 / seconds),
        ("good", on_time as f64 / seconds),
        ("miss", percent(requests - on_time, requests)),
        ("dropped", percent(sum(|class| class.dropped), requests)),
        ("be", results.be_per_s),
        ("be_cpu", results.be_cores * 100.0),
        ("bulk", results.bulk_bits_per_s / 1e9),
        ("labelled", results.labelled_per_s),
        ("other", results.other),
    ];
    WORLD.row("total", &known, Vec::new())
}

/// Row of a service: its own queue, from the first request to the last, including warm-up requests.
fn of_service(name: &str, counts: &ServiceCounts) -> ClassFigures {
    let us = |ns: u64| Span::from_nanos(ns).as_micros_f64();
    let known = [
        ("requests", counts.worked as f64),
        ("queue_p50", us(counts.queue_p50_ns)),
        ("queue", us(counts.queue_p99_ns)),
        ("refused", counts.refused as f64),
        ("shed", counts.shed as f64),
        ("first", counts.first as f64),
        ("last", counts.last as f64),
        ("unbudgeted", counts.unbudgeted as f64),
        ("beyond", us(counts.beyond_ns)),
    ];
    WORLD.row(name, &known, Vec::new())
}

#[cfg(test)]
mod tests;
