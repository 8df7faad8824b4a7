//! A part of a fabric: its nodes, and the events at them.
//!
//! What happens at the same instant happens in an order that its content says:
//! what begins, word of a flow's end, timers, arrivals, lines that are free;
//! among equals by number of flow or line. So it makes no difference whether a
//! neighbour's events are in the same set or in another part's: between parts
//! there are only packets (and word that a flow is done), which take their time,
//! and what arrives is ordered as if it had always been here.

use std::collections::BTreeMap;

use queueing::{Priority, Time};

use super::config::{Config, Multipath};
use super::flow_arrivals::{FlowArrivals, births};
use super::hosts::{Receiving, Sending};
use super::occupancy::Watch;
use super::outcome::{Counters, Flow};
use super::packet::{Kind, Packet};
use super::partitioner::Partitioning;
use super::port::{Port, Sent};
use super::protocol::Protocol;
use super::topology::{Line, Node, Wiring};
use crate::Engine;

/// Some of a fabric's nodes.
pub(super) struct Partition<'a, P: Protocol> {
    pub config: &'a Config,
    pub wiring: &'a Wiring,
    pub split: &'a Partitioning,
    pub number: u32,
    pub engine: Engine<Event>,
    /// Those of all nodes, in use as far as they are here.
    ports: Vec<Port>,
    /// Per port, or per node where its ports share it, how much room is in use.
    held: Vec<u64>,
    /// Packets that were just dropped.
    dropped: Vec<u32>,
    /// Per node, the way it took last.
    turns: Vec<u32>,
    pub packets: Vec<Travelling>,
    /// Per packet, what it says to the end it is for.
    pub said: Vec<P::Said>,
    pub free: Vec<u32>,
    pub protocol: P,
    pub births: FlowArrivals,
    /// How many of those were looked at; also the number of the next flow.
    pub born: u32,
    /// No flow that begins by itself is more urgent.
    pub floor: Priority,
    /// By flow, the ends that are here.
    pub sending: Vec<Option<Box<Sending<P>>>>,
    pub receiving: Vec<Receiving<P>>,
    /// Flows of which word is awaited when so many segments have arrived, and
    /// those of which they have.
    pub awaited: BTreeMap<u32, u32>,
    pub arrived: Vec<u32>,
    /// Flows that were done, by number.
    pub done: Vec<(u32, Flow)>,
    /// Timers of receivers that expired, by flow.
    pub expired: Vec<(u32, u32)>,
    pub counters: Counters,
    pub watch: Watch,
    /// By part, what goes there.
    pub leaving: Vec<Vec<OutboundMessage<P::Said>>>,
    /// When something happened last, and how often something did.
    pub last: Time,
    pub happened: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The next flow begins.
    Begin,
    /// This flow's receiver learns that the flow is done.
    Word(u32),
    /// A timer of this flow's sender may have expired.
    Sender(u32),
    /// A timer of its receiver.
    Receiver(u32),
    /// The packet in this slot reaches the node it was heading for.
    Arrive(u32),
    /// This port's line is free.
    Free(u32),
}

/// Ranks of what happens at the same instant.
#[derive(Clone, Copy)]
pub(super) enum Rank {
    Begin,
    Word,
    Sender,
    Receiver,
    Arrive,
    Free,
}

impl Rank {
    /// Of the flow or line of this number.
    pub const fn of(self, number: u32) -> u64 {
        (self as u64) << 61 | (number as u64) << LINE_BITS
    }

    /// Of a packet of `flow` that `line` brings: by flow first, which says
    /// nothing of what hosts and switches are called.
    const fn of_packet(flow: u32, line: u32) -> u64 {
        assert!(line < 1 << LINE_BITS, "there are fewer lines");
        Self::Arrive.of(flow) | line as u64
    }
}

/// Three bits of a rank are its kind, 32 the flow.
const LINE_BITS: u32 = 29;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Travelling {
    pub packet: Packet,
    /// The node it is on its way to.
    pub next: Node,
    /// The hosts it is from and for.
    pub from: Node,
    pub to: Node,
}

/// What goes to another part, and when it is there.
pub(super) enum OutboundMessage<S> {
    /// A packet, on this line.
    Packet { at: Time, line: u32, travelling: Travelling, said: S },
    /// Word that a flow is done.
    Word { at: Time, flow: u32 },
}

