//! Networks of switches, packet by packet.
//!
//! Hosts send flows through switches; every port is one of `queueing`'s own
//! disciplines, so the queue that is simulated is the queue that runs. Packets
//! are headers and lengths: nothing is copied. Virtual time, one thread, every
//! draw from the seed: a run replays exactly. How hosts speak is a transport's
//! to say: the one of the papers' simulations, or `net`'s own TCP.
//!
//! Source: PIAS (NSDI '15) §6 and FISH §4 for the set-up.

mod births;
mod config;
mod modern;
mod mrg;
mod ns2;
mod outcome;
mod packet;
mod port;
mod protocol;
mod sizes;
mod topology;

pub use config::{Config, Draws, Senders, Transport, Ways};
pub use modern::Settings as Modern;
pub use ns2::Settings as Ns2;
pub use outcome::{Counters, Flow, Outcome};
pub use packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};
pub use port::{SCHEDULERS, Scheduler};
pub use sizes::{BadSizes, Sizes};
pub use topology::{Cable, Line, Node, Topology, Wiring};

pub use crate::BadConfig;
use crate::Engine;
use births::{Birth, Births};
use port::{Offered, Port};
use protocol::Protocol;
use queueing::Time;

/// Runs the fabric until every flow is done or its time is up.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("a checked configuration");
    let thresholds = config.thresholds().expect("a checked configuration");
    match &config.transport {
        Transport::Ns2(settings) => Fabric::new(config, ns2::Ns2::new(*settings, thresholds)).run(),
        Transport::Modern(settings) => Fabric::new(config, modern::Modern::new(settings, thresholds)).run(),
    }
}

struct Fabric<'a, P: Protocol> {
    config: &'a Config,
    engine: Engine<Event>,
    wiring: Wiring,
    ports: Vec<Port>,
    /// Per node, the way it took last.
    turns: Vec<u32>,
    packets: Vec<Packet>,
    /// Per packet, what it says to the end it is for.
    said: Vec<P::Said>,
    /// Per packet, the node it is on its way to, and the host it is for.
    heading: Vec<(Node, Node)>,
    free: Vec<u32>,
    protocol: P,
    ends: Vec<Ends<P>>,
    begun: Vec<Flow>,
    done: u32,
    active_max: u32,
    births: Births,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// This host's next flow begins.
    Begin(Node),
    /// The packet in this slot reaches the node it was heading for.
    Arrive(u32),
    /// This port's line is free.
    Free(u32),
    /// A timer of this flow may have expired.
    Timer(u32),
}

/// Both ends of a flow.
struct Ends<P: Protocol> {
    both: P::Ends,
    /// The event that looks at the timers; never later than they are due.
    looked_at: Time,
}

impl<'a, P: Protocol> Fabric<'a, P> {
    fn new(config: &'a Config, protocol: P) -> Self {
        let wiring = config.topology.wire();
        let mark = (config.mark > 0).then_some(config.mark);
        let port = |&line: &Line| Port::new(line, config.scheduler, config.room, mark);
        let mut fabric = Self {
            config,
            engine: Engine::new(),
            ports: wiring.lines.iter().map(port).collect(),
            turns: vec![0; wiring.nodes as usize],
            wiring,
            packets: Vec::new(),
            said: Vec::new(),
            heading: Vec::new(),
            free: Vec::new(),
            protocol,
            ends: Vec::new(),
            begun: Vec::new(),
            done: 0,
            active_max: 0,
            births: Births::new(config),
            counters: Counters::default(),
        };
        fabric.schedule_birth();
        fabric
    }

    fn run(mut self) -> Outcome {
        let limit = Time::ZERO + self.config.limit;
        while self.done < self.config.flows
            && let Some((now, event)) = self.engine.next_by(limit)
        {
            self.on_event(now, event);
        }
        self.finish()
    }

