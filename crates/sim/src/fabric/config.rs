//! What a fabric is made of, as an experiment's TOML has it.

use std::sync::Arc;

use queueing::{Arrivals, Bytes, Priority, QueueLength, Span, Thresholds};

use super::buffer_config::{Buffer, Codel, LevelAssignment, Marking, RedParams, depth};
use super::flow_trace::TraceFlow;
use super::packet::{MSS, SEGMENT_BYTES};
use super::queues::Scheduler;
use super::sizes::Sizes;
use super::topology::Topology;
use super::{buffer_config, net_tcp, ns2};
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
    pub room: QueueLength,
    /// Who shares that.
    #[serde(default)]
    pub buffer: Buffer,
    /// When with a packet more than this waits, in packets or bytes, it is
    /// marked; 0: never.
    #[serde(default = "mark_default", deserialize_with = "depth")]
    pub mark: QueueLength,
    /// What has to be so long.
    #[serde(default)]
    pub marking: Marking,
    /// Random early detection instead.
    #[serde(default)]
    pub red: Option<RedParams>,
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
    pub tagging: LevelAssignment,
    /// A flow that was not seen for so long starts anew, where switches tell.
    #[serde(default = "idle_default", deserialize_with = "text")]
    pub idle: Span,
    /// Which of several ways a packet takes.
    #[serde(default)]
    pub ways: Multipath,
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
    pub draws: RngStreams,
    /// The run ends here even if flows have not.
    #[serde(default = "limit_default", deserialize_with = "text")]
    pub limit: Span,
    /// Whether to look at how many packets wait where.
    #[serde(default)]
    pub occupancy: bool,
    /// Replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
    /// These flows, in the order of their beginnings, and no others: then
    /// `sizes`, `arrivals` and `senders` say nothing, and `flows` their number.
    #[serde(skip)]
    pub planned: Option<Arc<[TraceFlow]>>,
}

/// How hosts send: `{ kind = "modern" }`, and settings beside the kind, which
/// is `ns2` unless it is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// As in the papers' simulations.
    Ns2(ns2::Settings),
    /// With `net`'s own TCP.
    Modern(net_tcp::Settings),
}

impl<'de> serde::Deserialize<'de> for Transport {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut table = toml::Table::deserialize(from)?;
        let read = match table.remove("kind").unwrap_or_else(|| "ns2".into()).as_str() {
            Some("ns2") => table.try_into().map(Self::Ns2),
            Some("modern") => table.try_into().map(Self::Modern),
            _ => Err(toml::de::Error::custom("transport: kind is one of ns2, modern")),
        };
        read.map_err(|error| D::Error::custom(error.message()))
    }
}

impl Transport {
    /// The least time in which it finds that the last packet of a message is lost.
    #[must_use]
    pub fn timeout(&self) -> Span {
        match self {
            Self::Ns2(settings) => settings.rto,
            Self::Modern(settings) => settings.rto_min,
        }
    }
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
    /// Every host, each flow to any other; each has an arrival process of its
    /// own.
    All,
    /// At each arrival so many hosts at once, each a flow to the same one; all
    /// drawn anew.
    Incast(u32),
    /// At each arrival every host at once, a flow to each of the others.
    AllToAll,
}

impl Senders {
    /// Flows that a host begins per arrival, in the mean over hosts.
    #[must_use]
    pub fn flows_per_arrival(self, hosts: u32) -> f64 {
        match self {
            Self::First | Self::All => 1.0,
            Self::Incast(senders) => f64::from(senders) / f64::from(hosts),
            Self::AllToAll => f64::from(hosts - 1),
        }
    }
}

/// Where flows' beginnings and sizes are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RngStreams {
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
pub enum Multipath {
    /// The next one each time: packets of a flow overtake one another.
    #[default]
    Spray,
    /// All packets of a flow the same one, by a hash (ECMP).
    Flow,
}

fn mark_default() -> QueueLength {
    QueueLength::Entries(0)
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
        crate::text::settings(text, Self::check)
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
        if let Some(problem) = buffer_config::problem(self) {
            return bad(problem);
        }
        if !(1..=10_000_000).contains(&self.flows) {
            return bad(format!("flows {} is outside 1..=10000000", self.flows));
        }
        if self.limit == Span::ZERO {
            return bad("limit 0 s is not above 0: nothing would happen".to_owned());
        }
        self.check_flows()?;
        let poisson = matches!(self.arrivals, Arrivals::Poisson { .. });
        if self.draws == RngStreams::Ns2
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

    /// The bytes of a turn; `None`: a turn is a packet.
    pub(super) fn quantum(&self) -> Option<Bytes> {
        let bytes = matches!(self.scheduler, Scheduler::Drr | Scheduler::Ps | Scheduler::FqCodel);
        self.quantum.or_else(|| bytes.then_some(SEGMENT_BYTES.into())).map(Bytes::new)
    }

    /// Whether who sends and what can be.
    fn check_flows(&self) -> Result<(), BadConfig> {
        let bad = |text: String| Err(BadConfig(text));
        let hosts = self.topology.hosts();
        if let Senders::Incast(senders) = self.senders
            && !(1..hosts).contains(&senders)
        {
            return bad(format!("senders: incast {senders} is outside 1..={}, the other hosts", hosts - 1));
        }
        let Some(planned) = &self.planned else { return Ok(()) };
        if planned.len() != self.flows as usize {
            return bad(format!(
                "flows {} is not the number of those planned, {}",
                self.flows,
                planned.len()
            ));
        }
        let wrong = |flow: &&TraceFlow| {
            let TraceFlow { from, to, bytes, .. } = **flow;
            from == to || from.max(to) >= hosts || !(1..=TraceFlow::BYTES_MAX).contains(&bytes)
        };
        if let Some(flow) = planned.iter().find(wrong) {
            return bad(format!("planned: {flow:?} is not between two of {hosts} hosts"));
        }
        if planned.windows(2).any(|pair| pair[1].start < pair[0].start) {
            return bad("planned: flows are not in the order of their beginnings".to_owned());
        }
        Ok(())
    }

    /// The share of a host's line that flows' segments take, on the wire and
    /// each once, in the mean over the hosts that send: 1 and more fill it for
    /// ever. Acknowledgements, and what is sent again, come on top.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.arrivals.rate_per_s() / self.arrivals_at(1.0)
    }

    /// Arrivals per second (of each sender, or of rounds) that make `load`.
    ///
    /// # Panics
    /// When the topology does not pass [`check`](Self::check).
    #[must_use]
    pub fn arrivals_at(&self, load: f64) -> f64 {
        let wiring = self.topology.wire();
        let line = wiring.lines.iter().find(|line| line.from == 0).expect("every host has a line");
        let flow_bits = self.sizes.mean() * f64::from(SEGMENT_BYTES) * 8.0;
        let flows = self.senders.flows_per_arrival(self.topology.hosts());
        load * line.rate.bits_per_sec() as f64 / (flow_bits * flows)
    }

    /// The thresholds, in bytes.
    ///
    /// # Errors
    /// One line: which of them cannot be.
    pub fn thresholds(&self) -> Result<Thresholds, BadConfig> {
        // As they were given, which is not in bytes.
        if let Some(pair) = self.thresholds.windows(2).find(|pair| pair[1] <= pair[0]) {
            return Err(BadConfig(format!(
                "threshold {} is not above the one before it, {}",
                pair[1], pair[0]
            )));
        }
        let bytes = self.thresholds.iter().map(|segments| Bytes::new(segments.saturating_mul(MSS))).collect();
        Thresholds::new(bytes).map_err(|error| BadConfig(error.to_string()))
    }
}
