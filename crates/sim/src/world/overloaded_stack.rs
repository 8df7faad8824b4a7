//! Our stack under overload: callers who want one answer each, and leave.
//!
//! The server is the real [`runtime::Shard`] on one core that also serves, in
//! the rounds of `greenwave serve --workers 0`, with a guard at its driver
//! stage; its costs are the [`CostModel`]'s. A caller connects, asks, and
//! closes when it has its answer, or when its patience ends: then it closes all
//! the same, and the server, which cannot tell that from a half-closed
//! connection, serves it in vain. Callers come whether anybody is served or
//! not; to them nothing costs time.
//! Source: the overload paper §4 (S-Client's open loop).

mod clients;

use std::str::FromStr;
use std::sync::Arc;

use guard::Params;
use queueing::{Arrivals, Distribution, Histogram, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{self, Budget, Guard, Refusal, Shed};
use sched::dispatch::Steering;

pub use crate::BadConfig;
use crate::text::text;
use crate::{CostModel, link};

use super::server::config::{SERVER, stack};
use super::server::scenario::Scenario;
use super::server::{Cores, Machine, World};
use clients::Callers;

/// The server and who calls it.
///
/// ```
/// let config = sim::world::callers::Config::from_toml(r#"
///     load = 0.5
///     service = "exp 20us"
///     warmup = "10ms"
///     duration = "20ms"
///     guard = "queue-delay"
/// "#)?;
/// let expected = 0.5 * config.capacity_per_s() * 0.020;
/// assert!(sim::world::callers::run(&config)?.in_time as f64 > 0.8 * expected);
/// # Ok::<(), sim::world::callers::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Callers that come, by chance (Poisson), over those that one core can
    /// serve ([`Config::capacity_per_s`]): more than 0.
    pub load: f64,
    /// The same of those who are shed first; 0 is nobody.
    #[serde(default)]
    pub load_others: f64,
    /// The same as `load` until [`surge_until`](Self::surge_until).
    #[serde(default)]
    pub surge: f64,
    /// How long that lasts from the beginning.
    #[serde(default, deserialize_with = "text")]
    pub surge_until: Span,
    /// What their requests take of a core, beyond the stack's work.
    #[serde(deserialize_with = "text")]
    pub service: Distribution,
    /// How long a caller waits from when it comes to its answer.
    #[serde(default = "patience_default", deserialize_with = "text")]
    pub patience: Span,
    /// Callers count from here on.
    #[serde(default = "second", deserialize_with = "text")]
    pub warmup: Span,
    /// And so long, more than zero.
    #[serde(default = "second", deserialize_with = "text")]
    pub duration: Span,
    /// A policy of crate `guard`.
    #[serde(default = "none")]
    pub guard: String,
    /// How long a request may wait, for policies that ask.
    #[serde(default = "target_default", deserialize_with = "text")]
    pub delay_target: Span,
    /// What a caller hears that is shed: `silence` or `reset`.
    #[serde(default, deserialize_with = "text")]
    pub refusal: Rejection,
    /// Frames that go through TCP in a round, before the next request; 1 and
    /// more. Far more than come in the time of a request is the order of a
    /// system that receives whatever there is first.
    #[serde(default = "transport_default")]
    pub transport: usize,
    /// The share of the core that receiving may take while requests wait,
    /// percent, 1..=100.
    #[serde(default = "percent_default")]
    pub receive_percent: u8,
    /// Connections that an address of the callers' may have, 1..=1,048,576,
    /// ended ones whose end the server has not confirmed among them. There are
    /// as many addresses as that takes, 8 at the most.
    #[serde(default = "connections_default")]
    pub connections_max: usize,
    /// What the stack's work costs; the checked-in model where not given.
    pub costs: Option<CostModel>,
    /// Replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// [`Refusal`], as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rejection(pub Refusal);

impl FromStr for Rejection {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        match text {
            "silence" => Ok(Self(Refusal::Silence)),
            "reset" => Ok(Self(Refusal::Reset)),
            _ => Err(BadConfig(format!("refusal {text:?} is not one of silence, reset"))),
        }
    }
}