    fn schedule_birth(&mut self) {
        if (self.begun.len() as u32) < self.config.flows
            && let Some((at, from)) = self.births.next()
        {
            self.engine.schedule(at, Event::Begin(from));
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Begin(from) => {
                self.begin(now, from);
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

    fn begin(&mut self, now: Time, from: Node) {
        let flow = self.begun.len() as u32;
        let Birth { to, segments } = self.births.begin(self.config, from, flow);
        self.begun.push(Flow { from, to, segments, began: now, took: None, retransmitted: 0, timeouts: 0 });
        self.ends.push(Ends { both: self.protocol.begin(now, flow, segments), looked_at: Time::MAX });
        self.active_max = self.active_max.max(flow + 1 - self.done);
        self.pump(now, flow, Kind::Data);
    }

    /// Sends what the end of `flow` that sends `kind` may send.
    fn pump(&mut self, now: Time, flow: u32, kind: Kind) {
        let Flow { from, to, .. } = self.begun[flow as usize];
        let hosts = if kind == Kind::Data { [from, to] } else { [to, from] };
        while let Some((packet, said)) = self.protocol.poll(now, &mut self.ends[flow as usize].both, kind) {
            self.put(now, hosts, packet, said);
        }
        let due = self.protocol.due(&self.ends[flow as usize].both, kind);
        self.watch(flow, due);
    }

    /// Sees to it that the flow's timers are looked at by then.
    fn watch(&mut self, flow: u32, due: Time) {
        let ends = &mut self.ends[flow as usize];
        if due < ends.looked_at {
            ends.looked_at = due;
            self.engine.schedule(due, Event::Timer(flow));
        }
    }

    fn on_timer(&mut self, now: Time, flow: u32) {
        let ends = &mut self.ends[flow as usize];
        if ends.looked_at != now {
            return;
        }
        ends.looked_at = Time::MAX;
        let due = Kind::BOTH.map(|kind| self.protocol.due(&ends.both, kind));
        if due.iter().all(|&due| due > now) {
            return due.into_iter().for_each(|due| self.watch(flow, due));
        }
        self.protocol.on_due(now, &mut ends.both);
        Kind::BOTH.into_iter().for_each(|kind| self.pump(now, flow, kind));
    }

    /// A host puts a packet into its own queue.
    fn put(&mut self, now: Time, [host, to]: [Node; 2], packet: Packet, said: P::Said) {
        self.counters.sent += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.packets[slot as usize] = packet;
                self.said[slot as usize] = said;
                self.heading[slot as usize].1 = to;
                slot
            }
            None => {
                self.packets.push(packet);
                self.said.push(said);
                self.heading.push((host, to));
                self.packets.len() as u32 - 1
            }
        };
        self.forward(now, host, slot);
    }

    /// A node passes a packet on, on one of the ways to where it goes.
    fn forward(&mut self, now: Time, node: Node, slot: u32) {
        let packet = &mut self.packets[slot as usize];
        let to = self.heading[slot as usize].1;
        let number = match (self.wiring.ways(node, to), self.config.ways) {
            ([way], _) => *way,
            (ways, Ways::Spray) => {
                let turn = &mut self.turns[node as usize];
                *turn = turn.wrapping_add(1);
                ways[*turn as usize % ways.len()]
            }
            (ways, Ways::Flow) => {
                ways[(mixed(u64::from(packet.flow) << 32 | u64::from(node)) % ways.len() as u64) as usize]
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
            self.heading[slot as usize].0 = port.line.to;
            self.counters.hops += 1;
            self.engine.schedule(at, Event::Arrive(slot));
        }
        if let Some(at) = port.wake() {
            self.engine.schedule(at, Event::Free(number));
        }
    }

    fn arrive(&mut self, now: Time, slot: u32) {
        let (node, _) = self.heading[slot as usize];
        if node >= self.wiring.hosts {
            return self.forward(now, node, slot);
        }
        self.counters.delivered += 1;
        let packet = self.packets[slot as usize];
        self.free.push(slot);
        let flow = &mut self.begun[packet.flow as usize];
        if flow.took.is_some() && packet.kind == Kind::Ack {
            return;
        }
        let ends = &mut self.ends[packet.flow as usize].both;
        self.protocol.hear(now, ends, &packet, &self.said[slot as usize]);
        if packet.kind == Kind::Ack && self.protocol.is_done(ends) {
            flow.took = Some(now.since(flow.began));
            self.done += 1;
            return self.protocol.retire(ends);
        }
        self.pump(now, packet.flow, packet.kind.answer());
    }

    fn finish(mut self) -> Outcome {
        for (flow, ends) in self.begun.iter_mut().zip(&self.ends) {
            (flow.retransmitted, flow.timeouts) = self.protocol.tally(&ends.both);
        }
        self.counters.left = self.packets.len() as u64 - self.free.len() as u64;
        Outcome {
            flows: self.begun,
            counters: self.counters,
            active_max: self.active_max,
            elapsed: self.engine.now().since(Time::ZERO),
            events: self.engine.scheduled(),
        }
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
