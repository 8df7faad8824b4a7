//! Everybody who calls, behind one address.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use load::protocol::synthetic::{REQUEST_LEN_MIN, RESPONSE_LEN, Request};
use net::classify::{DriverClassifier, PacketView, Verdict};
use net::stack::CloseReason;
use net::{ConnId, Event, EventKind, Stack};
use queueing::{Law, Priority, Rng, Span, Time, Times};

use super::{Config, Outcome};
use crate::SimDevice;
use crate::world::server::Clients;
use crate::world::server::config::{CLIENT, CLIENT_RTO_MIN, PORT_MIN, SERVER, stack};

/// Where the server listens: enough pairs of ports for all who are under way.
pub(super) fn ports() -> impl Iterator<Item = u16> {
    PORT_MIN..PORT_MIN + 2 * PORTS
}

/// Ports for each kind of callers, each with 28,232 of the client's. Both are
/// taken in turn, so this shares no divisor with that: then no pair comes again
/// before all have come, 3.5 million. Who meets what the server remembers of a
/// caller before it costs frames that nobody reckons with.
const PORTS: u16 = 127;

/// Tells both kinds of callers apart by the port that they call.
pub(super) fn classifier() -> DriverClassifier {
    Arc::new(|packet: &PacketView<'_>| match packet.tcp_ports() {
        Some((_, target)) if target >= PORT_MIN + PORTS => Verdict::Level(Priority::LOWEST.level()),
        _ => Verdict::Level(Priority::HIGHEST.level()),
    })
}

/// A caller who has no answer.
#[derive(Clone, Copy, Debug)]
struct Call {
    id: ConnId,
    came: Time,
    /// Of the second kind.
    other: bool,
}

/// Those who come by one law, and by another from an instant on.
struct Kind {
    times: Times,
    next: Time,
    then: Option<(Time, Times)>,
    came: u64,
}

impl Kind {
    fn new(times: Option<Times>, then: Option<(Time, Times)>) -> Option<Self> {
        let (mut times, then) = match (times, then) {
            (Some(times), then) => (times, then),
            (None, Some((_, times))) => (times, None),
            (None, None) => return None,
        };
        Some(Self { next: times.next()?, times, then, came: 0 })
    }

    /// When this one came; the next one's time follows.
    fn take(&mut self) -> Time {
        let came = self.next;
        self.came += 1;
        self.next = self.times.next().unwrap_or(Time::MAX);
        if let Some((_, times)) = self.then.take_if(|(from, _)| *from <= self.next) {
            self.times = times;
            self.next = self.times.next().unwrap_or(Time::MAX);
        }
        came
    }
}

/// See the module.
pub(super) struct Callers {
    stack: Stack,
    kinds: [Option<Kind>; 2],
    draws: Rng,
    service: Law,
    patience: Span,
    starts: Time,
    ends: Time,
    now: Time,
    /// Those who wait, by their connection's slot.
    calls: Vec<Option<Call>>,
    /// Everybody in the order in which patience ends.
    leaving: VecDeque<Call>,
    /// Callers who count and still wait.
    counted: u64,
    buffer: Vec<u8>,
    outcome: Outcome,
}

