//! What a fabric is made of, as an experiment's TOML has it.

use queueing::{Arrivals, Bytes, Span, Thresholds};

use super::packet::MSS;
use super::port::Scheduler;
use super::sizes::Sizes;
use super::topology::Topology;
use super::{modern, ns2};
use crate::BadConfig;
use crate::text::text;

/// A network, and the flows that cross it.
///
/// ```
/// let config = sim::fabric::Config::from_toml(r#"
///     topology = { kind = "star", hosts = 2, host = { gbps = 10, delay = "20200ns" } }
///     scheduler = "fish"
///     thresholds = [909, 1329]
///     room = 240
///     flows = 100
///     sizes = "websearch"
///     arrivals = "poisson 1000"
///     senders = "first"
/// "#)?;
/// assert_eq!(config.topology.hosts(), 2);
/// # Ok::<(), sim::fabric::BadConfig>(())
/// ```
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who is wired to whom.
    pub topology: Topology,
    /// Which packet goes next at every port, hosts' own included.
    #[serde(deserialize_with = "text")]
    pub scheduler: Scheduler,
    /// Segments after which a flow sinks a level, at most seven, increasing.
    #[serde(default)]
    pub thresholds: Vec<u64>,
    /// Packets that wait at one port, over all its queues.
    pub room: usize,
    /// More waiting packets than this at a port, and they are marked; 0: never.
    #[serde(default)]
    pub mark: usize,
    /// Which of several ways a packet takes.
    #[serde(default)]
    pub ways: Ways,
    /// How hosts send.
    #[serde(default)]
    pub transport: Transport,
    /// Flows in all.
    pub flows: u32,
    /// How long they are.
    #[serde(deserialize_with = "text")]
    pub sizes: Sizes,
    /// When each sender's flows begin.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Who sends to whom.
    pub senders: Senders,
    /// Where beginnings and sizes are drawn from.
    #[serde(default)]
    pub draws: Draws,
    /// The run ends here even if flows have not.
    #[serde(default = "limit_default", deserialize_with = "text")]
    pub limit: Span,
    /// Replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
}

/// How hosts send: `{ kind = "modern" }`, and settings beside the kind.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Transport {
    /// As in the papers' simulations.
    Ns2(ns2::Settings),
    /// With `net`'s own TCP.
    Modern(modern::Settings),
}

impl Default for Transport {
    fn default() -> Self {
        Self::Ns2(ns2::Settings::default())
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Senders {
    /// The first host to the second.
    First,
    /// Every host, each flow to any other.
    All,
}

/// Where flows' beginnings and sizes are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// The generator of all simulations here.
    #[default]
    Own,
    /// The one that ns-2 has, seeded as the scripts of PIAS seed it: the flows
    /// are those of their runs of the same number. For one sender and Poisson
    /// arrivals.
    Ns2,
}

/// Which of several shortest ways a packet takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// The next one each time: packets of a flow overtake one another.
    #[default]
    Spray,
    /// All packets of a flow the same one, by a hash (ECMP).
    Flow,
}

fn limit_default() -> Span {
    Span::from_secs(100)
}

fn seed_default() -> u64 {
    1
}

impl Config {
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        let config: Self = toml::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Whether the fabric can be built.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        if let Some(problem) = self.topology.problem() {
            return bad(problem);
        }
        self.thresholds()?;
        if !(1..=1_000_000).contains(&self.room) {
            return bad(format!("room {} is outside 1..=1000000 packets", self.room));
        }
        if !(1..=10_000_000).contains(&self.flows) {
            return bad(format!("flows {} is outside 1..=10000000", self.flows));
        }
        let poisson = matches!(self.arrivals, Arrivals::Poisson { .. });
        if self.draws == Draws::Ns2
            && !(poisson && self.senders == Senders::First && (1..=20_000).contains(&self.seed))
        {
            return bad("draws ns2 is for poisson arrivals, senders first and seeds 1..=20000".to_owned());
        }
        let problem = match &self.transport {
            Transport::Ns2(settings) => settings.problem(),
            Transport::Modern(settings) => settings.problem(),
        };
        problem.map_or(Ok(()), bad)
    }

    /// The thresholds, in bytes.
    ///
    /// # Errors
    /// One line: which of them cannot be.
    pub fn thresholds(&self) -> Result<Thresholds, BadConfig> {
        let bytes = self.thresholds.iter().map(|segments| Bytes::new(segments.saturating_mul(MSS))).collect();
        Thresholds::new(bytes).map_err(|error| BadConfig(error.to_string()))
    }
}
