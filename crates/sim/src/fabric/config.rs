//! Fabric configuration, read from an experiment's TOML.

use std::sync::Arc;

use queueing::{Arrivals, Bytes, Priority, QueueLength, Span, Thresholds};

use super::buffer_config::{BufferConfig, Codel, LevelAssignment, Marking, RedParams, depth};
use super::flow_trace::TraceFlow;
use super::packet::{MSS, SEGMENT_BYTES};
use super::queues::Scheduler;
use super::sizes::Sizes;
use super::topology::Topology;
use super::{buffer_config, net_tcp, ns2};
use crate::BadConfig;
use crate::serde_text::text;

/// A network and the flows that cross it.
///
/// ```
/// let config = sim::fabric::Config::from_toml(r#"
///     topology = { kind = "star", hosts = 2, host = { gbps = 10, delay = "20200ns" } }
///     scheduler = "fish"
///     thresholds = [909, 1329]
///     buffer_size = 240
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
    /// Hosts, switches and cables.
    pub topology: Topology,
    /// Queueing discipline of every port, hosts' NICs included.
    #[serde(deserialize_with = "text")]
    pub scheduler: Scheduler,
    /// Segments after which a flow is demoted one level; at most seven, increasing.
    #[serde(default)]
    pub thresholds: Vec<u64>,
    /// Buffer size, in packets (`240`) or bytes (`"360KB"`).
    #[serde(alias = "room", deserialize_with = "depth")]
    pub buffer_size: QueueLength,
    /// Scope within which the buffer is shared.
    #[serde(default)]
    pub buffer: BufferConfig,
    /// A packet is marked when more than this is queued, in packets or bytes, itself included;
    /// 0 disables marking.
    #[serde(default = "ecn_threshold_default", alias = "mark", deserialize_with = "depth")]
    pub ecn_threshold: QueueLength,
    /// Queue length that is compared with `ecn_threshold`.
    #[serde(default)]
    pub marking: Marking,
    /// Random early detection, in place of `ecn_threshold`.
    #[serde(default)]
    pub red: Option<RedParams>,
    /// CoDel parameters, for `fq-codel`.
    #[serde(default)]
    pub codel: Codel,
    /// Quantum of flows in bytes, in place of one packet.
    #[serde(default)]
    pub quantum: Option<u64>,
    /// Weights of levels, in place of strict priority. Packets of a flow that was just demoted
    /// may then overtake its last ones of the higher level.
    #[serde(default)]
    pub shares: Option<[u32; Priority::LEVELS]>,
    /// Node that assigns levels.
    #[serde(default)]
    pub tagging: LevelAssignment,
    /// Pause after which a flow starts again at the highest level, where switches assign
    /// levels. At each port it begins when the flow's last packet has left.
    #[serde(default = "idle_default", deserialize_with = "text")]
    pub idle: Span,
    /// Choice among several shortest paths.
    #[serde(default, alias = "ways")]
    pub multipath: Multipath,
    /// Transport of all hosts.
    #[serde(default)]
    pub transport: Transport,
    /// Total number of flows.
    pub flows: u32,
    /// Distribution of flow sizes.
    #[serde(deserialize_with = "text")]
    pub sizes: Sizes,
    /// Arrival process of each sender.
    #[serde(deserialize_with = "text")]
    pub arrivals: Arrivals,
    /// Choice of sender and receiver.
    pub senders: Senders,
    /// Random number streams of arrivals and sizes.
    #[serde(default, alias = "draws")]
    pub rng_streams: RngStreams,
    /// Time limit of the run, even if flows are unfinished.
    #[serde(default = "limit_default", deserialize_with = "text")]
    pub limit: Span,
    /// Enables sampling of queue lengths.
    #[serde(default)]
    pub occupancy: bool,
    /// Seed; the same seed replays the run.
    #[serde(default = "seed_default")]
    pub seed: u64,
    /// Given flows, in order of start. `sizes`, `arrivals` and `senders` are then ignored and
    /// `flows` must be their number.
    #[serde(skip)]
    pub planned: Option<Arc<[TraceFlow]>>,
}

/// Transport: `{ kind = "modern" }` and its settings; the default kind is `ns2`.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// DCTCP of the papers' simulations.
    Ns2(ns2::Ns2Settings),
    /// `net`'s TCP.
    Modern(net_tcp::NetTcpSettings),
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
    /// Minimum time in which the loss of a message's last packet is detected.
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
        Self::Ns2(ns2::Ns2Settings::default())
    }
}

