//! greenwave's stack under overload: clients with one request per connection.
//!
//! The server is the real [`runtime::Shard`] on one core that also runs the application, in the
//! loop of `greenwave serve --workers 0`, with a guard at its driver stage; costs are the
//! [`CostModel`]'s. A client connects, sends a request, and closes on the answer or on its
//! timeout. The server cannot distinguish a timeout from a half-closed connection and serves
//! the request in vain. Arrivals are open-loop; clients cost no time.
//! Source: overload paper §4 (S-Client's open loop).

mod clients;

use std::str::FromStr;
use std::sync::Arc;

use guard::Params;
use queueing::{Arrivals, Distribution, Histogram, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{self, Refusal, ShardGuard, Shed, WorkBudget};
use sched::dispatch::Steering;

pub use crate::BadConfig;
use crate::serde_text::text;
use crate::{CostModel, link};

use super::server::config::{SERVER, stack};
use super::server::scenario::ScenarioClassifiers;
use super::server::{Machine, WorkerPlacement, World};
use clients::ClientPopulation;

/// Server and its load.
///
/// ```
/// let config = sim::world::overloaded_stack::Config::from_toml(r#"
///     load = 0.5
///     service = "exp 20us"
///     warmup = "10ms"
///     duration = "20ms"
///     guard = "queue-delay"
/// "#)?;
/// let expected = 0.5 * config.capacity_per_s() * 0.020;
/// assert!(sim::world::overloaded_stack::run(&config)?.in_time as f64 > 0.8 * expected);
/// # Ok::<(), sim::world::overloaded_stack::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Offered load, Poisson, relative to the capacity of one core
    /// ([`Config::capacity_per_s`]): more than 0.
    pub load: f64,
    /// Offered load of low-priority clients, which are shed first; 0: none.
    #[serde(default)]
    pub load_others: f64,
    /// Offered load in place of `load` until [`surge_until`](Self::surge_until).
    #[serde(default)]
    pub surge: f64,
    /// Duration of the surge, from the start.
    #[serde(default, deserialize_with = "text")]
    pub surge_until: Span,
    /// Service time of a request, beyond the stack's work.
    #[serde(deserialize_with = "text")]
    pub service: Distribution,
    /// Client timeout, from arrival to answer.
    #[serde(default = "timeout_default", alias = "patience", deserialize_with = "text")]
    pub timeout: Span,
    /// Warm-up; clients that arrive later are measured.
    #[serde(default = "second", deserialize_with = "text")]
    pub warmup: Span,
    /// Measured duration, more than zero.
    #[serde(default = "second", deserialize_with = "text")]
    pub duration: Span,
    /// Policy of crate `guard`.
    #[serde(default = "none")]
    pub guard: String,
    /// Target queueing delay, for policies that use one.
    #[serde(default = "target_default", deserialize_with = "text")]
    pub delay_target: Span,
    /// Response to a shed SYN: `drop` or `reset`.
    #[serde(default, alias = "refusal", deserialize_with = "text")]
    pub reject: RefusalArg,
    /// Frames processed by TCP in a round before the next request; at least 1. A value far
    /// above the arrivals during one request models a system that always receives first.
    #[serde(default = "transport_default")]
    pub transport: usize,
    /// Maximum share of the core for receiving while requests wait, percent, 1..=100.
    #[serde(default = "percent_default")]
    pub receive_percent: u8,
    /// Connections per client address, 1..=1,048,576, including closed ones whose end the
    /// server has not acknowledged. As many addresses as needed are used, at most 8.
    #[serde(default = "connections_default")]
    pub connections_max: usize,
    /// Costs of the stack's work; default: the checked-in model.
    pub costs: Option<CostModel>,
    /// Seed; the same seed replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// Text form of [`Refusal`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusalArg(pub Refusal);

impl FromStr for RefusalArg {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        match text {
            "drop" | "silence" => Ok(Self(Refusal::Drop)),
            "reset" => Ok(Self(Refusal::Reset)),
            _ => Err(BadConfig(format!("reject {text:?} is not one of drop, reset"))),
        }
    }
}

