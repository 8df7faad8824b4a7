//! Platform configuration, read from an experiment's TOML.

use queueing::{Arrivals, Bytes, Distribution, Priority, Span};

use super::mechanisms::Mechanisms;
use super::network::PlatformNetwork;
use crate::cores::{
    self, CoreMechanism, Costs, DramSensor, MachineConfig, Needs, Phase, TaskClass, TaskConfig,
};
use crate::serde_text::{text, text_or_none};
use crate::{BadConfig, CostModel};

/// Platform and its load.
///
/// ```
/// let config = sim::world::platform::Config::from_toml(r#"
///     mechanisms = "all"
///     clients = 1
///     duration = "10ms"
///     machine = { physical = 2, lanes = 1 }
///     tiers = [{ name = "front", hosts = 1, service = "exp 10us" },
///              { name = "leaf", hosts = 4, parts = 4, service = "exp 20us" }]
///     classes = [{ name = "ls", arrivals = "poisson 20000", level = 1, slo = "1ms" }]
///     [network]
///     topology = { kind = "star", hosts = 6, host = { gbps = 10, delay = "1us" } }
///     thresholds = [20, 200]
/// "#)?;
/// let outcome = sim::world::platform::run(&config);
/// assert_eq!(outcome.classes[0].requests, outcome.classes[0].accounted());
/// # Ok::<(), sim::world::platform::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Enabled mechanisms.
    #[serde(deserialize_with = "text")]
    pub mechanisms: Mechanisms,
    /// Network between hosts; absent: messages arrive when they are sent.
    pub network: Option<PlatformNetwork>,
    /// Number of client hosts.
    pub clients: u32,
    /// Tiers of the service, in the order of calls.
    pub tiers: Vec<Tier>,
    /// Request classes.
    pub classes: Vec<PlatformClass>,
    /// Factor on the arrival rate of each class, or on its burst size; for larger platforms.
    /// More than 0.
    #[serde(default = "once")]
    pub users: f64,
    /// Cores, DRAM and cache of each server.
    #[serde(default)]
    pub machine: MachineConfig,
    /// Costs of core allocation, and BE's time slice where `cores` is off; a slice of `0ns`
    /// selects the idle class.
    #[serde(default, alias = "handing")]
    pub core_costs: Costs,
    /// Resource use of the service.
    #[serde(default)]
    pub needs: Needs,
    /// Phases of the BE task on each server, which uses all its cores; empty: no BE task.
    #[serde(default, alias = "beside")]
    pub be_phases: Vec<Phase>,
    /// THRESH_BW in GB/s and socket; default: the paper's 25.
    pub bandwidth_max_gb: Option<f64>,
    /// Costs of the stack's work; default: the checked-in model.
    pub costs: Option<CostModel>,
    /// Period of the guard.
    #[serde(default = "period", deserialize_with = "text")]
    pub guard_period: Span,
    /// Target queueing delay of connection requests.
    #[serde(default = "target", deserialize_with = "text")]
    pub guard_target: Span,
    /// Capacity of a server's request queue.
    #[serde(default = "capacity")]
    pub capacity: usize,
    /// Minimum latency recorded for a request that is rejected, dropped or unanswered.
    #[serde(default = "timeout", alias = "patience", deserialize_with = "text")]
    pub timeout: Span,
    /// Warm-up; requests and work after it are measured.
    #[serde(default, deserialize_with = "text")]
    pub warmup: Span,
    /// Measured duration, after which no requests arrive.
    #[serde(alias = "lasts", deserialize_with = "text")]
    pub duration: Span,
    /// Time for outstanding requests to complete.
    #[serde(default = "drain", deserialize_with = "text")]
    pub drain: Span,
    /// Seed; the same seed replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// Tier of identical servers.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Name in reports.
    pub name: String,
    /// Number of servers.
    pub hosts: u32,
    /// Fan-out: servers among which each request is split; 1: not split.
    #[serde(default = "one_part")]
    pub parts: u32,
    /// Service time of a request before it goes to the next tier.
    #[serde(deserialize_with = "text")]
    pub service: Distribution,
    /// Service time of merging the answers of the next tier.
    #[serde(default, deserialize_with = "text_or_none")]
    pub merge: Option<Distribution>,
    /// Length of the request message.
    #[serde(default = "kilobyte", deserialize_with = "text")]
    pub request: Bytes,
    /// Length of the answer message.
    #[serde(default = "kilobyte", deserialize_with = "text")]
    pub answer: Bytes,
    /// Part of the budget reserved for the answers and for merging, where the next tier splits
    /// the request.
    #[serde(default, deserialize_with = "text")]
    pub reserve: Span,
}

/// Class of requests.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformClass {
    /// Name in reports.
    pub name: String,
    /// Arrival process.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Start of arrivals.
    #[serde(default, deserialize_with = "text")]
    pub from: Span,
    /// End of arrivals; default: end of the run.
    #[serde(default, deserialize_with = "text_or_none")]
    pub until: Option<Span>,
    /// Requested priority level, 0 (most urgent) to 7.
    pub level: u8,
    /// Highest granted level; default: the requested one.
    pub granted: Option<u8>,
    /// Latency objective.
    #[serde(deserialize_with = "text")]
    pub slo: Span,
    /// Factor on the service times of tiers.
    #[serde(default = "once")]
    pub scale: f64,
    /// True if each request opens a connection, which the guard may reject.
    #[serde(default)]
    pub newcomers: bool,
    /// Time of the receiving core to set up a connection.
    #[serde(default, deserialize_with = "text")]
    pub opening: Span,
}

fn period() -> Span {
    Span::from_millis(1)
}

