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
mod ideal;
mod modern;
mod mrg;
mod ns2;
mod occupancy;
mod outcome;
mod packet;
mod planned;
mod port;
mod protocol;
mod queues;
mod room;
mod sizes;
mod topology;

pub use config::{Config, Draws, Senders, Transport, Ways};
pub use modern::Settings as Modern;
pub use ns2::Settings as Ns2;
pub use occupancy::{INSTANTS, Occupancy, PLACES, Waited};
pub use outcome::{Counters, Flow, Outcome};
pub use packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};
pub use planned::{BadLine, Planned};
pub use queues::{SCHEDULERS, Scheduler};
pub use room::{Buffer, Codel, Marking, Ramp, Tagging};
pub use sizes::{BadSizes, Sizes};
pub use topology::{Cable, Line, Node, Topology, Wiring};

pub use crate::BadConfig;
use crate::Engine;
use births::{Birth, Births, births};
use occupancy::Watch;
use port::{Port, Sent};
use protocol::Protocol;
use queueing::Time;

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
    config.check().expect("a checked configuration");
    let thresholds = config.thresholds().expect("a checked configuration");
    match &config.transport {
        Transport::Ns2(settings) => Fabric::new(config, ns2::Ns2::new(*settings, thresholds)).run(on_done),
        Transport::Modern(settings) => {
            Fabric::new(config, modern::Modern::new(settings, thresholds)).run(on_done)
        }
    }
}

struct Fabric<'a, P: Protocol> {
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
        let port = |(number, &line): (usize, &Line)| Port::new(config, number as u32, line);
        let mut fabric = Self {
            config,
            engine: Engine::new(),
            ports: wiring.lines.iter().enumerate().map(port).collect(),
            held: vec![0; wiring.lines.len().max(wiring.nodes as usize)],
            dropped: Vec::new(),
            turns: vec![0; wiring.nodes as usize],
            watch: Watch::new(&wiring, config.occupancy),
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
            births: births(config),
            counters: Counters::default(),
        };
        fabric.schedule_birth();
        fabric
    }

    fn run(mut self, on_done: &mut dyn FnMut(u32)) -> Outcome {
        let limit = Time::ZERO + self.config.limit;
        while self.done < self.config.flows
            && let Some((now, event)) = self.engine.next_by(limit)
        {
            if self.watch.due <= now {
                self.watch.look(now, &self.ports);
            }
            let done = self.done;
            self.on_event(now, event);
            if self.done > done {
                on_done(self.done);
            }
        }
        self.finish()
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
        self.remind(flow, due);
    }

    /// Sees to it that the flow's timers are looked at by then.
    fn remind(&mut self, flow: u32, due: Time) {
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
            return due.into_iter().for_each(|due| self.remind(flow, due));
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
            self.heading[slot as usize].0 = port.line.to;
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
            occupancy: self.watch.finish(),
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