fn timeout_default() -> Span {
    Span::from_millis(100)
}

fn second() -> Span {
    Span::from_secs(1)
}

fn none() -> String {
    "none".to_owned()
}

fn target_default() -> Span {
    Params::default().delay_target
}

fn transport_default() -> usize {
    WorkBudget::inline(Span::ZERO).transport
}

fn percent_default() -> u8 {
    100
}

const fn connections_default() -> usize {
    CONNECTIONS_MAX
}

fn one() -> u64 {
    1
}

impl Config {
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the configuration can be simulated.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn check(&self) -> Result<(), BadConfig> {
        self.guard().map_err(|error| BadConfig(format!("guard {error}")))?;
        let invalid = |what: String| Err(BadConfig(what));
        match self {
            Self { duration: Span::ZERO, .. } => invalid("duration 0ns is not above 0".into()),
            Self { load, .. } if !(*load > 0.0 && *load <= LOAD_MAX) => {
                invalid(format!("load {load} is outside 0 (excluded) to {LOAD_MAX}"))
            }
            Self { surge: load, .. } if !(0.0..=LOAD_MAX).contains(load) => {
                invalid(format!("surge {load} is outside 0..={LOAD_MAX}"))
            }
            Self { load_others: load, .. } if !(0.0..=LOAD_MAX).contains(load) => {
                invalid(format!("load_others {load} is outside 0..={LOAD_MAX}"))
            }
            Self { connections_max: most @ (0 | CONNECTIONS_MORE..), .. } => {
                invalid(format!("connections_max {most} is outside 1..={CONNECTIONS_MAX}"))
            }
            Self { transport: 0, .. } => invalid("transport 0 is not at least 1".into()),
            Self { receive_percent: percent @ (0 | 101..), .. } => {
                invalid(format!("receive_percent {percent} is outside 1..=100"))
            }
            _ => Ok(()),
        }
    }

    fn guard(&self) -> Result<ShardGuard, guard::UnknownName> {
        let params = Params { delay_target: self.delay_target, ..Params::default() };
        Ok(ShardGuard { refusal: self.reject.0, ..ShardGuard::by_name(&self.guard, &params)? })
    }

    fn cost(&self) -> CostModel {
        self.costs.unwrap_or_default()
    }

    /// Cost of a client that is not served, 1/µ1: SYN, request and FIN received; SYN and two
    /// acknowledgements sent.
    #[must_use]
    pub fn receive(&self) -> Span {
        let CostModel { driver_ns, tcp_rx_ns, tcp_ack_ns, tcp_tx_ns, .. } = self.cost();
        Span::from_nanos(3 * driver_ns + 2 * tcp_ack_ns + tcp_rx_ns + 3 * tcp_tx_ns)
    }

    /// Additional cost of a served client, 1/µ2: request dispatch and service, the response,
    /// and its acknowledgement.
    #[must_use]
    pub fn serve(&self) -> Span {
        let CostModel { driver_ns, tcp_ack_ns, tcp_tx_ns, event_ns, dispatch_ns, .. } = self.cost();
        self.service.mean() + Span::from_nanos(event_ns + dispatch_ns + tcp_tx_ns + driver_ns + tcp_ack_ns)
    }

    /// Clients per second that saturate one core.
    #[must_use]
    pub fn capacity_per_s(&self) -> f64 {
        1.0 / (self.receive() + self.serve()).as_secs_f64()
    }

    /// Clients served per second at `offered_per_s` if receiving has priority: the overload
    /// paper's (7).
    #[must_use]
    pub fn line_per_s(&self, offered_per_s: f64) -> f64 {
        let left = (1.0 - offered_per_s * self.receive().as_secs_f64()).max(0.0);
        (left / self.serve().as_secs_f64()).min(offered_per_s)
    }

    fn arrivals(&self, load: f64) -> Option<Arrivals> {
        let rate_per_s = load * self.capacity_per_s();
        (load > 0.0).then_some(Arrivals::Poisson { rate_per_s })
    }