impl Callers {
    pub(super) fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let mut tcp = stack(CLIENT, config.seed);
        tcp.rto_min = CLIENT_RTO_MIN;
        // An acknowledgement that is late makes nobody send more.
        tcp.rack = false;
        // Many hosts' callers stand behind this address: none waits for its port.
        tcp.time_wait = Span::from_millis(1);
        tcp.fin_wait = Span::from_millis(200);
        let times = |load, from, n| Some(config.arrivals(load)?.times(from, rng.fork(n)));
        let calm = Time::ZERO + config.surge_until;
        let first = Kind::new(
            times(config.surge, Time::ZERO, 3),
            times(config.load, calm, 0).map(|times| (calm, times)),
        );
        let others = Kind::new(times(config.load_others, Time::ZERO, 1), None);
        Self {
            stack: Stack::new(tcp),
            kinds: [first, others],
            draws: rng.fork(2),
            service: config.service,
            patience: config.patience,
            starts: Time::ZERO + config.warmup,
            ends: Time::ZERO + config.warmup + config.duration,
            now: Time::ZERO,
            calls: Vec::new(),
            leaving: VecDeque::new(),
            counted: 0,
            buffer: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    fn counts(&self, call: &Call) -> bool {
        (self.starts..self.ends).contains(&call.came)
    }

    /// Lets those come whose time it is.
    fn come(&mut self, now: Time) -> bool {
        let mut any = false;
        for other in [false, true] {
            while let Some(kind) = self.kinds[usize::from(other)].as_mut().filter(|kind| kind.next <= now) {
                let port = PORT_MIN + u16::from(other) * PORTS + (kind.came % u64::from(PORTS)) as u16;
                let came = kind.take();
                self.call(now, came, other, SocketAddr::new(SERVER.into(), port));
                any = true;
            }
        }
        any
    }

    fn call(&mut self, now: Time, came: Time, other: bool, target: SocketAddr) {
        let Ok(id) = self.stack.connect(now, target, None) else {
            panic!("{} callers are under way: more than {CLIENT} has ports for", self.leaving.len())
        };
        let call = Call { id, came, other };
        let index = id.index as usize;
        if self.calls.len() <= index {
            self.calls.resize(index + 1, None);
        }
        self.calls[index] = Some(call);
        self.leaving.push_back(call);
        if self.counts(&call) {
            self.counted += 1;
            if other { self.outcome.others.0 += 1 } else { self.outcome.offered += 1 }
        }
    }

    /// The caller of `id`, who waits no longer.
    fn settle(&mut self, id: ConnId) -> Option<Call> {
        let place = self.calls.get_mut(id.index as usize)?;
        let call = place.take_if(|call| call.id == id)?;
        self.counted -= u64::from(self.counts(&call));
        Some(call)
    }

    fn on_event(&mut self, now: Time, event: Event) {
        let id = event.conn;
        match event.kind {
            EventKind::Connected => {
                let service = self.service.sample(&mut self.draws);
                let (priority, length) = (Priority::LOWEST, REQUEST_LEN_MIN as u32);
                self.buffer.clear();
                Request { id: 0, kind: 0, priority, length, service }.encode(&mut self.buffer);
                let _ = self.stack.send(now, id, &self.buffer);
            }
            EventKind::Readable { .. } => {
                let got = self.stack.received(id).len();
                if got >= RESPONSE_LEN {
                    self.stack.consume(now, id, got);
                    self.stack.close(now, id);
                    self.answered(now, id);
                }
            }
            EventKind::Closed(reason) => {
                let counted = self.settle(id).is_some_and(|call| self.counts(&call));
                let refused = counted && matches!(reason, CloseReason::Reset);
                self.outcome.refused += u64::from(refused);
            }
            EventKind::PeerClosed => self.stack.close(now, id),
            _ => {}
        }
    }

    fn answered(&mut self, now: Time, id: ConnId) {
        let Some(call) = self.settle(id) else { return };
        if !self.counts(&call) {
            return;
        }
        if call.other {
            self.outcome.others.1 += 1;
        } else {
            self.outcome.in_time += 1;
            self.outcome.latency.record(now.since(call.came));
        }
    }

    /// Lets those leave whose patience ends.
    fn leave(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&Call { id, came, .. }) = self.leaving.front()
            && came + self.patience <= now
        {
            self.leaving.pop_front();
            if self.settle(id).is_some() {
                self.stack.close(now, id);
                any = true;
            }
        }
        any
    }
}

impl Clients for Callers {
    fn step(&mut self, now: Time, device: &mut SimDevice) -> bool {
        self.now = now;
        if self.stack.poll_timeout().is_some_and(|due| due <= now) {
            self.stack.handle_timeout(now);
        }
        let mut any = self.stack.ingress_from(now, device);
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, event);
        }
        any |= self.come(now);
        any |= self.leave(now);
        any | (self.stack.wants_egress() && self.stack.egress(now, device) > 0)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let comes = self.kinds.iter().flatten().map(|kind| kind.next);
        let leaves = self.leaving.front().map(|call| call.came + self.patience);
        let blocked = self.stack.wants_egress().then(|| self.now + Span::from_micros(1));
        comes.chain(leaves).chain(self.stack.poll_timeout()).chain(blocked).min()
    }

    fn started(&self) -> Option<Time> {
        (self.now >= self.starts).then_some(self.starts)
    }

    fn is_done(&self) -> bool {
        self.now >= self.ends && self.counted == 0
    }
}
