//! Networks of switches, packet by packet.
//!
//! Hosts send flows through switches; every port is one of `queueing`'s own
//! disciplines, so the queue that is simulated is the queue that runs. Packets
//! are headers and lengths: nothing is copied. Virtual time, one thread, every
//! draw from the seed: a run replays exactly.
//!
//! Source: PIAS (NSDI '15) §6 and FISH §4 for the set-up.

mod births;
mod config;
mod mrg;
mod ns2;
mod outcome;
mod packet;
mod port;
mod queues;
mod room;
mod sizes;
mod topology;

pub use config::{Config, Draws, Senders, Ways};
pub use ns2::Settings;
pub use outcome::{Counters, Flow, Outcome};
pub use packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};
pub use queues::{SCHEDULERS, Scheduler};
pub use room::{Buffer, Codel, Place, Ramp, Tagging};
pub use sizes::{BadSizes, Sizes};
pub use topology::{Cable, Line, Node, Topology, Wiring};

pub use crate::BadConfig;
use crate::Engine;
use births::{Birth, Births};
use ns2::{Receiver, Sender};
use port::{Port, Sent};
use queueing::{Rng, Thresholds, Time};

/// Runs the fabric until every flow is done or its time is up.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    let mut fabric = Fabric::new(config);
    let limit = Time::ZERO + config.limit;
    while fabric.engine.peek().is_some_and(|at| at <= limit) && fabric.done < config.flows {
        let (now, event) = fabric.engine.next().expect("just seen");
        fabric.on_event(now, event);
    }
    fabric.finish()
}

struct Fabric<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    wiring: Wiring,
    ports: Vec<Port>,
    /// Per port, or per node where its ports share it, how much room is in use.
    held: Vec<u64>,
    /// Packets that were just dropped.
    dropped: Vec<u32>,
    /// Per node, the way it took last.
    turns: Vec<u32>,
    packets: Vec<Packet>,
    /// Per packet, the node it is on its way to.
    heading: Vec<Node>,
    free: Vec<u32>,
    thresholds: Thresholds,
    ends: Vec<Ends>,
    begun: Vec<Flow>,
    done: u32,
    births: Births,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next flow begins.
    Begin,
    /// The packet in this slot reaches the node it was heading for.
    Arrive(u32),
    /// This port's line is free.
    Free(u32),
    /// This flow's timer may have expired.
    Timer(u32),
}

/// Both ends of a flow.
struct Ends {
    sender: Sender,
    receiver: Receiver,
    /// The event that looks at the timer; never later than the timer.
    looked_at: Time,
}

impl<'a> Fabric<'a> {
    fn new(config: &'a Config) -> Self {
        config.check().expect("a checked configuration");
        let wiring = config.topology.wire();
        let port = |(number, &line): (usize, &Line)| Port::new(config, number as u32, line);
        let mut fabric = Self {
            config,
            engine: Engine::new(),
            ports: wiring.lines.iter().enumerate().map(port).collect(),
            held: vec![0; wiring.lines.len().max(wiring.nodes as usize)],
            dropped: Vec::new(),
            turns: vec![0; wiring.nodes as usize],
            wiring,
            packets: Vec::new(),
            heading: Vec::new(),
            free: Vec::new(),
            thresholds: config.thresholds().expect("a checked configuration"),
            ends: Vec::new(),
            begun: Vec::new(),
            done: 0,
            births: Births::new(config),
            counters: Counters::default(),
        };
        fabric.schedule_birth();
        fabric
    }

    fn schedule_birth(&mut self) {
        if (self.begun.len() as u32) < self.config.flows
            && let Some((at, _)) = self.births.next()
        {
            self.engine.schedule(at, Event::Begin);
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Begin => {
                self.begin(now);
                self.schedule_birth();
            }
            Event::Arrive(slot) => self.arrive(now, slot),
            Event::Free(port) => {
                self.ports[port as usize].woken();
                self.send(now, port);
            }
            Event::Timer(flow) => self.on_timer(now, flow),
        }
    }

    fn begin(&mut self, now: Time) {
        let flow = self.begun.len() as u32;
        let Some(Birth { from, to, segments }) = self.births.begin(self.config, flow) else { return };
        self.begun.push(Flow { from, to, segments, began: now, took: None, retransmitted: 0, timeouts: 0 });
        let sender = Sender::new(flow, segments, &self.config.transport);
        self.ends.push(Ends { sender, receiver: Receiver::new(segments), looked_at: Time::MAX });
        self.pump(now, flow);
    }

