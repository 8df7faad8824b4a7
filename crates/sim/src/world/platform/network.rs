//! What is between hosts: a fabric with bulk flows in it, or nothing at all.

use std::collections::VecDeque;

use queueing::{Arrivals, Priority, QueueLength, Span, Time};

use crate::BadConfig;
use crate::fabric::{
    Buffer, Carried, Codel, Config, LevelAssignment, Marking, MessagePort, Multipath, RngStreams, Scheduler,
    Senders, Sizes, Topology, Transport, Wired, depth,
};
use crate::text::text;

/// A fabric between hosts.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Who is wired to whom; as many hosts as there is work for, and more.
    pub topology: Topology,
    /// How hosts send; a message is a flow.
    #[serde(default)]
    pub transport: Transport,
    /// Which of several ways a packet takes.
    #[serde(default)]
    pub ways: Multipath,
    /// How ports serve when `fabric` is on.
    #[serde(default = "fish", deserialize_with = "text")]
    pub scheduler: Scheduler,
    /// Segments after which a flow sinks a level.
    #[serde(default)]
    pub thresholds: Vec<u64>,
    /// How much waits at a port.
    #[serde(default = "room", deserialize_with = "depth")]
    pub room: QueueLength,
    /// When more than this waits, packets are marked.
    #[serde(default = "mark", deserialize_with = "depth")]
    pub mark: QueueLength,
    /// Flows between all hosts that are not the service's.
    pub bulk: Option<Bulk>,
}

/// Flows that have nothing to do with the service.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// How long they are.
    #[serde(deserialize_with = "text")]
    pub sizes: Sizes,
    /// The share of each host's line that they take, more than 0.
    pub load: f64,
    /// The most urgent level that they get, 0 to 7: nobody says that they are urgent.
    pub level: u8,
}

fn fish() -> Scheduler {
    Scheduler::Fish
}

fn room() -> QueueLength {
    QueueLength::Entries(240)
}

fn mark() -> QueueLength {
    QueueLength::Entries(65)
}

impl Network {
    /// Whether it can be built, and has so many hosts.
    pub(super) fn check(&self, hosts: u32, seed: u64) -> Result<(), BadConfig> {
        let there = self.topology.hosts();
        if there < hosts {
            return Err(BadConfig(format!("network: {there} hosts are fewer than {hosts} that have work")));
        }
        if let Some(Bulk { load, level, .. }) = &self.bulk {
            if !(load.is_finite() && *load > 0.0) {
                return Err(BadConfig(format!("bulk: load {load} is not more than 0")));
            }
            if *level > Priority::LOWEST.level() {
                return Err(BadConfig(format!("bulk: level {level} is outside 0..=7")));
            }
        }
        self.base(true, seed).check().map_err(|error| BadConfig(format!("network: {error}")))
    }

    /// The network, wired; its ports serve levels and flows where `on`.
    pub(super) fn wired(&self, on: bool, seed: u64) -> Wired {
        let mut config = self.base(on, seed);
        let level = self.bulk.as_ref().and_then(|bulk| Priority::new(bulk.level)).unwrap_or_default();
        if let Some(bulk) = &self.bulk {
            config.arrivals = Arrivals::Poisson { rate_per_s: config.arrivals_at(bulk.load) };
        }
        Wired::new(config, self.bulk.is_some(), level)
    }

    /// The host of the `number`-th role: neighbours in this order are of different
    /// leaves, so that tiers are spread over the fabric.
    pub(super) fn place(&self, number: u32) -> u32 {
        match self.topology {
            Topology::LeafSpine { leaves, hosts_per_leaf, .. } => {
                number % leaves * hosts_per_leaf + number / leaves
            }
            _ => number,
        }
    }

    /// All but how often bulk flows begin.
    fn base(&self, on: bool, seed: u64) -> Config {
        Config {
            topology: self.topology.clone(),
            scheduler: if on { self.scheduler } else { Scheduler::Fifo },
            thresholds: self.thresholds.clone(),
            room: self.room,
            buffer: Buffer::default(),
            mark: self.mark,
            marking: Marking::default(),
            red: None,
            codel: Codel::default(),
            quantum: None,
            shares: None,
            tagging: LevelAssignment::default(),
            idle: Span::from_micros(500),
            ways: self.ways,
            transport: self.transport.clone(),
            // As many as it takes: they are drawn when their time comes.
            flows: FLOWS,
            sizes: self.bulk.as_ref().map_or(Sizes::List(vec![1]), |bulk| bulk.sizes.clone()),
            arrivals: Arrivals::Poisson { rate_per_s: 1.0 },
            senders: Senders::All,
            draws: RngStreams::Own,
            limit: Span::MAX,
            occupancy: false,
            seed,
            planned: None,
        }
    }
}

const FLOWS: u32 = 10_000_000;

/// No network: what is sent is there.
#[derive(Debug, Default)]
pub(super) struct Wire {
    under_way: VecDeque<(Time, u32)>,
    sent: u32,
}

impl MessagePort for Wire {
    fn send(&mut self, now: Time, _ends: [u32; 2], _segments: u32, _level: Priority) -> u32 {
        self.sent += 1;
        self.under_way.push_back((now, self.sent));
        self.sent
    }

    fn next(&self) -> Option<Time> {
        self.under_way.front().map(|&(at, _)| at)
    }

    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>) {
        while let Some(&(at, message)) = self.under_way.front()
            && at <= limit
        {
            self.under_way.pop_front();
            arrived.push(message);
        }
    }

    fn carried(&self) -> Carried {
        Carried { events: self.sent.into(), ..Carried::default() }
    }
}
