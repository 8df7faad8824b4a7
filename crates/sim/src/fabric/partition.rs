//! Partition of a fabric: its nodes and their events.
//!
//! Events of the same instant are ordered by content: flow starts, completion notices, timers,
//! arrivals, transmissions completed; ties by number of flow or line. The result is thus the
//! same whether a neighbour's events are in this set or in another partition's. Partitions
//! exchange only packets and completion notices. Both take time, and arrivals are ordered as if
//! they were local.

use std::collections::BTreeMap;

use queueing::{Priority, Time};

use super::config::{Config, Multipath};
use super::flow_arrivals::{FlowArrivals, flow_arrivals};
use super::hosts::{Receiving, Sending};
use super::occupancy::Sampler;
use super::outcome::{Counters, FlowOutcome};
use super::packet::{Packet, PacketKind};
use super::partitioner::Partitioning;
use super::port::{Port, Sent};
use super::protocol::Protocol;
use super::topology::{DirectedLink, Node, Wiring};
use crate::Engine;

/// Some of a fabric's nodes.
pub(super) struct Partition<'a, P: Protocol> {
    pub config: &'a Config,
    pub wiring: &'a Wiring,
    pub partitioning: &'a Partitioning,
    pub number: u32,
    pub engine: Engine<Event>,
    /// Ports of all nodes; only those of this partition are used.
    ports: Vec<Port>,
    /// Buffer space in use, per port or, where ports share it, per node.
    buffered: Vec<u64>,
    /// Packets dropped by the last operation.
    dropped: Vec<u32>,
    /// Round-robin index of the next path, per node.
    next_paths: Vec<u32>,
    pub packets: Vec<InFlight>,
    /// Transport header of each packet.
    pub payload: Vec<P::Payload>,
    pub free: Vec<u32>,
    pub protocol: P,
    pub flow_arrivals: FlowArrivals,
    /// Arrivals examined so far; also the number of the next flow.
    pub next_flow: u32,
    /// Highest level of flows of the arrival process.
    pub floor: Priority,
    /// Local ends of flows, by flow number.
    pub sending: Vec<Option<Box<Sending<P>>>>,
    pub receiving: Vec<Receiving<P>>,
    /// Messages whose arrival is reported once this many segments are received, and messages
    /// that have arrived.
    pub awaited: BTreeMap<u32, u32>,
    pub arrived: Vec<u32>,
    /// Completed flows, by number.
    pub done: Vec<(u32, FlowOutcome)>,
    /// Receiver timer expirations, by flow.
    pub expired: Vec<(u32, u32)>,
    pub counters: Counters,
    pub sampler: Sampler,
    /// Outbound messages, by partition.
    pub outbound: Vec<Vec<OutboundMessage<P::Payload>>>,
    /// Time of the last event, and number of events.
    pub last: Time,
    pub event_count: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Next flow starts.
    FlowStart,
    /// Receiver of this flow learns that the flow is complete.
    Completion(u32),
    /// A timer of this flow's sender may have expired.
    Sender(u32),
    /// A timer of this flow's receiver may have expired.
    Receiver(u32),
    /// The packet at this index arrives at its next node.
    Arrive(u32),
    /// The line of this port is free.
    Free(u32),
}

/// Order of events of the same instant.
#[derive(Clone, Copy)]
pub(super) enum Rank {
    FlowStart,
    Completion,
    Sender,
    Receiver,
    Arrive,
    Free,
}

impl Rank {
    /// Rank of an event of flow or line `number`.
    pub const fn of(self, number: u32) -> u64 {
        (self as u64) << 61 | (number as u64) << LINE_BITS
    }

    /// Rank of a packet of `flow` that arrives on `line`. The flow comes first, so that the
    /// order does not depend on the numbering of hosts and switches.
    const fn of_packet(flow: u32, line: u32) -> u64 {
        assert!(line < 1 << LINE_BITS, "there are fewer lines");
        Self::Arrive.of(flow) | line as u64
    }
}

/// A rank has three bits of kind and 32 of flow number above these bits.
const LINE_BITS: u32 = 29;

/// Packet in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub packet: Packet,
    /// Next node.
    pub next: Node,
    /// Source and destination host.
    pub from: Node,
    pub to: Node,
}

/// Message to another partition, with its arrival time.
pub(super) enum OutboundMessage<S> {
    /// Packet on this line.
    Packet { at: Time, line: u32, in_flight: InFlight, payload: S },
    /// Completion notice of a flow.
    Completion { at: Time, flow: u32 },
}

impl<S> OutboundMessage<S> {
    /// Arrival time.
    pub const fn at(&self) -> Time {
        match *self {
            Self::Packet { at, .. } | Self::Completion { at, .. } => at,
        }
    }
}