    /// Sends what the flow may send.
    fn pump(&mut self, now: Time, flow: u32) {
        let from = self.begun[flow as usize].from;
        while let Some(packet) =
            self.ends[flow as usize].sender.poll(now, &self.config.transport, &self.thresholds)
        {
            self.put(now, from, packet);
        }
        self.watch(flow);
    }

    /// Sees to it that the flow's timer is looked at in time.
    fn watch(&mut self, flow: u32) {
        let ends = &mut self.ends[flow as usize];
        if ends.sender.expires < ends.looked_at {
            ends.looked_at = ends.sender.expires;
            self.engine.schedule(ends.looked_at, Event::Timer(flow));
        }
    }

    fn on_timer(&mut self, now: Time, flow: u32) {
        let ends = &mut self.ends[flow as usize];
        if ends.looked_at != now {
            return;
        }
        ends.looked_at = Time::MAX;
        if ends.sender.expires <= now {
            ends.sender.on_timeout(now, &self.config.transport);
            return self.pump(now, flow);
        }
        self.watch(flow);
    }

    /// A host puts a packet into its own queue.
    fn put(&mut self, now: Time, host: Node, packet: Packet) {
        self.counters.sent += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.packets[slot as usize] = packet;
                slot
            }
            None => {
                self.packets.push(packet);
                self.heading.push(host);
                self.packets.len() as u32 - 1
            }
        };
        self.forward(now, host, slot);
    }

    /// A node passes a packet on, on one of the ways to where it goes.
    fn forward(&mut self, now: Time, node: Node, slot: u32) {
        let packet = &mut self.packets[slot as usize];
        let flow = &self.begun[packet.flow as usize];
        let host = if packet.kind == Kind::Data { flow.to } else { flow.from };
        let number = match (self.wiring.ways(node, host), self.config.ways) {
            ([way], _) => *way,
            (ways, Ways::Spray) => {
                let turn = &mut self.turns[node as usize];
                *turn = turn.wrapping_add(1);
                ways[*turn as usize % ways.len()]
            }
            (ways, Ways::Flow) => {
                let mixed = Rng::seeded(u64::from(packet.flow) << 32 | u64::from(node)).next_u64();
                ways[(mixed % ways.len() as u64) as usize]
            }
        };
        let port = &mut self.ports[number as usize];
        port.offer(now, slot, packet, &mut self.held[port.pool as usize], &mut self.dropped);
        self.send(now, number);
    }

    /// Puts the port's next packet on its line, if that is free.
    fn send(&mut self, now: Time, number: u32) {
        let port = &mut self.ports[number as usize];
        if let Some(Sent { slot, marked, at }) =
            port.send(now, &mut self.held[port.pool as usize], &mut self.dropped)
        {
            let packet = &mut self.packets[slot as usize];
            self.counters.marked += u64::from(marked && !packet.marked);
            packet.marked |= marked;
            self.heading[slot as usize] = port.line.to;
            self.counters.hops += 1;
            self.engine.schedule(at, Event::Arrive(slot));
        }
        if let Some(at) = port.wake() {
            self.engine.schedule(at, Event::Free(number));
        }
        self.counters.dropped += self.dropped.len() as u64;
        self.free.append(&mut self.dropped);
    }

    fn arrive(&mut self, now: Time, slot: u32) {
        let node = self.heading[slot as usize];
        if node >= self.wiring.hosts {
            return self.forward(now, node, slot);
        }
        self.counters.delivered += 1;
        let packet = self.packets[slot as usize];
        self.free.push(slot);
        let ends = &mut self.ends[packet.flow as usize];
        match packet.kind {
            Kind::Data => {
                let ack = ends.receiver.on_data(&packet);
                self.put(now, node, ack);
            }
            Kind::Ack => {
                let flow = &mut self.begun[packet.flow as usize];
                if flow.took.is_some() {
                    return;
                }
                ends.sender.on_ack(now, &packet, &self.config.transport);
                if ends.sender.done() {
                    flow.took = Some(now.since(flow.began));
                    self.done += 1;
                } else {
                    self.pump(now, packet.flow);
                }
            }
        }
    }

    fn finish(mut self) -> Outcome {
        for (flow, ends) in self.begun.iter_mut().zip(&self.ends) {
            (flow.retransmitted, flow.timeouts) = (ends.sender.retransmitted, ends.sender.timeouts);
        }
        self.counters.left = self.packets.len() as u64 - self.free.len() as u64;
        Outcome {
            flows: self.begun,
            counters: self.counters,
            elapsed: self.engine.now().since(Time::ZERO),
            events: self.engine.scheduled(),
        }
    }
}
