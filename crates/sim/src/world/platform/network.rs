//! Network between hosts: a fabric with background flows, or none.

use std::collections::VecDeque;

use queueing::{Arrivals, Priority, QueueLength, Span, Time};

use crate::BadConfig;
use crate::fabric::{
    BufferConfig, Codel, Config, LevelAssignment, Marking, MessagePort, MessagePortStats, Multipath,
    PreparedFabric, RngStreams, Scheduler, Senders, Sizes, Topology, Transport, depth,
};
use crate::serde_text::text;

/// Fabric between hosts.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformNetwork {
    /// Topology; at least as many hosts as are in use.
    pub topology: Topology,
    /// Transport of all hosts; a message is a flow.
    #[serde(default)]
    pub transport: Transport,
    /// Choice among several shortest paths.
    #[serde(default, alias = "ways")]
    pub multipath: Multipath,
    /// Scheduler of ports while `fabric` is on.
    #[serde(default = "fish", deserialize_with = "text")]
    pub scheduler: Scheduler,
    /// Segments after which a flow is demoted one level.
    #[serde(default)]
    pub thresholds: Vec<u64>,
    /// Buffer size of a port.
    #[serde(default = "buffer_size", alias = "room", deserialize_with = "depth")]
    pub buffer_size: QueueLength,
    /// Packets are marked when more than this is queued.
    #[serde(default = "ecn_threshold", alias = "mark", deserialize_with = "depth")]
    pub ecn_threshold: QueueLength,
    /// Background flows between all hosts.
    pub bulk: Option<BulkTraffic>,
}

/// Background flows, independent of the service.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkTraffic {
    /// Distribution of flow sizes.
    #[serde(deserialize_with = "text")]
    pub sizes: Sizes,
    /// Share of each host's line, more than 0.
    pub load: f64,
    /// Highest level of these flows, 0 to 7.
    pub level: u8,
}

fn fish() -> Scheduler {
    Scheduler::Fish
}

fn buffer_size() -> QueueLength {
    QueueLength::Entries(240)
}

fn ecn_threshold() -> QueueLength {
    QueueLength::Entries(65)
}

impl PlatformNetwork {
    /// Checks that the network can be built and has at least `hosts` hosts.
    pub(super) fn check(&self, hosts: u32, seed: u64) -> Result<(), BadConfig> {
        let available = self.topology.hosts();
        if available < hosts {
            return Err(BadConfig(format!("network: {available} hosts are fewer than {hosts} in use")));
        }
        if let Some(BulkTraffic { load, level, .. }) = &self.bulk {
            if !(load.is_finite() && *load > 0.0) {
                return Err(BadConfig(format!("bulk: load {load} is not more than 0")));
            }
            if *level > Priority::LOWEST.level() {
                return Err(BadConfig(format!("bulk: level {level} is outside 0..=7")));
            }
        }
        self.base(true, seed).check().map_err(|error| BadConfig(format!("network: {error}")))
    }

    /// Network with its topology resolved; its ports use `scheduler` if `on`, else FIFO.
    pub(super) fn prepare(&self, on: bool, seed: u64) -> PreparedFabric {
        let mut config = self.base(on, seed);
        let level = self.bulk.as_ref().and_then(|bulk| Priority::new(bulk.level)).unwrap_or_default();
        if let Some(bulk) = &self.bulk {
            config.arrivals = Arrivals::Poisson { rate_per_s: config.arrivals_at(bulk.load) };
        }
        PreparedFabric::new(config, self.bulk.is_some(), level)
    }

    /// Fabric host of role number `number`. Consecutive roles are under different leaves, which
    /// spreads tiers over the fabric.
    pub(super) fn host_of(&self, number: u32) -> u32 {
        match self.topology {
            Topology::LeafSpine { leaves, hosts_per_leaf, .. } => {
                number % leaves * hosts_per_leaf + number / leaves
            }
            _ => number,
        }
    }

    /// Fabric configuration, except for the arrival rate of background flows.
    fn base(&self, on: bool, seed: u64) -> Config {
        Config {
            topology: self.topology.clone(),
            scheduler: if on { self.scheduler } else { Scheduler::Fifo },
            thresholds: self.thresholds.clone(),
            buffer_size: self.buffer_size,
            buffer: BufferConfig::default(),
            ecn_threshold: self.ecn_threshold,
            marking: Marking::default(),
            red: None,
            codel: Codel::default(),
            quantum: None,
            shares: None,
            tagging: LevelAssignment::default(),
            idle: Span::from_micros(500),
            multipath: self.multipath,
            transport: self.transport.clone(),
            // Upper bound; flows are drawn as they start.
            flows: FLOWS,
            sizes: self.bulk.as_ref().map_or(Sizes::List(vec![1]), |bulk| bulk.sizes.clone()),
            arrivals: Arrivals::Poisson { rate_per_s: 1.0 },
            senders: Senders::All,
            rng_streams: RngStreams::Own,
            limit: Span::MAX,
            occupancy: false,
            seed,
            planned: None,
        }
    }
}

const FLOWS: u32 = 10_000_000;

/// Absent network: messages arrive at once.
#[derive(Debug, Default)]
pub(super) struct NoNetwork {
    in_flight: VecDeque<(Time, u32)>,
    sent: u32,
}

impl MessagePort for NoNetwork {
    fn send(&mut self, now: Time, _ends: [u32; 2], _segments: u32, _level: Priority) -> u32 {
        self.sent += 1;
        self.in_flight.push_back((now, self.sent));
        self.sent
    }

    fn next(&self) -> Option<Time> {
        self.in_flight.front().map(|&(at, _)| at)
    }

    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>) {
        while let Some(&(at, message)) = self.in_flight.front()
            && at <= limit
        {
            self.in_flight.pop_front();
            arrived.push(message);
        }
    }

    fn stats(&self) -> MessagePortStats {
        MessagePortStats { events: self.sent.into(), ..MessagePortStats::default() }
    }
}