impl<S> OutboundMessage<S> {
    /// When it is there.
    pub const fn at(&self) -> Time {
        match *self {
            Self::Packet { at, .. } | Self::Word { at, .. } => at,
        }
    }
}

impl<'a, P: Protocol> Partition<'a, P> {
    pub fn new(
        config: &'a Config,
        wiring: &'a Wiring,
        split: &'a Partitioning,
        number: u32,
        protocol: P,
    ) -> Self {
        let port = |(number, &line): (usize, &Line)| {
            Port::new(config, number as u32, line, split.home[line.to as usize])
        };
        let mut part = Self {
            config,
            wiring,
            split,
            number,
            engine: Engine::new(),
            ports: wiring.lines.iter().enumerate().map(port).collect(),
            held: vec![0; wiring.lines.len().max(wiring.nodes as usize)],
            dropped: Vec::new(),
            turns: vec![0; wiring.nodes as usize],
            packets: Vec::new(),
            said: Vec::new(),
            free: Vec::new(),
            protocol,
            births: births(config),
            born: 0,
            floor: Priority::HIGHEST,
            sending: Vec::new(),
            receiving: Vec::new(),
            awaited: BTreeMap::new(),
            arrived: Vec::new(),
            done: Vec::new(),
            expired: Vec::new(),
            counters: Counters::default(),
            watch: Watch::new(wiring, config.occupancy, |node| split.home[node as usize] == number),
            leaving: (0..split.parts).map(|_| Vec::new()).collect(),
            last: Time::ZERO,
            happened: 0,
        };
        part.schedule_birth();
        part
    }

    /// Whether everything of the first `flows` flows is over, as far as this
    /// part knows of it.
    pub fn is_over(&self, flows: u32) -> bool {
        self.done.len() as u64 == u64::from(flows) && self.packets.len() == self.free.len()
    }

    /// What was counted here, with what is left.
    pub fn counted(&self) -> Counters {
        Counters { left: self.live(), ..self.counters }
    }

    /// Packets that are here.
    pub fn live(&self) -> u64 {
        (self.packets.len() - self.free.len()) as u64
    }

    /// What happens next, by `limit`.
    pub fn next_by(&mut self, limit: Time) -> Option<(Time, Event)> {
        let next = self.engine.next_by(limit)?;
        self.fetch();
        Some(next)
    }

    /// Looks at what the next events will look at first. In a large network that
    /// is in no cache; a processor that is asked for all of it fetches it at a
    /// time, and one that meets it event by event waits each time.
    fn fetch(&mut self) {
        let Some(found) = self.engine.found() else { return };
        let mut seen = 0;
        for event in found {
            seen ^= match *event {
                Event::Arrive(slot) => {
                    let Travelling { packet, next, to, .. } = &self.packets[slot as usize];
                    let place = packet.flow as usize;
                    match packet.kind {
                        _ if *next >= self.wiring.hosts => {
                            let ways = self.wiring.ways(*next, *to);
                            self.ports[ways[by_flow(packet.flow, *next, ways.len())] as usize].touch()
                        }
                        Kind::Ack => self.sending[place].as_ref().map_or(0, |end| end.looked_at.as_nanos()),
                        Kind::Data => self.receiving.get(place).map_or(0, Receiving::touch),
                    }
                }
                Event::Free(port) => self.ports[port as usize].touch(),
                _ => 0,
            };
        }
        std::hint::black_box(seen);
    }

