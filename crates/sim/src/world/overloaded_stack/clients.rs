//! Client population behind as few source addresses as hold its connections.
//!
//! A connection keeps its slot until the server acknowledges its end, and an overloaded server
//! acknowledges late: under a flood there are many more connections than waiting clients.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use load::protocol::synthetic::{REQUEST_LEN_MIN, RESPONSE_LEN, Request};
use load::short_connections::SourcePool;
use net::classify::{DriverClassifier, PacketView, Verdict};
use net::stack::CloseReason;
use net::{ConnId, Event, EventKind};
use queueing::{ArrivalTimes, Distribution, Priority, Rng, Span, Time};

use super::{Config, Outcome};
use crate::SimDevice;
use crate::world::server::Clients;
use crate::world::server::config::{CLIENT_RTO_MIN, PORT_MIN, SERVER, stack};

/// Listening ports: enough port pairs for all connections.
pub(super) fn ports() -> impl Iterator<Item = u16> {
    PORT_MIN..PORT_MIN + 2 * PORTS
}

/// Ports per client class; each has 28,232 source ports per address. Ports and source ports are
/// both used in rotation and 127 shares no divisor with their number, so that a pair recurs
/// only after 3.5 million connections per address. A pair that recurs earlier meets TIME-WAIT
/// state at the server, which costs unmodelled frames.
const PORTS: u16 = 127;

/// First client address; the others follow.
const CALLERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// Maximum number of addresses: eight million connections, some gigabytes.
const ADDRESSES_MAX: usize = 8;

/// Distinguishes the two client classes by destination port.
pub(super) fn classifier() -> DriverClassifier {
    Arc::new(|packet: &PacketView<'_>| match packet.tcp_ports() {
        Some((_, target)) if target >= PORT_MIN + PORTS => Verdict::Level(Priority::LOWEST.level()),
        _ => Verdict::Level(Priority::HIGHEST.level()),
    })
}

/// Client without an answer.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Index of the address.
    at: usize,
    id: ConnId,
    came: Time,
    /// True for the low-priority class.
    other: bool,
}

/// Arrivals of one class; the process may change once.
struct Kind {
    times: ArrivalTimes,
    next: Time,
    then: Option<(Time, ArrivalTimes)>,
    came: u64,
}

impl Kind {
    fn new(times: Option<ArrivalTimes>, then: Option<(Time, ArrivalTimes)>) -> Option<Self> {
        let (mut times, then) = match (times, then) {
            (Some(times), then) => (times, then),
            (None, Some((_, times))) => (times, None),
            (None, None) => return None,
        };
        Some(Self { next: times.next()?, times, then, came: 0 })
    }

    /// Arrival time of the next client; advances the process.
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

/// Implementation of [`Clients`].
pub(super) struct Callers {
    crowd: SourcePool,
    kinds: [Option<Kind>; 2],
    draws: Rng,
    service: Distribution,
    patience: Span,
    starts: Time,
    ends: Time,
    now: Time,
    /// Waiting clients, by address and connection slot.
    calls: Vec<Vec<Option<Call>>>,
    /// All clients, in order of timeout.
    leaving: VecDeque<Call>,
    /// Measured clients that still wait.
    counted: u64,
    buffer: Vec<u8>,
    /// Time at which a client first found no free connection.
    full: Option<Time>,
    outcome: Outcome,
}

/// Number of addresses that hold all clients if no connection ended meanwhile, at most
/// [`ADDRESSES_MAX`].
fn addresses(config: &Config) -> usize {
    let load = config.load.max(config.surge) + config.load_others;
    let time = config.warmup + config.duration + config.patience;
    let all = load * config.capacity_per_s() * time.as_secs_f64();
    ((all / config.connections_max as f64).ceil() as usize).clamp(1, ADDRESSES_MAX)
}

/// TCP stack of address number `n`.
fn tcp(config: &Config, n: usize) -> net::stack::Config {
    let addr = Ipv4Addr::from_bits(CALLERS.to_bits() + n as u32);
    let mut tcp = stack(addr, config.seed);
    tcp.rto_min = CLIENT_RTO_MIN;
    // A late acknowledgement shall cause no retransmission.
    tcp.rack = false;
    // An address stands for many hosts: its ports are reused quickly.
    tcp.time_wait = Span::from_millis(1);
    tcp.fin_wait = Span::from_millis(200);
    tcp.connections_max = config.connections_max;
    tcp
}

impl Callers {
    pub(super) fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let addresses = addresses(config);
        let times = |load, from, n| Some(config.arrivals(load)?.times(from, rng.fork(n)));
        let calm = Time::ZERO + config.surge_until;
        let first = Kind::new(
            times(config.surge, Time::ZERO, 3),
            times(config.load, calm, 0).map(|times| (calm, times)),
        );
        let others = Kind::new(times(config.load_others, Time::ZERO, 1), None);
        Self {
            crowd: SourcePool::new((0..addresses).map(|n| tcp(config, n)).collect()),
            kinds: [first, others],
            draws: rng.fork(2),
            service: config.service,
            patience: config.patience,
            starts: Time::ZERO + config.warmup,
            ends: Time::ZERO + config.warmup + config.duration,
            now: Time::ZERO,
            calls: vec![Vec::new(); addresses],
            leaving: VecDeque::new(),
            counted: 0,
            buffer: Vec::new(),
            full: None,
            outcome: Outcome::default(),
        }
    }

