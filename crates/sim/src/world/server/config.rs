//! Configuration of the simulation, read from an experiment's TOML.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use load::client::{Client, PORTS_PER_TARGET};
use load::plan::{Plan, RequestClass};
use queueing::{Priority, Rate, Span};
use runtime::mode::{Classifiers, Mode};
use runtime::shard;
use sched::dispatch::{Params, RequestType, Steering, WorkerId, WorkerSet};

use super::Machine;
use super::scenario::ScenarioClassifiers;
use crate::BadConfig;
use crate::serde_text::text;
use crate::{CostModel, link};

pub(in crate::world) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(in crate::world) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(in crate::world) const PORT_MIN: u16 = 7000;

/// Jobs per priority assigned to a preemptive server. The dispatcher holds the rest in the same
/// order, hence any number not below the number of cores gives the same schedule.
const IN_HAND: usize = WORKERS_MAX / Priority::LEVELS;
const WORKERS_MAX: usize = 256;

/// Simulation of one client and one server.
///
/// ```
/// let config = sim::world::server::Config::from_toml(r#"
///     mode = "adps"
///     workers = 1
///     scenario = { driver = "tag" }
///     link = { gbps = 10, delay = "2us" }
///     [load]
///     connections = 100
///     arrivals = "poisson 100000"
///     requests = 1000
///     classes = [{ name = "ls", share = 1.0, service = "exp 5us" }]
/// "#)?;
/// assert_eq!(config.workers, 1);
/// # Ok::<(), sim::world::server::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Compared system that the server implements.
    #[serde(deserialize_with = "text")]
    pub mode: Mode,
    /// Classifiers registered by the application.
    #[serde(default)]
    pub scenario: ScenarioClassifiers,
    /// Cores that serve requests, 1..=256; 1 if shared, 1..=32 if preemptive.
    pub workers: usize,
    /// Assignment of workers to cores.
    #[serde(default)]
    pub cores: WorkerPlacement,
    /// Workers per priority (`low = [1]`, `"0-1" = [0]`), for modes with steering; unnamed
    /// levels go to any worker.
    #[serde(default)]
    pub steering: BTreeMap<String, Vec<usize>>,
    /// Capacity of the receive buffer, in frames.
    #[serde(default = "rx_frames_default")]
    pub rx_frames_max: usize,
    /// Capacity of the NIC ring, in frames.
    #[serde(default = "nic_ring_default")]
    pub nic_ring: usize,
    /// Cable between client and server.
    #[serde(default)]
    pub link: LinkConfig,
    /// Costs of the stack's work; default: the checked-in model.
    pub costs: Option<CostModel>,
    /// Load of the client.
    pub load: Plan,
    /// Requests that `darc` profiles before its first reservation; default: the paper's 50,000.
    pub darc_samples: Option<u64>,
    /// Seed, used in place of the load's own; the same seed replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
}

/// Assignment of workers to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerPlacement {
    /// One core per worker, and one for the stack.
    #[default]
    Own,
    /// Stack and worker alternate on one core, as in mTCP.
    Shared,
    /// One core per worker with ideal preemption: a more urgent request preempts the least
    /// urgent one immediately and without cost.
    Preemptive,
}

/// Cable between client and server.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Rate of each direction in Gbit/s, 0.001..=1000.
    pub gbps: f64,
    /// Propagation delay.
    #[serde(deserialize_with = "text")]
    pub delay: Span,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { gbps: 10.0, delay: Span::from_micros(2) }
    }
}

