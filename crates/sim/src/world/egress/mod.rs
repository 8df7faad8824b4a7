//! One egress: flows of a machine or a router share a line, behind one FIFO or behind the policy
//! `fish` of `greenwave egress`.
//!
//! Levels are decided by the classifier's own code ([`queueing::egress`]), queues are `queueing`'s
//! disciplines. Packets are those that the kernel enqueues, of several segments (GSO). TCP is a
//! window only: slow start, one reduction per round trip, lost packets are seen a round trip later.
//! Acknowledgements wait nowhere. Not modelled: pacing, handshakes, and the path behind the line.

mod config;
mod queues;

use queueing::{Bytes, Rng, Span, Time};

pub use config::{Config, FlowGroup, FlowKind, Queues, log_mean};
pub use queues::fish;
use queues::{EgressQueues, Packet};

use crate::Engine;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Times of each group, sorted: of transfers from their start to the last acknowledgement, of
    /// constant flows' packets until they left. Flows that did not end count with their age.
    pub spans: Vec<Vec<Span>>,
    /// Share of the line's time in use.
    pub utilization: f64,
}

impl Outcome {
    /// 99th percentile of the times of group `group`; `None` with fewer than [`LEAST`].
    #[must_use]
    pub fn p99(&self, group: usize) -> Option<Span> {
        let spans = &self.spans[group];
        (spans.len() >= LEAST).then(|| spans[spans.len() * 99 / 100])
    }
}

/// Least number of times that have a percentile.
pub const LEAST: usize = 100;

/// Runs the flows of `config`.
#[must_use]
pub fn run(config: &Config) -> Outcome {
    World::new(config).run()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The line has sent its packet.
    Free,
    /// The packet's acknowledgement, or the news of its loss, arrives.
    Acked(Packet),
    Lost(Packet),
    /// A flow of the group starts.
    Start(usize),
    /// A flow has its next response, or constant packet.
    Next(u32),
}

/// Sending end.
#[derive(Clone, Debug)]
struct Flow {
    group: usize,
    id: u64,
    rng: Rng,
    /// Bytes of the transfer that are to be sent, and those sent and not acknowledged.
    left: u64,
    in_flight: u64,
    /// Packets in the egress's queue.
    queued: u32,
    window: u64,
    threshold: u64,
    srtt: Span,
    reduced: Time,
    /// Start of the transfer; last packet.
    started: Time,
    last: Time,
    active: bool,
}

struct World<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    queues: EgressQueues,
    /// Packet on the line.
    on_line: Option<Packet>,
    flows: Vec<Flow>,
    unused: Vec<u32>,
    flow_count: u64,
    rngs: Vec<Rng>,
    packet_max: u32,
    busy: Span,
    spans: Vec<Vec<Span>>,
}