impl<'a, P: Protocol> Partition<'a, P> {
    pub fn new(
        config: &'a Config,
        wiring: &'a Wiring,
        partitioning: &'a Partitioning,
        number: u32,
        protocol: P,
    ) -> Self {
        let port = |(number, &line): (usize, &DirectedLink)| {
            Port::new(config, number as u32, line, partitioning.partition_of[line.to as usize])
        };
        let mut partition = Self {
            config,
            wiring,
            partitioning,
            number,
            engine: Engine::new(),
            ports: wiring.lines.iter().enumerate().map(port).collect(),
            buffered: vec![0; wiring.lines.len().max(wiring.nodes as usize)],
            dropped: Vec::new(),
            next_paths: vec![0; wiring.nodes as usize],
            packets: Vec::new(),
            payload: Vec::new(),
            free: Vec::new(),
            protocol,
            flow_arrivals: flow_arrivals(config),
            next_flow: 0,
            floor: Priority::HIGHEST,
            sending: Vec::new(),
            receiving: Vec::new(),
            awaited: BTreeMap::new(),
            arrived: Vec::new(),
            done: Vec::new(),
            expired: Vec::new(),
            counters: Counters::default(),
            sampler: Sampler::new(wiring, config.occupancy, |node| {
                partitioning.partition_of[node as usize] == number
            }),
            outbound: (0..partitioning.partitions).map(|_| Vec::new()).collect(),
            last: Time::ZERO,
            event_count: 0,
        };
        partition.schedule_flow_start();
        partition
    }

    /// True if the first `flows` flows are complete and no packet is left, as far as this
    /// partition knows.
    pub fn is_over(&self, flows: u32) -> bool {
        self.done.len() as u64 == u64::from(flows) && self.packets.len() == self.free.len()
    }

    /// Counters; `left` is the number of packets still in this partition.
    pub fn total_counters(&self) -> Counters {
        Counters { left: self.live(), ..self.counters }
    }

    /// Packets in this partition.
    pub fn live(&self) -> u64 {
        (self.packets.len() - self.free.len()) as u64
    }

    /// Next event at or before `limit`.
    pub fn next_by(&mut self, limit: Time) -> Option<(Time, Event)> {
        let next = self.engine.next_by(limit)?;
        self.prefetch();
        Some(next)
    }

    /// Prefetches the data of the next events. In a large network it is in no cache; reading it
    /// for all events at once overlaps the misses.
    fn prefetch(&mut self) {
        let Some(upcoming) = self.engine.upcoming() else { return };
        let mut sink = 0;
        for event in upcoming {
            sink ^= match *event {
                Event::Arrive(slot) => {
                    let InFlight { packet, next, to, .. } = &self.packets[slot as usize];
                    let index = packet.flow as usize;
                    match packet.kind {
                        _ if *next >= self.wiring.hosts => {
                            let paths = self.wiring.next_hops(*next, *to);
                            self.ports[paths[ecmp_index(packet.flow, *next, paths.len())] as usize].touch()
                        }
                        PacketKind::Ack => {
                            self.sending[index].as_ref().map_or(0, |end| end.timer_at.as_nanos())
                        }
                        PacketKind::Data => self.receiving.get(index).map_or(0, Receiving::touch),
                    }
                }
                Event::Free(port) => self.ports[port as usize].touch(),
                _ => 0,
            };
        }
        std::hint::black_box(sink);
    }

