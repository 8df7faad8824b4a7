//! What a fabric is made of, as an experiment's TOML has it.

use queueing::{Arrivals, Bytes, Depth, Priority, Span, Thresholds};

use super::packet::{MSS, SEGMENT_BYTES};
use super::queues::Scheduler;
use super::room::{Buffer, Codel, Place, Ramp, Tagging, depth};
use super::sizes::Sizes;
use super::topology::Topology;
use super::{ns2, room};
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
    /// How much waits, in packets (`240`) or bytes (`"360KB"`).
    #[serde(deserialize_with = "depth")]
    pub room: Depth,
    /// Who shares that.
    #[serde(default)]
    pub buffer: Buffer,
    /// When with a packet more than this waits, in packets or bytes, it is
    /// marked; 0: never.
    #[serde(default = "mark_default", deserialize_with = "depth")]
    pub mark: Depth,
    /// What has to be so long.
    #[serde(default)]
    pub marking: Place,
    /// Random early detection instead.
    #[serde(default)]
    pub red: Option<Ramp>,
    /// When a flow's wait is too long, under `fq-codel`.
    #[serde(default)]
    pub codel: Codel,
    /// Bytes of a turn between flows, in place of a packet.
    #[serde(default)]
    pub quantum: Option<u64>,
    /// What each level may send of all, in place of strict order: weights. Packets
    /// of a flow that has just sunk may then overtake its last ones above.
    #[serde(default)]
    pub shares: Option<[u32; Priority::LEVELS]>,
    /// Who tells levels.
    #[serde(default)]
    pub tagging: Tagging,
    /// A flow that was not seen for so long starts anew, where switches tell.
    #[serde(default = "idle_default", deserialize_with = "text")]
    pub idle: Span,
    /// Which of several ways a packet takes.
    #[serde(default)]
    pub ways: Ways,
    /// How hosts send.
    #[serde(default)]
    pub transport: ns2::Settings,
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

fn mark_default() -> Depth {
    Depth::Entries(0)
}

/// As in PIAS's module for Linux.
fn idle_default() -> Span {
    Span::from_micros(500)
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
        if let Some(problem) = room::problem(self) {
            return bad(problem);
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
        let ns2::Settings { window, window_max, rto, gain } = self.transport;
        if !(window >= 1.0 && window_max >= 1.0) {
            return bad(format!("transport: windows {window} and {window_max}, not 1 segment and more"));
        }
        if rto == Span::ZERO || !(gain > 0.0 && gain <= 1.0) {
            return bad(format!(
                "transport: rto {rto} and gain {gain}, not more than 0 (and the gain at most 1)"
            ));
        }
        Ok(())
    }

    /// The bytes of a turn; `None`: a turn is a packet.
    pub(super) fn quantum(&self) -> Option<Bytes> {
        let bytes = matches!(self.scheduler, Scheduler::Drr | Scheduler::Ps | Scheduler::FqCodel);
        self.quantum.or_else(|| bytes.then_some(SEGMENT_BYTES.into())).map(Bytes::new)
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
