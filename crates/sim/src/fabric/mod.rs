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
mod ideal;
mod mrg;
mod ns2;
mod occupancy;
mod outcome;
mod packet;
mod planned;
mod port;
mod sizes;
mod topology;

pub use config::{Config, Draws, Senders, Ways};
pub use ns2::Settings;
pub use occupancy::{INSTANTS, Occupancy, PLACES, Waited};
pub use outcome::{Counters, Flow, Outcome};
pub use packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};
pub use planned::{BadLine, Planned};
pub use port::{SCHEDULERS, Scheduler};
pub use sizes::{BadSizes, Sizes};
pub use topology::{Cable, Line, Node, Topology, Wiring};

pub use crate::BadConfig;
use crate::Engine;
use births::{Birth, Births, births};
use ns2::{Receiver, Sender};
use occupancy::Watch;
use port::{Offered, Port};
use queueing::{Rng, Thresholds, Time};

/// Runs the fabric until every flow is done or its time is up.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    run_watched(config, &mut |_| {})
}

/// As [`run`]; `on_done` hears of each flow that is done, how many are.
///
/// # Panics
/// As [`run`].
#[must_use]
pub fn run_watched(config: &Config, on_done: &mut dyn FnMut(u32)) -> Outcome {
    let mut fabric = Fabric::new(config);
    let limit = Time::ZERO + config.limit;
    let mut done = 0;
    while fabric.engine.peek().is_some_and(|at| at <= limit) && done < config.flows {
        let (now, event) = fabric.engine.next().expect("just seen");
        if fabric.watch.due <= now {
            fabric.watch.look(now, &fabric.ports);
        }
        fabric.on_event(now, event);
        if fabric.done > done {
            done = fabric.done;
            on_done(done);
        }
    }
    fabric.finish()
}

struct Fabric<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    wiring: Wiring,
    ports: Vec<Port>,
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
    watch: Watch,
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
        let mark = (config.mark > 0).then_some(config.mark);
        let port = |&line: &Line| Port::new(line, config.scheduler, config.room, mark);
        let mut fabric = Self {
            config,
            engine: Engine::new(),
            ports: wiring.lines.iter().map(port).collect(),
            turns: vec![0; wiring.nodes as usize],
            watch: Watch::new(&wiring, config.occupancy),
            wiring,
            packets: Vec::new(),
            heading: Vec::new(),
            free: Vec::new(),
            thresholds: config.thresholds().expect("a checked configuration"),
            ends: Vec::new(),
            begun: Vec::new(),
            done: 0,
            births: births(config),
            counters: Counters::default(),
        };
        fabric.schedule_birth();
        fabric
    }

    fn schedule_birth(&mut self) {
        if let Some(next) = self.births.peek() {
            self.engine.schedule(next.at, Event::Begin);
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
        let Some(Birth { from, to, segments, .. }) = self.births.next() else { return };
        let ideal = ideal::ideal(&self.wiring, self.config.ways == Ways::Spray, from, to, segments);
        let flow_begun =
            Flow { from, to, segments, began: now, took: None, ideal, retransmitted: 0, timeouts: 0 };
        self.begun.push(flow_begun);
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
        let marked = packet.marked;
        let dropped = match port.offer(now, slot, packet) {
            Offered::Waits { dropped } => dropped,
            Offered::Dropped => Some(slot),
        };
        self.counters.marked += u64::from(!marked && packet.marked);
        if let Some(dropped) = dropped {
            self.counters.dropped += 1;
            self.free.push(dropped);
        }
        self.send(now, number);
    }

    /// Puts the port's next packet on its line, if that is free.
    fn send(&mut self, now: Time, number: u32) {
        let port = &mut self.ports[number as usize];
        if let Some((slot, at)) = port.send(now) {
            self.heading[slot as usize] = port.line.to;
            self.counters.hops += 1;
            self.engine.schedule(at, Event::Arrive(slot));
        }
        if let Some(at) = port.wake() {
            self.engine.schedule(at, Event::Free(number));
        }
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
            occupancy: self.watch.finish(),
            elapsed: self.engine.now().since(Time::ZERO),
            events: self.engine.scheduled(),
        }
    }
}