impl Config {
    /// Server in `mode` with one worker, default link and default costs.
    #[must_use]
    pub fn new(mode: Mode, load: Plan) -> Self {
        Self {
            mode,
            scenario: ScenarioClassifiers::default(),
            workers: 1,
            cores: WorkerPlacement::Own,
            steering: BTreeMap::new(),
            rx_frames_max: rx_frames_default(),
            nic_ring: nic_ring_default(),
            link: LinkConfig::default(),
            costs: None,
            darc_samples: None,
            seed: load.seed,
            load,
        }
    }

    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// The invalid value: with line and key, or with its range.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn check(&self) -> Result<(), BadConfig> {
        let workers_max = match self.cores {
            WorkerPlacement::Own => WORKERS_MAX,
            WorkerPlacement::Shared => 1,
            WorkerPlacement::Preemptive => IN_HAND,
        };
        let within = |name: &str, value: f64, min: f64, max: f64| {
            let text = format!("{name} {value} is outside {min}..={max}");
            if (min..=max).contains(&value) { Ok(()) } else { Err(BadConfig(text)) }
        };
        within("workers", self.workers as f64, 1.0, workers_max as f64)?;
        within("rx_frames_max", self.rx_frames_max as f64, 1.0, 1e7)?;
        within("nic_ring", self.nic_ring as f64, 1.0, 1e7)?;
        within("link.gbps", self.link.gbps, 0.001, 1000.0)?;
        self.steering()?;
        self.load.validate().map_err(|error| BadConfig(format!("load: {error}")))
    }

    fn cost(&self) -> CostModel {
        self.costs.unwrap_or_default()
    }

    fn link(&self) -> link::Config {
        link::Config {
            rate: Rate::from_bits_per_sec((self.link.gbps * 1e9) as u64),
            delay: self.link.delay,
            rx_ring: self.nic_ring,
            ..link::Config::default()
        }
    }

    /// Number of the shard's workers; for a preemptive server they are assigned jobs, not
    /// cores.
    fn slots(&self) -> usize {
        if self.cores == WorkerPlacement::Preemptive { WORKERS_MAX } else { self.workers }
    }

    fn shard(&self, classifiers: Classifiers) -> shard::Config {
        // Every connection has at most one valid entry, besides stale ones.
        let mut params = Params::new(self.slots(), 4 * self.load.connections as usize + 1024);
        params.darc.samples = self.darc_samples.unwrap_or(params.darc.samples);
        params.darc.urgency = self.load.classes.iter().filter_map(urgency).collect();
        let policy = self.mode.policy(classifiers, &params, self.steering().expect("checked"));
        let mut shard = shard::Config::new(self.stack(SERVER), policy, self.slots());
        shard.rx_frames_max = self.rx_frames_max;
        match self.cores {
            WorkerPlacement::Own => {}
            // TCP delivers a request, which is served and answered before the next.
            WorkerPlacement::Shared => shard.budget.transport = 1,
            WorkerPlacement::Preemptive => shard.steering = std::array::from_fn(in_hand),
        }
        shard
    }

    pub(super) fn machine(&self) -> Machine {
        let (app, classifiers) = self.scenario.build();
        Machine {
            cost: self.cost(),
            link: self.link(),
            shard: self.shard(classifiers),
            app: Arc::new(app),
            ports: self.targets().iter().map(SocketAddr::port).collect(),
            cores: self.cores,
            workers: self.workers,
            slots: self.slots(),
        }
    }

    pub(super) fn client(&self) -> Client {
        let plan = Plan { seed: self.seed, ..self.load.clone() };
        let mut stack = self.stack(CLIENT);
        stack.rto_min = CLIENT_RTO_MIN;
        Client::with_targets(&plan, stack, self.targets()).expect("the plan was checked")
    }

    /// Enough ports for all connections of one client address.
    fn targets(&self) -> Vec<SocketAddr> {
        let ports = self.load.connections.div_ceil(PORTS_PER_TARGET) as u16;
        (0..ports).map(|i| SocketAddr::new(SERVER.into(), PORT_MIN + i)).collect()
    }

    fn stack(&self, addr: Ipv4Addr) -> net::stack::Config {
        stack(addr, self.seed)
    }

    fn steering(&self) -> Result<Steering, BadConfig> {
        if self.cores == WorkerPlacement::Preemptive {
            return Ok(Steering::all(WORKERS_MAX));
        }
        let lists = self.steering.iter().map(|(levels, workers)| (levels.as_str(), workers.as_slice()));
        Steering::from_lists(self.workers, lists).map_err(|error| BadConfig(format!("steering: {error}")))
    }
}

/// Stack configuration of the host at `addr`.
pub(in crate::world) fn stack(addr: Ipv4Addr, seed: u64) -> net::stack::Config {
    let host = addr.octets()[3];
    let mut secret = [host; 16];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    net::stack::Config::new([2, 0, 0, 0, 0, host], addr, 24, secret)
}

/// Retransmission timeout of clients, as in RFC 6298 §2.4: a frame dropped on purpose must not
/// be resent during a later burst.
pub(in crate::world) const CLIENT_RTO_MIN: Span = Span::from_secs(1);

/// Declared urgency of a request kind: DARC orders kinds of equal service time by it (ADPS
/// §4.1).
fn urgency(class: &RequestClass) -> Option<(RequestType, Priority)> {
    Some((RequestType(class.kind.into()), Priority::new(class.priority)?))
}

fn in_hand(level: usize) -> WorkerSet {
    (level * IN_HAND..(level + 1) * IN_HAND).map(|worker| WorkerId(worker as u8)).collect()
}

const fn rx_frames_default() -> usize {
    4096
}

const fn nic_ring_default() -> usize {
    4096
}

const fn seed_default() -> u64 {
    1
}
