//! Message service of a fabric for a larger simulation: sends messages, reports their arrival.
//!
//! A message is a flow of its own between two hosts. It uses the same ports and transports as
//! other flows and competes with those of the configuration. It has arrived when its receiver
//! has all of it in order. Single-threaded, since senders react to earlier arrivals.

use std::collections::BTreeSet;
use std::sync::Arc;

use queueing::{Priority, Time};

use super::config::{Config, Transport};
use super::net_tcp::NetTcp;
use super::ns2::Ns2;
use super::outcome::Counters;
use super::packet::MSS;
use super::partition::Partition;
use super::partitioner::Partitioning;
use super::protocol::Protocol;
use super::topology::{Node, Wiring};

/// Message service between hosts.
pub(crate) trait MessagePort {
    /// Sends a message of `segments` full segments at `level` or lower; returns its number.
    fn send(&mut self, now: Time, endpoints: [Node; 2], segments: u32, level: Priority) -> u32;

    /// Time of the next event.
    fn next(&self) -> Option<Time>;

    /// Processes events up to `limit`; appends arrived messages to `arrived`.
    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>);

    /// Counters so far.
    fn stats(&self) -> MessagePortStats;
}

/// Work done by a fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagePortStats {
    pub counters: Counters,
    /// Bytes of completed background flows.
    pub bulk_bytes: u64,
    /// Events processed.
    pub events: u64,
}

/// Number of full segments that carry `bytes`, at least one.
pub(crate) fn segments(bytes: u64) -> u32 {
    bytes.div_ceil(MSS).max(1) as u32
}

/// Network with its topology resolved.
pub(crate) struct PreparedFabric {
    config: Config,
    wiring: Wiring,
    partitioning: Partitioning,
    /// Highest level of background flows.
    level: Priority,
}

impl PreparedFabric {
    /// Network of `config`. Background flows run at `level` or lower; `bulk` enables them.
    ///
    /// # Panics
    /// If the configuration does not pass [`Config::check`].
    pub fn new(mut config: Config, bulk: bool, level: Priority) -> Self {
        config.check().expect("a checked configuration");
        if !bulk {
            config.planned = Some(Arc::new([]));
        }
        let wiring = config.topology.wire();
        let partitioning = Partitioning::new(&wiring, 1);
        Self { config, wiring, partitioning, level }
    }

    /// Starts the network.
    pub fn start(&self) -> Box<dyn MessagePort + '_> {
        let thresholds = self.config.host_thresholds();
        match &self.config.transport {
            Transport::Ns2(settings) => self.with_protocol(Ns2::new(*settings, thresholds)),
            Transport::Modern(settings) => self.with_protocol(NetTcp::new(settings, thresholds)),
        }
    }

    fn with_protocol<'a, P: Protocol + 'a>(&'a self, protocol: P) -> Box<dyn MessagePort + 'a> {
        let mut partition = Partition::new(&self.config, &self.wiring, &self.partitioning, 0, protocol);
        partition.floor = self.level;
        Box::new(FabricMessagePort { partition, messages: BTreeSet::new(), bulk_bytes: 0 })
    }
}

struct FabricMessagePort<'a, P: Protocol> {
    partition: Partition<'a, P>,
    /// Messages that their senders do not know to have arrived.
    messages: BTreeSet<u32>,
    bulk_bytes: u64,
}

impl<P: Protocol> MessagePort for FabricMessagePort<'_, P> {
    fn send(&mut self, now: Time, endpoints: [Node; 2], segments: u32, level: Priority) -> u32 {
        let flow = self.partition.start_flow_now(now, endpoints, segments, level);
        self.partition.awaited.insert(flow, segments);
        self.messages.insert(flow);
        flow
    }

    fn next(&self) -> Option<Time> {
        self.partition.engine.peek()
    }

    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>) {
        while let Some((now, event)) = self.partition.next_by(limit) {
            self.partition.on_event(now, event);
        }
        arrived.append(&mut self.partition.arrived);
        for (flow, record) in self.partition.done.drain(..) {
            if !self.messages.remove(&flow) {
                self.bulk_bytes += record.bytes();
            }
        }
    }

    fn stats(&self) -> MessagePortStats {
        MessagePortStats {
            counters: self.partition.total_counters(),
            bulk_bytes: self.bulk_bytes,
            events: self.partition.event_count,
        }
    }
}
