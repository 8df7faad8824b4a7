//! A fabric as a part of a larger world: messages in, word of their arrival out.
//!
//! A message is a flow of its own between two hosts, over the same ports and
//! transports as any other, beside the flows that the configuration begins by
//! itself. It has arrived when its receiver has all of it, in order. One thread:
//! whoever sends decides by what arrived before.

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

/// Carries messages between hosts.
pub(crate) trait MessagePort {
    /// A message of so many full segments goes out, none of them more urgent than
    /// `level`; its number.
    fn send(&mut self, now: Time, ends: [Node; 2], segments: u32, level: Priority) -> u32;

    /// When something happens next.
    fn next(&self) -> Option<Time>;

    /// What happens by `limit` happens; messages that are there join `arrived`.
    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>);

    /// What was carried so far.
    fn carried(&self) -> Carried;
}

/// What a fabric did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub counters: Counters,
    /// Bytes of flows that the configuration began and that were done.
    pub bulk_bytes: u64,
    /// What happened.
    pub events: u64,
}

/// Full segments that carry `bytes`, one at least.
pub(crate) fn segments(bytes: u64) -> u32 {
    bytes.div_ceil(MSS).max(1) as u32
}

/// A network that is wired.
pub(crate) struct Wired {
    config: Config,
    wiring: Wiring,
    split: Partitioning,
    /// Of flows that the configuration begins.
    level: Priority,
}

impl Wired {
    /// The network of `config`; flows that it begins by itself, if it is to begin
    /// any, are of `level` at best.
    ///
    /// # Panics
    /// When the configuration does not pass [`Config::check`].
    pub fn new(mut config: Config, bulk: bool, level: Priority) -> Self {
        config.check().expect("a checked configuration");
        if !bulk {
            config.planned = Some(Arc::new([]));
        }
        let wiring = config.topology.wire();
        let split = Partitioning::new(&wiring, 1);
        Self { config, wiring, split, level }
    }

    /// The network at work.
    pub fn carrier(&self) -> Box<dyn MessagePort + '_> {
        let thresholds = self.config.thresholds().expect("a checked configuration");
        match &self.config.transport {
            Transport::Ns2(settings) => self.over(Ns2::new(*settings, thresholds)),
            Transport::Modern(settings) => self.over(NetTcp::new(settings, thresholds)),
        }
    }

    fn over<'a, P: Protocol + 'a>(&'a self, protocol: P) -> Box<dyn MessagePort + 'a> {
        let mut part = Partition::new(&self.config, &self.wiring, &self.split, 0, protocol);
        part.floor = self.level;
        Box::new(Carrier { part, own: BTreeSet::new(), bulk_bytes: 0 })
    }
}

struct Carrier<'a, P: Protocol> {
    part: Partition<'a, P>,
    /// Messages of which senders do not know yet that they have arrived.
    own: BTreeSet<u32>,
    bulk_bytes: u64,
}

impl<P: Protocol> MessagePort for Carrier<'_, P> {
    fn send(&mut self, now: Time, ends: [Node; 2], segments: u32, level: Priority) -> u32 {
        let flow = self.part.begin_now(now, ends, segments, level);
        self.part.awaited.insert(flow, segments);
        self.own.insert(flow);
        flow
    }

    fn next(&self) -> Option<Time> {
        self.part.engine.peek()
    }

    fn run(&mut self, limit: Time, arrived: &mut Vec<u32>) {
        while let Some((now, event)) = self.part.next_by(limit) {
            self.part.on_event(now, event);
        }
        arrived.append(&mut self.part.arrived);
        for (flow, record) in self.part.done.drain(..) {
            if !self.own.remove(&flow) {
                self.bulk_bytes += record.bytes();
            }
        }
    }

    fn carried(&self) -> Carried {
        Carried { counters: self.part.counted(), bulk_bytes: self.bulk_bytes, events: self.part.happened }
    }
}