    pub fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Sender(flow) => return self.on_sender_timer(now, flow),
            Event::Receiver(flow) => return self.on_receiver_timer(now, flow),
            Event::Word(flow) => return self.forget(flow),
            Event::Begin | Event::Arrive(_) | Event::Free(_) => self.happens(now),
        }
        match event {
            Event::Begin => self.begin(now),
            Event::Arrive(slot) => self.arrive(now, slot),
            Event::Free(port) => {
                self.ports[port as usize].woken();
                self.send(now, port);
            }
            _ => {}
        }
    }

    /// Something changes now.
    pub fn happens(&mut self, now: Time) {
        self.last = now;
        self.happened += 1;
        if self.watch.due <= now {
            self.watch.look(now, &self.ports);
        }
    }

    /// Looks at the ports up to `end`, after which nothing happened anywhere.
    pub fn end(&mut self, end: Time) {
        self.watch.look(end, &self.ports);
    }

    /// A host puts a packet into its own queue.
    pub fn put(&mut self, now: Time, [from, to]: [Node; 2], packet: Packet, said: P::Said) {
        self.counters.sent += 1;
        let slot = self.stow(Travelling { packet, next: from, from, to }, said);
        self.forward(now, from, slot);
    }

    /// Gives a packet a place here.
    fn stow(&mut self, travelling: Travelling, said: P::Said) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.packets[slot as usize] = travelling;
                self.said[slot as usize] = said;
                slot
            }
            None => {
                self.packets.push(travelling);
                self.said.push(said);
                self.packets.len() as u32 - 1
            }
        }
    }

    /// Takes in what comes from another part.
    pub fn take(&mut self, leaving: OutboundMessage<P::Said>) {
        match leaving {
            OutboundMessage::Packet { at, line, travelling, said } => {
                let rank = Rank::of_packet(travelling.packet.flow, line);
                let slot = self.stow(travelling, said);
                self.engine.schedule_ranked(at, rank, Event::Arrive(slot));
            }
            OutboundMessage::Word { at, flow } => {
                self.engine.schedule_ranked(at, Rank::Word.of(flow), Event::Word(flow));
            }
        }
    }

    /// A node passes a packet on, on one of the ways to where it goes.
    fn forward(&mut self, now: Time, node: Node, slot: u32) {
        let Travelling { packet, to, .. } = &mut self.packets[slot as usize];
        let number = match (self.wiring.ways(node, *to), self.config.ways) {
            ([way], _) => *way,
            (ways, Multipath::Spray) => {
                let turn = &mut self.turns[node as usize];
                *turn = turn.wrapping_add(1);
                ways[*turn as usize % ways.len()]
            }
            (ways, Multipath::Flow) => ways[by_flow(packet.flow, node, ways.len())],
        };
        let port = &mut self.ports[number as usize];
        let held = &mut self.held[port.pool as usize];
        let sent = port.offer(now, slot, packet, held, &mut self.dropped);
        self.sent(number, sent);
    }

    /// Puts the port's next packet on its line, if that is free.
    fn send(&mut self, now: Time, number: u32) {
        let port = &mut self.ports[number as usize];
        let sent = port.send(now, &mut self.held[port.pool as usize], &mut self.dropped);
        self.sent(number, sent);
    }

    /// Sees to what the port has just sent and dropped, and to who sends next.
    fn sent(&mut self, number: u32, sent: Option<Sent>) {
        let port = &mut self.ports[number as usize];
        if let Some(Sent { slot, marked, at }) = sent {
            let travelling = &mut self.packets[slot as usize];
            let packet = &mut travelling.packet;
            self.counters.marked += u64::from(marked && !packet.marked);
            packet.marked |= marked;
            travelling.next = port.to;
            self.counters.hops += 1;
            if port.home == self.number {
                let rank = Rank::of_packet(travelling.packet.flow, number);
                self.engine.schedule_ranked(at, rank, Event::Arrive(slot));
            } else {
                let (travelling, said) = (*travelling, self.said[slot as usize]);
                self.leaving[port.home as usize].push(OutboundMessage::Packet {
                    at,
                    line: number,
                    travelling,
                    said,
                });
                self.free.push(slot);
            }
        }
        if let Some(at) = port.wake() {
            self.engine.schedule_ranked(at, Rank::Free.of(number), Event::Free(number));
        }
        if !self.dropped.is_empty() {
            self.counters.dropped += self.dropped.len() as u64;
            self.free.append(&mut self.dropped);
        }
    }

    fn arrive(&mut self, now: Time, slot: u32) {
        let Travelling { packet, next, from, to } = self.packets[slot as usize];
        if next >= self.wiring.hosts {
            return self.forward(now, next, slot);
        }
        self.counters.delivered += 1;
        self.free.push(slot);
        let said = self.said[slot as usize];
        match packet.kind {
            Kind::Data => self.on_data(now, [from, to], &packet, &said),
            Kind::Ack => self.on_answer(now, &packet, &said),
        }
    }
}

/// Which of so many ways all packets of a flow take at a node.
fn by_flow(flow: u32, node: Node, ways: usize) -> usize {
    let key = u64::from(flow) << 32 | u64::from(node);
    match ways {
        1 => 0,
        // The same remainder, without a division for each packet at each switch.
        ways if ways.is_power_of_two() => mixed(key) as usize & (ways - 1),
        ways => (mixed(key) % ways as u64) as usize,
    }
}

/// A number that looks like nothing that `number` does (SplitMix64's finaliser:
/// Steele, Lea and Flood, OOPSLA '14).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