    /// Result; or the number of addresses that were full, and since when.
    pub(super) fn into_outcome(self) -> Result<Outcome, (usize, Time)> {
        match self.full {
            Some(since) => Err((self.calls.len(), since)),
            None => Ok(self.outcome),
        }
    }

    fn counts(&self, call: &Call) -> bool {
        (self.starts..self.ends).contains(&call.came)
    }

    /// Starts the clients due by `now`.
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
        let Some((at, id)) = self.crowd.connect(now, target) else {
            self.full.get_or_insert(now);
            return;
        };
        let call = Call { at, id, came, other };
        let (calls, index) = (&mut self.calls[at], id.index as usize);
        if calls.len() <= index {
            calls.resize(index + 1, None);
        }
        calls[index] = Some(call);
        self.leaving.push_back(call);
        if self.counts(&call) {
            self.counted += 1;
            if other { self.outcome.others.0 += 1 } else { self.outcome.offered += 1 }
        }
    }

    /// Removes the client of connection `id` at address `at` from the waiting ones.
    fn settle(&mut self, at: usize, id: ConnId) -> Option<Call> {
        let place = self.calls[at].get_mut(id.index as usize)?;
        let call = place.take_if(|call| call.id == id)?;
        self.counted -= u64::from(self.counts(&call));
        Some(call)
    }

    fn on_event(&mut self, now: Time, at: usize, event: Event) {
        let id = event.conn;
        match event.kind {
            EventKind::Connected => {
                let service = self.service.sample(&mut self.draws);
                let (priority, length) = (Priority::LOWEST, REQUEST_LEN_MIN as u32);
                self.buffer.clear();
                Request { id: 0, kind: 0, priority, length, service }.encode(&mut self.buffer);
                let _ = self.crowd.stack(at).send(now, id, &self.buffer);
            }
            EventKind::Readable { .. } => {
                let stack = self.crowd.stack(at);
                let got = stack.received(id).len();
                if got >= RESPONSE_LEN {
                    stack.consume(now, id, got);
                    stack.detach(now, id);
                    self.answered(now, at, id);
                }
            }
            EventKind::Closed(reason) => {
                let counted = self.settle(at, id).is_some_and(|call| self.counts(&call));
                let refused = counted && matches!(reason, CloseReason::Reset);
                self.outcome.refused += u64::from(refused);
            }
            EventKind::PeerClosed => self.crowd.stack(at).close(now, id),
            _ => {}
        }
    }

    fn answered(&mut self, now: Time, at: usize, id: ConnId) {
        let Some(call) = self.settle(at, id) else { return };
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

    /// Closes the connections of clients that have timed out.
    fn leave(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&Call { at, id, came, .. }) = self.leaving.front()
            && came + self.patience <= now
        {
            self.leaving.pop_front();
            if self.settle(at, id).is_some() {
                // Released: a connection kept open would send keep-alive probes.
                self.crowd.stack(at).detach(now, id);
                any = true;
            }
        }
        any
    }
}

impl Clients for Callers {
    fn step(&mut self, now: Time, device: &mut SimDevice) -> bool {
        self.now = now;
        self.crowd.run_timers(now);
        let mut any = self.crowd.receive(now, device, 1);
        while let Some((at, event)) = self.crowd.event() {
            self.on_event(now, at, event);
        }
        any |= self.come(now);
        any |= self.leave(now);
        any | self.crowd.send(now, device)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let comes = self.kinds.iter().flatten().map(|kind| kind.next);
        let leaves = self.leaving.front().map(|call| call.came + self.patience);
        let blocked = self.crowd.wants_egress().then(|| self.now + Span::from_micros(1));
        comes.chain(leaves).chain(self.crowd.poll_timeout()).chain(blocked).min()
    }

    fn started(&self) -> Option<Time> {
        (self.now >= self.starts).then_some(self.starts)
    }

    fn is_done(&self) -> bool {
        self.full.is_some() || self.now >= self.ends && self.counted == 0
    }
}
