//! What a platform is made of, as an experiment's TOML has it.

use queueing::{Arrivals, Bytes, Distribution, Priority, Span};

use super::mechanisms::Mechanisms;
use super::network::Network;
use crate::cores::{self, ClassName, Costs, Machine, Needs, Phase, Task};
use crate::text::{text, text_or_none};
use crate::{BadConfig, CostModel};

/// A platform, and who uses it.
///
/// ```
/// let config = sim::world::platform::Config::from_toml(r#"
///     mechanisms = "all"
///     clients = 1
///     lasts = "10ms"
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
    /// What is switched on.
    #[serde(deserialize_with = "text")]
    pub mechanisms: Mechanisms,
    /// What is between hosts; absent: messages arrive as they are sent.
    pub network: Option<Network>,
    /// Hosts that only ask.
    pub clients: u32,
    /// The service, from where requests come in to where they end.
    pub tiers: Vec<Tier>,
    /// Who asks.
    pub classes: Vec<Class>,
    /// So many times the requests that classes name, or so many times longer bursts of
    /// them: for larger platforms. More than 0.
    #[serde(default = "once")]
    pub users: f64,
    /// The cores of each host, DRAM and cache.
    #[serde(default)]
    pub machine: Machine,
    /// What handing a core over takes, and BE's slices where `cores` is off; slices of
    /// `0ns` are those of the idle class.
    #[serde(default)]
    pub handing: Costs,
    /// What the service asks of a machine while it runs.
    #[serde(default)]
    pub needs: Needs,
    /// The phases of the BE task that shares each host, on all its cores; none: there is no such task.
    #[serde(default)]
    pub beside: Vec<Phase>,
    /// THRESH_BW in GB/s and socket; the paper's 25 when absent.
    pub bandwidth_max_gb: Option<f64>,
    /// What the stack's work costs; the checked-in model where not given.
    pub costs: Option<CostModel>,
    /// How often the guard looks.
    #[serde(default = "period", deserialize_with = "text")]
    pub guard_period: Span,
    /// How long who knocks may wait.
    #[serde(default = "target", deserialize_with = "text")]
    pub guard_target: Span,
    /// Requests that wait for a core of a host.
    #[serde(default = "capacity")]
    pub capacity: usize,
    /// A client that is refused, shed, or not answered counts as having waited at
    /// least so long.
    #[serde(default = "patience", deserialize_with = "text")]
    pub patience: Span,
    /// Requests and work count from here on …
    #[serde(default, deserialize_with = "text")]
    pub warmup: Span,
    /// … and so long; then nobody asks any more, …
    #[serde(deserialize_with = "text")]
    pub lasts: Span,
    /// … and those who asked may be answered for so long.
    #[serde(default = "drain", deserialize_with = "text")]
    pub drain: Span,
    /// Replays the run.
    #[serde(default = "one")]
    pub seed: u64,
}

/// A tier: hosts that do the same.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Its name in reports.
    pub name: String,
    /// How many hosts.
    pub hosts: u32,
    /// Among so many of them each request that comes here is split; 1 takes all of it.
    #[serde(default = "one_part")]
    pub parts: u32,
    /// What a request takes here before it goes on.
    #[serde(deserialize_with = "text")]
    pub service: Distribution,
    /// What it takes when the answers are back.
    #[serde(default, deserialize_with = "text_or_none")]
    pub merge: Option<Distribution>,
    /// How long the message is that brings it.
    #[serde(default = "kilobyte", deserialize_with = "text")]
    pub request: Bytes,
    /// How long its answer is.
    #[serde(default = "kilobyte", deserialize_with = "text")]
    pub answer: Bytes,
    /// Kept of the budget for the answers' way and merging, where the next tier splits it.
    #[serde(default, deserialize_with = "text")]
    pub reserve: Span,
}

/// A class of requests.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in reports.
    pub name: String,
    /// When they come.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// From so long after the beginning on; 0 is the beginning.
    #[serde(default, deserialize_with = "text")]
    pub from: Span,
    /// Until then; to the end when absent.
    #[serde(default, deserialize_with = "text_or_none")]
    pub until: Option<Span>,
    /// The level that they ask for, 0 (most urgent) to 7.
    pub level: u8,
    /// The most urgent level that they were granted; what they ask for when absent.
    pub granted: Option<u8>,
    /// How long users wait for an answer.
    #[serde(deserialize_with = "text")]
    pub slo: Span,
    /// How many times what a tier's law says they take there.
    #[serde(default = "once")]
    pub scale: f64,
    /// They have no connections yet: they have to knock, …
    #[serde(default)]
    pub newcomers: bool,
    /// … and to be set up, which takes so long of the core that receives.
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