    fn machine(&self) -> Machine {
        let params = sched::dispatch::Params::new(1, TASKS);
        let (app, _) = ScenarioClassifiers::default().build();
        let classifiers = Classifiers { driver: Some(clients::classifier()), ..Classifiers::default() };
        // FIFO, except for the guard's priority classes.
        let mut policy = Mode::None.policy(Classifiers::default(), &params, Steering::all(1));
        policy.driver = classifiers.driver.filter(|_| self.load_others > 0.0);
        let mut shard = shard::Config::new(stack(SERVER, self.seed), policy, 1);
        shard.guard = Some(self.guard().expect("checked"));
        shard.budget = WorkBudget {
            transport: self.transport,
            receive_percent: self.receive_percent,
            ..WorkBudget::inline(Span::ZERO)
        };
        Machine {
            cost: self.cost(),
            link: link::Config::default(),
            shard,
            app: Arc::new(app),
            ports: clients::ports().collect(),
            cores: WorkerPlacement::Shared,
            workers: 1,
            slots: 1,
        }
    }
}

/// Maximum load, which bounds the number of events.
const LOAD_MAX: f64 = 100.0;
/// Default of the stack's connection limit.
const CONNECTIONS_MAX: usize = 1 << 20;
const CONNECTIONS_MORE: usize = CONNECTIONS_MAX + 1;
/// Capacity of the event queue: same as `greenwave serve`.
const TASKS: usize = 65_536;

/// Outcomes of the measured clients, and server statistics.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Measured clients.
    pub offered: u64,
    /// Measured clients answered in time; the others timed out.
    pub in_time: u64,
    /// Measured clients rejected by a reset; they left at once.
    pub refused: u64,
    /// Low-priority clients: measured, and answered in time.
    pub others: (u64, u64),
    /// Time from arrival to answer, of clients answered in time.
    pub latency: Histogram,
    /// Measured duration.
    pub counting: Span,
    /// Requests served per second, in time or not.
    pub served_per_s: f64,
    /// SYNs seen and shed by the guard, all classes.
    pub guard: Shed,
    /// Longest queueing delay at each guard round, from the start.
    pub delay: Histogram,
    /// Fraction of time spent receiving.
    pub receiving: f64,
    /// Frames dropped at a full NIC ring or receive buffer.
    pub frames_lost: u64,
    /// Events simulated.
    pub events: u64,
}

/// Runs until every measured client has an answer or has left.
///
/// # Errors
/// One line, if the clients exceed the connections of their addresses.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
pub fn run(config: &Config) -> Result<Outcome, BadConfig> {
    config.check().expect("a checked configuration");
    let mut world = World::new(config.machine(), ClientPopulation::new(config));
    world.run(&mut |_, _| {});
    let done = world.done();
    let seconds = done.elapsed.as_secs_f64().max(1e-9);
    let [before, now] = done.counters;
    let guard = now.guard.iter().zip(before.guard).fold(Shed::default(), |all, (now, before)| Shed {
        seen: all.seen + now.seen - before.seen,
        by_rate: all.by_rate + now.by_rate - before.by_rate,
        by_presence: all.by_presence + now.by_presence - before.by_presence,
        by_closing: all.by_closing + now.by_closing - before.by_closing,
    });
    let (delay, frames_lost) =
        (world.shard.stats().delay.clone(), done.nic.dropped + now.driver.dropped_full);
    let outcome = world.client.into_outcome().map_err(|(addresses, since)| {
        let connections_each = config.connections_max;
        BadConfig(format!(
            "load {}: after {} of virtual time all {addresses} client addresses are full, \
             with {connections_each} connections each",
            config.load,
            since.since(Time::ZERO)
        ))
    })?;
    Ok(Outcome {
        counting: config.duration,
        served_per_s: (now.responses - before.responses) as f64 / seconds,
        guard,
        delay,
        receiving: done.receiving.as_secs_f64() / seconds,
        frames_lost,
        events: done.events,
        ..outcome
    })
}