fn patience_default() -> Span {
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
    Budget::inline(Span::ZERO).transport
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
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::text::settings(text, Self::check)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        self.guard().map_err(|error| BadConfig(format!("guard {error}")))?;
        let wrong = |what: String| Err(BadConfig(what));
        match self {
            Self { duration: Span::ZERO, .. } => wrong("duration 0ns counts nobody, 1ms and more do".into()),
            Self { load, .. } if !(*load > 0.0 && *load <= LOAD_MAX) => {
                wrong(format!("load {load} is outside of more than 0 to {LOAD_MAX}"))
            }
            Self { surge: load, .. } if !(0.0..=LOAD_MAX).contains(load) => {
                wrong(format!("surge {load} is outside 0..={LOAD_MAX}"))
            }
            Self { load_others: load, .. } if !(0.0..=LOAD_MAX).contains(load) => {
                wrong(format!("load_others {load} is outside 0..={LOAD_MAX}"))
            }
            Self { connections_max: most @ (0 | CONNECTIONS_MORE..), .. } => {
                wrong(format!("connections_max {most} is outside 1..={CONNECTIONS_MAX}"))
            }
            Self { transport: 0, .. } => wrong("transport 0 takes nothing in, 1 and more do".into()),
            Self { receive_percent: percent @ (0 | 101..), .. } => {
                wrong(format!("receive_percent {percent} is outside 1..=100"))
            }
            _ => Ok(()),
        }
    }

    fn guard(&self) -> Result<Guard, guard::UnknownName> {
        let params = Params { delay_target: self.delay_target, ..Params::default() };
        Ok(Guard { refusal: self.refusal.0, ..Guard::by_name(&self.guard, &params)? })
    }

    fn cost(&self) -> CostModel {
        self.costs.unwrap_or_default()
    }

    /// What a caller costs whom nobody serves, 1/µ1: SYN, request and FIN in,
    /// SYN and two acknowledgements out.
    #[must_use]
    pub fn receive(&self) -> Span {
        let CostModel { driver_ns, tcp_rx_ns, tcp_ack_ns, tcp_tx_ns, .. } = self.cost();
        Span::from_nanos(3 * driver_ns + 2 * tcp_ack_ns + tcp_rx_ns + 3 * tcp_tx_ns)
    }

    /// What serving one costs beyond that, 1/µ2: its request's work and way to
    /// it, the response, and what that is answered with.
    #[must_use]
    pub fn serve(&self) -> Span {
        let CostModel { driver_ns, tcp_ack_ns, tcp_tx_ns, event_ns, dispatch_ns, .. } = self.cost();
        self.service.mean() + Span::from_nanos(event_ns + dispatch_ns + tcp_tx_ns + driver_ns + tcp_ack_ns)
    }

    /// Callers per second that keep one core busy.
    #[must_use]
    pub fn capacity_per_s(&self) -> f64 {
        1.0 / (self.receive() + self.serve()).as_secs_f64()
    }

    /// Those that are served of `offered_per_s` where receiving goes first:
    /// the overload paper's (7).
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
        let (app, _) = Scenario::default().build();
        let classifiers = Classifiers { driver: Some(clients::classifier()), ..Classifiers::default() };
        // First come, first served, but for whom the guard prefers.
        let mut policy = Mode::None.policy(Classifiers::default(), &params, Steering::all(1));
        policy.driver = classifiers.driver.filter(|_| self.load_others > 0.0);
        let mut shard = shard::Config::new(stack(SERVER, self.seed), policy, 1);
        shard.guard = Some(self.guard().expect("checked"));
        shard.budget = Budget {
            transport: self.transport,
            receive_percent: self.receive_percent,
            ..Budget::inline(Span::ZERO)
        };
        Machine {
            cost: self.cost(),
            link: link::Config::default(),
            shard,
            app: Arc::new(app),
            ports: clients::ports().collect(),
            cores: Cores::Shared,
            workers: 1,
            slots: 1,
        }
    }
}

/// More load makes more events than anybody waits for.
const LOAD_MAX: f64 = 100.0;
/// As many connections as a stack has by default.
const CONNECTIONS_MAX: usize = 1 << 20;
const CONNECTIONS_MORE: usize = CONNECTIONS_MAX + 1;
/// Tasks that the event queue holds: as many as those of `greenwave serve`.
const TASKS: usize = 65_536;

/// What became of the callers that counted, and what the server did meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Callers that counted.
    pub offered: u64,
    /// Of these, answered in time; the others left.
    pub in_time: u64,
    /// Refused by a reset; they left at once.
    pub refused: u64,
    /// Of those who are shed first, who counted and who was answered in time.
    pub others: (u64, u64),
    /// From coming to the answer, of those in time.
    pub latency: Histogram,
    /// For so long callers counted.
    pub counting: Span,
    /// Requests that the server served per second, in vain or not.
    pub served_per_s: f64,
    /// SYNs that came to the guard and were shed, of all classes.
    pub guard: Shed,
    /// The longest wait whenever the guard looked, from the beginning.
    pub delay: Histogram,
    /// The share of time that the core received.
    pub receiving: f64,
    /// Frames that found the NIC's ring or the receive buffer full.
    pub frames_lost: u64,
    /// Events simulated.
    pub events: u64,
}

/// Runs until everybody who counts has an answer or has left.
///
/// # Errors
/// When more come than the callers' addresses have places for, in one line.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
pub fn run(config: &Config) -> Result<Outcome, BadConfig> {
    config.check().expect("a checked configuration");
    let mut world = World::new(config.machine(), Callers::new(config));
    world.run(&mut |_, _| {});
    let done = world.done();
    let seconds = done.elapsed.as_secs_f64().max(1e-9);
    let [before, now] = done.counted;
    let guard = now.guard.iter().zip(before.guard).fold(Shed::default(), |all, (now, before)| Shed {
        seen: all.seen + now.seen - before.seen,
        by_rate: all.by_rate + now.by_rate - before.by_rate,
        by_presence: all.by_presence + now.by_presence - before.by_presence,
        by_closing: all.by_closing + now.by_closing - before.by_closing,
    });
    let (delay, frames_lost) =
        (world.shard.stats().delay.clone(), done.nic.dropped + now.driver.dropped_full);
    let outcome = world.client.into_outcome().map_err(|(addresses, since)| {
        let each = config.connections_max;
        BadConfig(format!(
            "load {}: after {} of virtual time all {addresses} addresses of the callers' are full, \
             with {each} connections each",
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