impl<'a> World<'a> {
    fn new(config: &'a Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let mut world = Self {
            config,
            engine: Engine::new(),
            queues: EgressQueues::new(config),
            on_line: None,
            flows: Vec::new(),
            unused: Vec::new(),
            flow_count: 0,
            rngs: (0..config.groups.len()).map(|group| rng.fork(group as u64)).collect(),
            packet_max: queues::packet_max(config),
            busy: Span::ZERO,
            spans: vec![Vec::new(); config.groups.len()],
        };
        for (number, group) in config.groups.iter().enumerate() {
            if group.kind == FlowKind::Short {
                let at = world.next_arrival(number, Time::ZERO);
                world.engine.schedule(at, Event::Start(number));
                continue;
            }
            for _ in 0..group.flows as u64 {
                let flow = world.open(number, Time::ZERO);
                let state = &mut world.flows[flow as usize];
                let wait = match group.kind {
                    FlowKind::Kept => group.pause.sample(&mut state.rng),
                    _ => Span::from_nanos(state.rng.below(10_000_000)),
                };
                let id = state.id;
                if group.sent > 0 {
                    world.queues.count(id, group.sent);
                }
                world.engine.schedule(Time::ZERO + wait, Event::Next(flow));
            }
        }
        world
    }

    fn run(mut self) -> Outcome {
        let end = Time::ZERO + self.config.duration();
        while let Some((now, event)) = self.engine.next_by(end) {
            match event {
                Event::Free => self.depart(now),
                Event::Acked(packet) => self.on_ack(now, packet),
                Event::Lost(packet) => self.on_loss(now, packet),
                Event::Start(group) => {
                    let at = self.next_arrival(group, now);
                    self.engine.schedule(at, Event::Start(group));
                    let flow = self.open(group, now);
                    self.begin(now, flow);
                }
                Event::Next(flow) => self.begin(now, flow),
            }
        }
        for flow in self.flows.iter().filter(|flow| flow.active) {
            if matches!(self.config.groups[flow.group].kind, FlowKind::Short | FlowKind::Kept) {
                self.spans[flow.group].push(end.since(flow.started));
            }
        }
        self.spans.iter_mut().for_each(|spans| spans.sort_unstable());
        let utilization = self.busy.as_secs_f64() / self.config.duration().as_secs_f64();
        Outcome { spans: self.spans, utilization }
    }

    fn next_arrival(&mut self, group: usize, now: Time) -> Time {
        let gap = self.rngs[group].exponential() / self.config.groups[group].flows.max(1e-9);
        now + Span::from_secs_f64(gap.min(1e6))
    }

    fn open(&mut self, group: usize, now: Time) -> u32 {
        self.flow_count += 1;
        let rng = self.rngs[group].fork(self.flow_count);
        let flow = Flow {
            group,
            id: self.flow_count,
            rng,
            left: 0,
            in_flight: 0,
            queued: 0,
            window: WINDOW_INITIAL,
            threshold: u64::MAX,
            srtt: self.config.groups[group].rtt,
            reduced: Time::ZERO,
            started: now,
            last: now,
            active: false,
        };
        match self.unused.pop() {
            Some(index) => {
                self.flows[index as usize] = flow;
                index
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        }
    }

    /// Begins a transfer of `flow`, or sends its next constant packet.
    fn begin(&mut self, now: Time, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let group = &self.config.groups[state.group];
        match group.kind {
            FlowKind::Constant => {
                let bytes = group.packet.min(self.packet_max);
                let gap = group.rate.time_for(Bytes::new(bytes.into()));
                self.engine.schedule(now + gap, Event::Next(flow));
                let packet = Packet::new(flow, state.id, bytes, now);
                if !self.queues.push(now, packet) {
                    // A lost packet is one that never came.
                    self.spans[state.group].push(self.config.duration());
                }
                return self.start_line(now);
            }
            FlowKind::Bulk => state.left = u64::MAX / 2,
            FlowKind::Short | FlowKind::Kept => {
                let [least, most] = group.bytes;
                let bytes = least as f64 * (most as f64 / least as f64).powf(state.rng.unit());
                state.left = bytes as u64;
            }
        }
        // Slow start after idle (RFC 5681 §4.1).
        if now.since(state.last) > IDLE_RESTART.max(state.srtt * 2) {
            state.window = state.window.min(WINDOW_INITIAL);
        }
        (state.started, state.active) = (now, true);
        self.send(now, flow);
    }

    /// Sends as much as window and queue allow.
    fn send(&mut self, now: Time, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let group = &self.config.groups[state.group];
        // Packets of a router come as they are.
        let most = if self.config.local {
            group.packet.min(self.packet_max)
        } else {
            group.packet.min(self.config.gso)
        };
        while state.left > 0
            && state.in_flight < state.window
            && !(self.config.local && state.queued >= SMALL_QUEUE)
        {
            let fits = (state.window - state.in_flight).max(MSS).min(state.left).min(most.into());
            let bytes = (fits as u32).max(PACKET_MIN);
            state.left = state.left.saturating_sub(bytes.into());
            state.in_flight += u64::from(bytes);
            state.last = now;
            let packet = Packet::new(flow, state.id, bytes, now);
            if self.queues.push(now, packet) {
                state.queued += 1;
            } else {
                self.engine.schedule(now + state.srtt, Event::Lost(packet));
            }
        }
        self.start_line(now);
    }

    fn start_line(&mut self, now: Time) {
        if self.on_line.is_none()
            && let Some(packet) = self.queues.pop(now)
        {
            let takes = self.config.rate.time_for(Bytes::new(packet.bytes.into()));
            let end = Time::ZERO + self.config.duration();
            self.busy += takes.min(end.since(now));
            self.on_line = Some(packet);
            self.engine.schedule(now + takes, Event::Free);
        }
    }

    fn depart(&mut self, now: Time) {
        let packet = self.on_line.take().expect("the line has sent a packet");
        let state = &mut self.flows[packet.flow as usize];
        let group = &self.config.groups[state.group];
        if group.kind == FlowKind::Constant {
            self.spans[state.group].push(now.since(packet.sent) + group.rtt / 2);
        } else {
            state.queued -= 1;
            self.engine.schedule(now + group.rtt, Event::Acked(packet));
            if self.config.local {
                self.send(now, packet.flow);
            }
        }
        self.start_line(now);
    }

    fn on_ack(&mut self, now: Time, packet: Packet) {
        let state = &mut self.flows[packet.flow as usize];
        let bytes = u64::from(packet.bytes).min(state.in_flight);
        let was_limited = 2 * state.in_flight >= state.window;
        state.in_flight -= bytes;
        state.srtt = (state.srtt * 7 + now.since(packet.sent)) / 8;
        if was_limited {
            state.window += match state.window < state.threshold {
                true => bytes,
                false => MSS * bytes / state.window.max(1),
            };
            state.window = state.window.min(WINDOW_MAX);
        }
        if state.left == 0 && state.in_flight == 0 {
            self.spans[state.group].push(now.since(state.started));
            state.active = false;
            let group = &self.config.groups[state.group];
            if group.kind == FlowKind::Kept {
                let pause = group.pause.sample(&mut state.rng);
                self.engine.schedule(now + pause, Event::Next(packet.flow));
            } else {
                self.unused.push(packet.flow);
            }
            return;
        }
        self.send(now, packet.flow);
    }

    fn on_loss(&mut self, now: Time, packet: Packet) {
        let state = &mut self.flows[packet.flow as usize];
        state.in_flight -= u64::from(packet.bytes);
        state.left += u64::from(packet.bytes);
        if now.since(state.reduced) >= state.srtt {
            state.reduced = now;
            state.window = (state.window * 7 / 10).max(2 * MSS);
            state.threshold = state.window;
        }
        self.send(now, packet.flow);
    }
}

const MSS: u64 = 1_448;
/// Bytes of the shortest packet.
const PACKET_MIN: u32 = 60;
/// Initial window, ten segments (RFC 6928), and the peer's receive window.
const WINDOW_INITIAL: u64 = 10 * MSS;
const WINDOW_MAX: u64 = 4 << 20;
/// Packets that a local socket keeps in the queue (TCP small queues).
const SMALL_QUEUE: u32 = 2;
/// Least pause after which a connection starts slowly again: the least retransmission timeout.
const IDLE_RESTART: Span = Span::from_millis(200);