    pub fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Sender(flow) => return self.on_sender_timer(now, flow),
            Event::Receiver(flow) => return self.on_receiver_timer(now, flow),
            Event::Completion(flow) => return self.drop_receiver(flow),
            Event::FlowStart | Event::Arrive(_) | Event::Free(_) => self.count_event(now),
        }
        match event {
            Event::FlowStart => self.start_flow(now),
            Event::Arrive(slot) => self.arrive(now, slot),
            Event::Free(port) => {
                self.ports[port as usize].wake_done();
                self.send(now, port);
            }
            _ => {}
        }
    }

    /// Accounts for an event that changes state at `now`.
    pub fn count_event(&mut self, now: Time) {
        self.last = now;
        self.event_count += 1;
        if self.sampler.next_sample <= now {
            self.sampler.sample(now, &self.ports);
        }
    }

    /// Samples the ports up to `end`, the end of the run.
    pub fn end(&mut self, end: Time) {
        self.sampler.sample(end, &self.ports);
    }

    /// Enqueues a packet at its source host.
    pub fn inject(&mut self, now: Time, [from, to]: [Node; 2], packet: Packet, payload: P::Payload) {
        self.counters.sent += 1;
        let slot = self.store(InFlight { packet, next: from, from, to }, payload);
        self.forward(now, from, slot);
    }

    /// Stores a packet; returns its index.
    fn store(&mut self, in_flight: InFlight, payload: P::Payload) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.packets[slot as usize] = in_flight;
                self.payload[slot as usize] = payload;
                slot
            }
            None => {
                self.packets.push(in_flight);
                self.payload.push(payload);
                self.packets.len() as u32 - 1
            }
        }
    }

    /// Receives a message from another partition.
    pub fn receive(&mut self, outbound: OutboundMessage<P::Payload>) {
        match outbound {
            OutboundMessage::Packet { at, line, in_flight, payload } => {
                let rank = Rank::of_packet(in_flight.packet.flow, line);
                let slot = self.store(in_flight, payload);
                self.engine.schedule_ranked(at, rank, Event::Arrive(slot));
            }
            OutboundMessage::Completion { at, flow } => {
                self.engine.schedule_ranked(at, Rank::Completion.of(flow), Event::Completion(flow));
            }
        }
    }

    /// Forwards a packet on one of the shortest paths to its destination.
    fn forward(&mut self, now: Time, node: Node, slot: u32) {
        let InFlight { packet, to, .. } = &mut self.packets[slot as usize];
        let number = match (self.wiring.next_hops(node, *to), self.config.multipath) {
            ([path], _) => *path,
            (paths, Multipath::Spray) => {
                let next = &mut self.next_paths[node as usize];
                *next = next.wrapping_add(1);
                paths[*next as usize % paths.len()]
            }
            (paths, Multipath::Ecmp) => paths[ecmp_index(packet.flow, node, paths.len())],
        };
        let port = &mut self.ports[number as usize];
        let buffered = &mut self.buffered[port.pool as usize];
        let sent = port.enqueue(now, slot, packet, buffered, &mut self.dropped);
        self.after_send(number, sent);
    }

    /// Transmits the port's next packet if its line is free.
    fn send(&mut self, now: Time, number: u32) {
        let port = &mut self.ports[number as usize];
        let sent = port.send(now, &mut self.buffered[port.pool as usize], &mut self.dropped);
        self.after_send(number, sent);
    }

    /// Processes the transmitted and dropped packets of a port, and schedules its next
    /// transmission.
    fn after_send(&mut self, number: u32, sent: Option<Sent>) {
        let port = &mut self.ports[number as usize];
        if let Some(Sent { slot, marked, at }) = sent {
            let in_flight = &mut self.packets[slot as usize];
            let packet = &mut in_flight.packet;
            self.counters.marked += u64::from(marked && !packet.marked);
            packet.marked |= marked;
            in_flight.next = port.to;
            self.counters.hops += 1;
            if port.partition == self.number {
                let rank = Rank::of_packet(in_flight.packet.flow, number);
                self.engine.schedule_ranked(at, rank, Event::Arrive(slot));
            } else {
                let (in_flight, payload) = (*in_flight, self.payload[slot as usize]);
                self.outbound[port.partition as usize].push(OutboundMessage::Packet {
                    at,
                    line: number,
                    in_flight,
                    payload,
                });
                self.free.push(slot);
            }
        }
        if let Some(at) = port.next_wake() {
            self.engine.schedule_ranked(at, Rank::Free.of(number), Event::Free(number));
        }
        if !self.dropped.is_empty() {
            self.counters.dropped += self.dropped.len() as u64;
            self.free.append(&mut self.dropped);
        }
    }

    fn arrive(&mut self, now: Time, slot: u32) {
        let InFlight { packet, next, from, to } = self.packets[slot as usize];
        if next >= self.wiring.hosts {
            return self.forward(now, next, slot);
        }
        self.counters.delivered += 1;
        self.free.push(slot);
        let payload = self.payload[slot as usize];
        match packet.kind {
            PacketKind::Data => self.on_data(now, [from, to], &packet, &payload),
            PacketKind::Ack => self.on_ack(now, &packet, &payload),
        }
    }
}

/// Path of all packets of a flow at a node: an index below `ways`.
fn ecmp_index(flow: u32, node: Node, paths: usize) -> usize {
    let key = u64::from(flow) << 32 | u64::from(node);
    match paths {
        1 => 0,
        // Same remainder, without a division per packet and switch.
        paths if paths.is_power_of_two() => splitmix64(key) as usize & (paths - 1),
        paths => (splitmix64(key) % paths as u64) as usize,
    }
}

/// Hash of `number` (SplitMix64's finaliser: Steele, Lea and Flood, OOPSLA '14).
fn splitmix64(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