/// Choice of sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Senders {
    /// The first host sends to the second.
    First,
    /// Every host has its own arrival process; each flow goes to a random other host.
    All,
    /// At each arrival this many hosts start a flow to the same host; all drawn anew.
    Incast(u32),
    /// At each arrival every host starts a flow to each other host.
    AllToAll,
}

impl Senders {
    /// Flows that a host starts per arrival, averaged over hosts.
    #[must_use]
    pub fn flows_per_arrival(self, hosts: u32) -> f64 {
        match self {
            Self::First | Self::All => 1.0,
            Self::Incast(senders) => f64::from(senders) / f64::from(hosts),
            Self::AllToAll => f64::from(hosts - 1),
        }
    }
}

/// Random number streams of arrivals and sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RngStreams {
    /// `queueing::Rng`, as in all other simulations.
    #[default]
    Own,
    /// ns-2's generator, seeded as by the scripts of PIAS: the flows equal those of their run
    /// of the same number. Requires one sender and Poisson arrivals.
    Ns2,
}

/// Choice among several shortest paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multipath {
    /// Round robin per packet: packets of a flow may be reordered.
    #[default]
    Spray,
    /// All packets of a flow take the same path, chosen by a hash (ECMP).
    #[serde(alias = "flow")]
    Ecmp,
}

fn ecn_threshold_default() -> QueueLength {
    QueueLength::Entries(0)
}

/// Idle time of PIAS's Linux module.
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
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the fabric can be built.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
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
        if self.rng_streams == RngStreams::Ns2
            && !(poisson && self.senders == Senders::First && (1..=20_000).contains(&self.seed))
        {
            return bad(
                "rng_streams ns2 requires arrivals poisson, senders first and a seed in 1..=20000".to_owned()
            );
        }
        let problem = match &self.transport {
            Transport::Ns2(settings) => settings.problem(),
            Transport::Modern(settings) => settings.problem(),
        };
        problem.map_or(Ok(()), bad)
    }

    /// Quantum in bytes; `None`: one packet.
    pub(super) fn quantum(&self) -> Option<Bytes> {
        let bytes = matches!(self.scheduler, Scheduler::Drr | Scheduler::Ps | Scheduler::FqCodel);
        self.quantum.or_else(|| bytes.then_some(SEGMENT_BYTES.into())).map(Bytes::new)
    }

    /// Checks senders and given flows.
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
                "flows {} is not the number of flows planned, {}",
                self.flows,
                planned.len()
            ));
        }
        let invalid = |flow: &&TraceFlow| {
            let TraceFlow { from, to, bytes, .. } = **flow;
            from == to || from.max(to) >= hosts || !(1..=TraceFlow::BYTES_MAX).contains(&bytes)
        };
        if let Some(flow) = planned.iter().find(invalid) {
            return bad(format!("planned: {flow:?} is not between two of {hosts} hosts"));
        }
        if planned.windows(2).any(|pair| pair[1].start < pair[0].start) {
            return bad("planned: flows are not in order of start".to_owned());
        }
        Ok(())
    }

    /// Offered load: share of a host's line used by flows' segments, each counted once,
    /// averaged over sending hosts. At 1 and above the line saturates. Acknowledgements and
    /// retransmissions are extra.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.arrivals.rate_per_s() / self.arrivals_at(1.0)
    }

    /// Arrivals per second that produce `load`: per sender, or of rounds.
    ///
    /// # Panics
    /// If the topology does not pass [`check`](Self::check).
    #[must_use]
    pub fn arrivals_at(&self, load: f64) -> f64 {
        let wiring = self.topology.wire();
        let line = wiring.lines.iter().find(|line| line.from == 0).expect("every host has a line");
        let flow_bits = self.sizes.mean() * f64::from(SEGMENT_BYTES) * 8.0;
        let flows = self.senders.flows_per_arrival(self.topology.hosts());
        load * line.rate.bits_per_sec() as f64 / (flow_bits * flows)
    }

    /// Demotion thresholds of senders in bytes: none where switches assign levels.
    ///
    /// # Panics
    /// If the configuration does not pass [`check`](Self::check).
    pub(super) fn host_thresholds(&self) -> Thresholds {
        match self.tagging {
            LevelAssignment::Host => self.thresholds().expect("a checked configuration"),
            LevelAssignment::Switch => Thresholds::default(),
        }
    }

    /// Demotion thresholds in bytes.
    ///
    /// # Errors
    /// One line: the invalid threshold.
    pub fn thresholds(&self) -> Result<Thresholds, BadConfig> {
        // Checked in segments, the unit in which they were given.
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