fn target() -> Span {
    Span::from_millis(1)
}

fn capacity() -> usize {
    65_536
}

fn timeout() -> Span {
    Span::from_millis(100)
}

fn drain() -> Span {
    Span::from_millis(200)
}

fn one() -> u64 {
    1
}

fn one_part() -> u32 {
    1
}

fn once() -> f64 {
    1.0
}

fn kilobyte() -> Bytes {
    Bytes::new(1_000)
}

/// Maximum number of sub-requests of a request.
pub(super) const SUBREQUESTS_MAX: u64 = 4096;

impl Config {
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the platform can be built.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if self.clients == 0 {
            return bad("clients 0 is not at least 1".to_owned());
        }
        if self.duration == Span::ZERO {
            return bad("duration 0ns is not above 0".to_owned());
        }
        if !(1..=3).contains(&self.tiers.len()) {
            return bad(format!("{} tiers are outside 1..=3", self.tiers.len()));
        }
        let mut subrequests = 0;
        let mut width = 1;
        for Tier { name, hosts, parts, .. } in &self.tiers {
            if *hosts == 0 || !(1..=*hosts).contains(parts) {
                return bad(format!("tier {name}: parts {parts} are outside 1..={hosts}, its hosts"));
            }
            width *= u64::from(*parts);
            subrequests += width;
        }
        if subrequests > SUBREQUESTS_MAX {
            return bad(format!("a request of {subrequests} sub-requests is more than {SUBREQUESTS_MAX}"));
        }
        if self.tiers[0].parts != 1 {
            return bad(format!("tier {}: parts are for later tiers", self.tiers[0].name));
        }
        if self.classes.is_empty() {
            return bad("classes is empty, at least 1 is required".to_owned());
        }
        if !(self.users.is_finite() && self.users > 0.0) {
            return bad(format!("users {} is not more than 0", self.users));
        }
        for PlatformClass { name, level, granted, scale, .. } in &self.classes {
            let level = granted.unwrap_or(*level).max(*level);
            if !(1..Priority::LEVELS as u8).contains(&level) {
                return bad(format!("class {name}: level {level} is outside 1..=7"));
            }
            if !(scale.is_finite() && *scale > 0.0) {
                return bad(format!("class {name}: scale {scale} is not more than 0"));
            }
        }
        if !(1..=1_000_000).contains(&self.capacity) {
            return bad(format!("capacity {} is outside 1..=1000000", self.capacity));
        }
        if let Some(network) = &self.network {
            network.check(self.hosts(), self.seed)?;
        }
        // Check with arrivals and service, which the host's own configuration lacks.
        let mut host = self.host(0);
        (host.tasks[0].arrivals, host.tasks[0].service) =
            (Some(self.classes[0].arrivals), Some(self.tiers[0].service));
        host.check()
    }

    /// Number of hosts in use.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.clients + self.tiers.iter().map(|tier| tier.hosts).sum::<u32>()
    }

    /// Levels of classes that open connections.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = Priority> {
        self.classes.iter().filter(|class| class.newcomers).map(|class| class.levels()[1])
    }

    /// Machine of server number `number`.
    pub(super) fn host(&self, number: u64) -> cores::Config {
        let lanes = self.machine.sockets * self.machine.physical * self.machine.lanes;
        let enabled = self.mechanisms.cores;
        let task = |name: &str, class| TaskConfig {
            name: name.to_owned(),
            class,
            guaranteed: 0,
            burstable: None,
            arrivals: None,
            changes: Vec::new(),
            service: None,
            threads: 0,
            delay_max: None,
            request_max: None,
            tail_target: None,
            needs: self.needs,
            phases: Vec::new(),
        };
        let guaranteed = lanes as u16;
        let mut tasks = vec![TaskConfig { guaranteed, ..task("service", TaskClass::Critical) }];
        if !self.be_phases.is_empty() {
            let phases = self.be_phases.clone();
            tasks.push(TaskConfig { threads: lanes as u32, phases, ..task("beside", TaskClass::BestEffort) });
        }
        cores::Config {
            policy: if enabled { "caladan" } else { "linux" }.to_owned(),
            mechanism: CoreMechanism::Runtime,
            sensor: DramSensor::default(),
            period: None,
            machine: self.machine.clone(),
            costs: Costs {
                slice: self.core_costs.slice.filter(|slice| !enabled && slice.mean() > Span::ZERO),
                ..self.core_costs
            },
            tasks,
            bandwidth_max_gb: self.bandwidth_max_gb,
            duration: self.duration,
            warmup: self.warmup,
            seed: self.seed.wrapping_mul(1_000_003).wrapping_add(number),
        }
    }
}

impl PlatformClass {
    /// Arrival process, scaled by `users`.
    pub(super) fn arrivals(&self, users: f64) -> Arrivals {
        match self.arrivals {
            Arrivals::Poisson { rate_per_s } => Arrivals::Poisson { rate_per_s: rate_per_s * users },
            Arrivals::Uniform { rate_per_s } => Arrivals::Uniform { rate_per_s: rate_per_s * users },
            Arrivals::Burst { size, period, spacing } => {
                let size = ((size as f64 * users).round() as u64).max(1);
                Arrivals::Burst { size, period, spacing }
            }
            Arrivals::Batches { size, rate_per_s } => {
                Arrivals::Batches { size, rate_per_s: rate_per_s * users }
            }
        }
    }

    /// Requested level and granted level.
    pub(super) fn levels(&self) -> [Priority; 2] {
        [self.level, self.granted.unwrap_or(self.level)]
            .map(|level| Priority::new(level).unwrap_or(Priority::LOWEST))
    }
}
