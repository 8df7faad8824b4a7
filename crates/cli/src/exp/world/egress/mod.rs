//! An egress of this machine, for real: flows of the kernel's TCP through a
//! router whose way out is shaped (`greenwave fabric`).
//!
//! Three network namespaces: senders, the router, receivers. Some flows never
//! end; beside them bursts of small and large ones start, each on a
//! connection of its own, timed from its start to when the receiver has all
//! and said so. Runs go one after the other.

mod flows;
mod network;

use std::sync::{Mutex, PoisonError};

use host::egress::Policy;
use queueing::{Histogram, Rate, Span};
use serde::Deserialize;
use toml::Table;

use self::flows::Took;
use self::network::Network;
use super::{Kind, Row, Run, RunResult, World, kept, line, micros_if, points, shown};
use crate::error::Error;

pub const WORLD: World = World {
    name: "egress",
    kind: Kind::host(1),
    note: "flow completion times in µs; utilisation is what left over what the rate allows",
    stats: &[
        shown("flows", "1", "flows"),
        shown("mean", "µs", "mean"),
        shown("p50", "µs", "p50"),
        shown("p99", "µs", "p99"),
        shown("max", "µs", "max"),
        shown("utilisation", "%", "util. %"),
        shown("dropped", "%", "drop %"),
        kept("levels", "1"),
    ],
    groups: &[("", 3), ("", 1), ("completion", 4), ("link", 2)],
    drawn: "p99",
    parts: &[],
    prepare,
};

/// What runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// A policy's name or file.
    policy: String,
    /// Packets that each of its queues holds, if not what the policy says.
    queue: Option<u32>,
    /// What the router's way out is shaped to.
    rate: String,
    /// The senders' congestion control, such as `cubic`.
    congestion: String,
    /// Flows that never end.
    bulk: u32,
    /// Flows of each burst.
    small: Group,
    /// Larger flows that start with them.
    large: Group,
    /// From the start of one burst to the next.
    period: String,
    /// How many bursts.
    bursts: u32,
    /// The order in which a burst's flows start.
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

/// What runs, once it makes sense.
struct Plan {
    config: Config,
    policy: Policy,
    rate: Rate,
    period: Span,
}

/// Flows at once, at most: each has two threads.
const FLOWS_MAX: u32 = 200;

fn prepare(_mode: &str, settings: Table) -> Result<Run, String> {
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

/// One at a time: they share the machine's processors.
static ALONE: Mutex<()> = Mutex::new(());

fn run(plan: &Plan) -> Result<RunResult, Error> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let network = Network::new(plan)?;
    let found = flows::run(plan, &network)?;
    let figures = found.link;
    let all = found.took.iter().collect::<Vec<_>>();
    let of = |large: bool| found.took.iter().filter(|took| took.large == large).collect::<Vec<_>>();
    let none = [f64::NAN; 3];
    let rows = vec![row("small", &of(false), none), row("large", &of(true), none), row("all", &all, figures)];
    Ok(RunResult { events: found.took.len() as u64, rows, noise: None })
}

/// The figures of some flows, and the link's.
fn row(class: &str, took: &[&Took], link: [f64; 3]) -> Row {
    let mut histogram = Histogram::new();
    took.iter().for_each(|took| histogram.record(took.span));
    let us = micros_if(!took.is_empty());
    let times = [
        us(histogram.mean()),
        us(histogram.quantile(0.5)),
        us(histogram.quantile(0.99)),
        us(histogram.max()),
    ];
    let figures = [&[took.len() as f64][..], &times, &link].concat();
    Row { class: class.to_owned(), figures, cdf: points(histogram.cdf()) }
}