fn patience() -> Span {
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

/// Pieces of work that one request may be.
pub(super) const PIECES_MAX: u64 = 4096;

impl Config {
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::text::settings(text, Self::check)
    }

    /// Whether the platform can be built.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if self.clients == 0 {
            return bad("clients 0 ask nothing, 1 and more do".to_owned());
        }
        if self.lasts == Span::ZERO {
            return bad("lasts 0ns is nothing to count, more is".to_owned());
        }
        if !(1..=3).contains(&self.tiers.len()) {
            return bad(format!("{} tiers are outside 1..=3", self.tiers.len()));
        }
        let mut pieces = 0;
        let mut width = 1;
        for Tier { name, hosts, parts, .. } in &self.tiers {
            if *hosts == 0 || !(1..=*hosts).contains(parts) {
                return bad(format!("tier {name}: parts {parts} are outside 1..={hosts}, its hosts"));
            }
            width *= u64::from(*parts);
            pieces += width;
        }
        if pieces > PIECES_MAX {
            return bad(format!("a request of {pieces} pieces is more than {PIECES_MAX}"));
        }
        if self.tiers[0].parts != 1 {
            return bad(format!("tier {}: parts are for later tiers", self.tiers[0].name));
        }
        if self.classes.is_empty() {
            return bad("classes is empty: nobody asks".to_owned());
        }
        if !(self.users.is_finite() && self.users > 0.0) {
            return bad(format!("users {} is not more than 0", self.users));
        }
        for Class { name, level, granted, scale, .. } in &self.classes {
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
        // As if its requests were its own.
        let mut host = self.host(0);
        (host.tasks[0].arrivals, host.tasks[0].service) =
            (Some(self.classes[0].arrivals), Some(self.tiers[0].service));
        host.check()
    }

    /// Hosts that there are work for.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.clients + self.tiers.iter().map(|tier| tier.hosts).sum::<u32>()
    }

    /// The levels of classes that knock.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = Priority> {
        self.classes.iter().filter(|class| class.newcomers).map(|class| class.levels()[1])
    }

    /// The machine of the `number`-th server.
    pub(super) fn host(&self, number: u64) -> cores::Config {
        let lanes = self.machine.sockets * self.machine.physical * self.machine.lanes;
        let on = self.mechanisms.cores;
        let task = |name: &str, class| Task {
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
        let mut tasks = vec![Task { guaranteed, ..task("service", ClassName::Critical) }];
        if !self.beside.is_empty() {
            let phases = self.beside.clone();
            tasks.push(Task { threads: lanes as u32, phases, ..task("beside", ClassName::BestEffort) });
        }
        cores::Config {
            policy: if on { "caladan" } else { "linux" }.to_owned(),
            machine: self.machine.clone(),
            costs: Costs {
                slice: self.handing.slice.filter(|slice| !on && slice.mean() > Span::ZERO),
                ..self.handing
            },
            tasks,
            bandwidth_max_gb: self.bandwidth_max_gb,
            lasts: self.lasts,
            warmup: self.warmup,
            seed: self.seed.wrapping_mul(1_000_003).wrapping_add(number),
        }
    }
}

impl Class {
    /// When they come, `users` times as many.
    pub(super) fn arrivals(&self, users: f64) -> Arrivals {
        match self.arrivals {
            Arrivals::Poisson { rate_per_s } => Arrivals::Poisson { rate_per_s: rate_per_s * users },
            Arrivals::Uniform { rate_per_s } => Arrivals::Uniform { rate_per_s: rate_per_s * users },
            Arrivals::Burst { size, period, spacing } => {
                let size = ((size as f64 * users).round() as u64).max(1);
                Arrivals::Burst { size, period, spacing }
            }
        }
    }

    /// The level that they ask for, and the one that they were granted.
    pub(super) fn levels(&self) -> [Priority; 2] {
        [self.level, self.granted.unwrap_or(self.level)]
            .map(|level| Priority::new(level).unwrap_or(Priority::LOWEST))
    }
}
