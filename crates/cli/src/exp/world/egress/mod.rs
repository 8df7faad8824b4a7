//! World `egress`: flows over the kernel's TCP through a router with a shaped egress (`greenwave
//! fabric`).
//!
//! Three network namespaces: senders, router, receivers. Some flows never end. Beside them bursts
//! of small and large flows start, each on its own connection and timed from its start until the
//! receiver has all bytes and confirms. Runs are serialized.

mod flows;
mod network;

use std::sync::{Mutex, PoisonError};

use hostbpf::egress::Policy;
use queueing::{Histogram, Rate, Span};
use serde::Deserialize;
use toml::Table;

use self::flows::FlowCompletion;
use self::network::BottleneckNetwork;
use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, column, line, metric, micros_if, points};
use crate::error::Error;

pub const WORLD: World = World {
    name: "egress",
    kind: TimeKind::host(1),
    note: "flow completion times in µs; utilisation: bytes sent over bytes possible at the rate",
    stats: &[
        column("flows", "1", "flows"),
        column("mean", "µs", "mean"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("max", "µs", "max"),
        column("utilisation", "%", "util. %"),
        column("dropped", "%", "drop %"),
        metric("levels", "1"),
    ],
    groups: &[("", 3), ("", 1), ("completion", 4), ("link", 2)],
    plot_stat: "p99",
    parts: &[],
    prepare,
};

/// Settings of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Name or file of a policy.
    policy: String,
    /// Packets per queue; the policy's value when absent.
    queue: Option<u32>,
    /// Rate of the router's egress.
    rate: String,
    /// Congestion control of the senders, such as `cubic`.
    congestion: String,
    /// Number of endless flows.
    bulk: u32,
    /// Small flows of each burst.
    small: Group,
    /// Larger flows that start at the same time as the small ones.
    large: Group,
    /// Interval between the starts of bursts.
    period: String,
    /// Number of bursts.
    bursts: u32,
    /// Start order of a burst's flows.
    #[serde(default)]
    seed: u64,
}

/// Flows of one size.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    flows: u32,
    bytes: u64,
}

/// Validated settings.
struct Plan {
    config: Config,
    policy: Policy,
    rate: Rate,
    period: Span,
}

/// Largest number of concurrent flows: each has two threads.
const FLOWS_MAX: u32 = 200;

fn prepare(_mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let config: Config = settings.try_into().map_err(|e: toml::de::Error| line(&e))?;
    let mut policy = crate::egress::named(&config.policy).map_err(|e| line(&e))?;
    policy.queue = config.queue.unwrap_or(policy.queue);
    policy.check().map_err(|e| line(&e))?;
    let rate: Rate = config.rate.parse().map_err(|e| line(&e))?;
    Policy::check_rate(rate).map_err(|e| line(&e))?;
    let period: Span = config.period.parse().map_err(|e| format!("period: {e}"))?;
    let flows = config.bulk.saturating_add(config.small.flows).saturating_add(config.large.flows);
    if config.small.flows == 0 || flows > FLOWS_MAX {
        return Err(format!(
            "{flows} flows with {} small ones are outside 1 small..={FLOWS_MAX}",
            config.small.flows
        ));
    }
    if config.bursts == 0 || period == Span::ZERO || config.small.bytes == 0 || config.large.bytes == 0 {
        return Err("bursts, period and bytes must be above 0".to_owned());
    }
    let plan = Plan { config, policy, rate, period };
    Ok(Box::new(move || run(&plan)))
}

/// Serializes runs, which share the machine's cores.
static RUN_LOCK: Mutex<()> = Mutex::new(());

fn run(plan: &Plan) -> Result<RunResult, Error> {
    let _lock = RUN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let network = BottleneckNetwork::new(plan)?;
    let results = flows::run(plan, &network)?;
    let figures = results.link;
    let all = results.completions.iter().collect::<Vec<_>>();
    let of = |large: bool| results.completions.iter().filter(|flow| flow.large == large).collect::<Vec<_>>();
    let none = [f64::NAN; 3];
    let rows = vec![row("small", &of(false), none), row("large", &of(true), none), row("all", &all, figures)];
    Ok(RunResult { events: results.completions.len() as u64, rows, noise: None })
}

/// Figures of some flows, and of the link.
fn row(class: &str, flows: &[&FlowCompletion], link: [f64; 3]) -> ClassFigures {
    let mut histogram = Histogram::new();
    flows.iter().for_each(|flow| histogram.record(flow.span));
    let us = micros_if(!flows.is_empty());
    let times = [
        us(histogram.mean()),
        us(histogram.quantile(0.5)),
        us(histogram.quantile(0.99)),
        us(histogram.max()),
    ];
    let figures = [&[flows.len() as f64][..], &times, &link].concat();
    ClassFigures { class: class.to_owned(), figures, cdf: points(histogram.cdf()) }
}
