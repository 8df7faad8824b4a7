//! Client population behind as few source addresses as hold its connections.
//!
//! A connection keeps its slot until the server acknowledges its end, and an overloaded server
//! acknowledges late: under a flood there are many more connections than waiting clients.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use classify::{DriverClassifier, PacketView, Verdict};
use load::protocol::synthetic::{REQUEST_LEN_MIN, RESPONSE_LEN, RequestHeader};
use load::short_connections::SourcePool;
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
const CLIENT_ADDR_FIRST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
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
struct PendingClient {
    /// Index of the address.
    at: usize,
    id: ConnId,
    arrived: Time,
    /// True for the low-priority class.
    other: bool,
}

/// Arrivals of one class; the process may change once.
struct ClassArrivals {
    times: ArrivalTimes,
    next: Time,
    then: Option<(Time, ArrivalTimes)>,
    arrived: u64,
}

impl ClassArrivals {
    fn new(times: Option<ArrivalTimes>, then: Option<(Time, ArrivalTimes)>) -> Option<Self> {
        let (mut times, then) = match (times, then) {
            (Some(times), then) => (times, then),
            (None, Some((_, times))) => (times, None),
            (None, None) => return None,
        };
        Some(Self { next: times.next()?, times, then, arrived: 0 })
    }

    /// Arrival time of the next client; advances the process.
    fn take(&mut self) -> Time {
        let arrived = self.next;
        self.arrived += 1;
        self.next = self.times.next().unwrap_or(Time::MAX);
        if let Some((_, times)) = self.then.take_if(|(from, _)| *from <= self.next) {
            self.times = times;
            self.next = self.times.next().unwrap_or(Time::MAX);
        }
        arrived
    }
}

/// Implementation of [`Clients`].
pub(super) struct ClientPopulation {
    sources: SourcePool,
    classes: [Option<ClassArrivals>; 2],
    rng: Rng,
    service: Distribution,
    timeout: Span,
    starts: Time,
    ends: Time,
    now: Time,
    /// Waiting clients, by address and connection slot.
    waiting: Vec<Vec<Option<PendingClient>>>,
    /// All clients, in order of timeout.
    by_timeout: VecDeque<PendingClient>,
    /// Measured clients that still wait.
    waiting_measured: u64,
    buffer: Vec<u8>,
    /// Time at which a client first found no free connection.
    exhausted: Option<Time>,
    outcome: Outcome,
}

/// Number of addresses that hold all clients if no connection ended meanwhile, at most
/// [`ADDRESSES_MAX`].
fn addresses(config: &Config) -> usize {
    let load = config.load.max(config.surge) + config.load_others;
    let time = config.warmup + config.duration + config.timeout;
    let all = load * config.capacity_per_s() * time.as_secs_f64();
    ((all / config.connections_max as f64).ceil() as usize).clamp(1, ADDRESSES_MAX)
}

/// TCP stack of address number `n`.
fn tcp(config: &Config, n: usize) -> net::stack::Config {
    let addr = Ipv4Addr::from_bits(CLIENT_ADDR_FIRST.to_bits() + n as u32);
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

impl ClientPopulation {
    pub(super) fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let addresses = addresses(config);
        let times = |load, from, n| Some(config.arrivals(load)?.times(from, rng.fork(n)));
        let surge_end = Time::ZERO + config.surge_until;
        let first = ClassArrivals::new(
            times(config.surge, Time::ZERO, 3),
            times(config.load, surge_end, 0).map(|times| (surge_end, times)),
        );
        let others = ClassArrivals::new(times(config.load_others, Time::ZERO, 1), None);
        Self {
            sources: SourcePool::new((0..addresses).map(|n| tcp(config, n)).collect()),
            classes: [first, others],
            rng: rng.fork(2),
            service: config.service,
            timeout: config.timeout,
            starts: Time::ZERO + config.warmup,
            ends: Time::ZERO + config.warmup + config.duration,
            now: Time::ZERO,
            waiting: vec![Vec::new(); addresses],
            by_timeout: VecDeque::new(),
            waiting_measured: 0,
            buffer: Vec::new(),
            exhausted: None,
            outcome: Outcome::default(),
        }
    }

    /// Result; or the number of addresses that were full, and since when.
    pub(super) fn into_outcome(self) -> Result<Outcome, (usize, Time)> {
        match self.exhausted {
            Some(since) => Err((self.waiting.len(), since)),
            None => Ok(self.outcome),
        }
    }

    fn is_measured(&self, client: &PendingClient) -> bool {
        (self.starts..self.ends).contains(&client.arrived)
    }

    /// Starts the clients due by `now`.
    fn start_due(&mut self, now: Time) -> bool {
        let mut any = false;
        for other in [false, true] {
            while let Some(class) =
                self.classes[usize::from(other)].as_mut().filter(|class| class.next <= now)
            {
                let port = PORT_MIN + u16::from(other) * PORTS + (class.arrived % u64::from(PORTS)) as u16;
                let arrived = class.take();
                self.connect(now, arrived, other, SocketAddr::new(SERVER.into(), port));
                any = true;
            }
        }
        any
    }

    fn connect(&mut self, now: Time, arrived: Time, other: bool, target: SocketAddr) {
        let Some((at, id)) = self.sources.connect(now, target) else {
            self.exhausted.get_or_insert(now);
            return;
        };
        let client = PendingClient { at, id, arrived, other };
        let (waiting, index) = (&mut self.waiting[at], id.index as usize);
        if waiting.len() <= index {
            waiting.resize(index + 1, None);
        }
        waiting[index] = Some(client);
        self.by_timeout.push_back(client);
        if self.is_measured(&client) {
            self.waiting_measured += 1;
            if other { self.outcome.others.0 += 1 } else { self.outcome.offered += 1 }
        }
    }

    /// Removes the client of connection `id` at address `at` from the waiting ones.
    fn remove(&mut self, at: usize, id: ConnId) -> Option<PendingClient> {
        let slot = self.waiting[at].get_mut(id.index as usize)?;
        let client = slot.take_if(|client| client.id == id)?;
        self.waiting_measured -= u64::from(self.is_measured(&client));
        Some(client)
    }

    fn on_event(&mut self, now: Time, at: usize, event: Event) {
        let id = event.conn;
        match event.kind {
            EventKind::Connected => {
                let service = self.service.sample(&mut self.rng);
                let (priority, length) = (Priority::LOWEST, REQUEST_LEN_MIN as u32);
                self.buffer.clear();
                RequestHeader { id: 0, kind: 0, priority, length, service }.encode(&mut self.buffer);
                let _ = self.sources.stack(at).send(now, id, &self.buffer);
            }
            EventKind::Readable { .. } => {
                let stack = self.sources.stack(at);
                let got = stack.received(id).len();
                if got >= RESPONSE_LEN {
                    stack.consume(now, id, got);
                    stack.detach(now, id);
                    self.answered(now, at, id);
                }
            }
            EventKind::Closed(reason) => {
                let measured = self.remove(at, id).is_some_and(|client| self.is_measured(&client));
                let refused = measured && matches!(reason, CloseReason::Reset);
                self.outcome.refused += u64::from(refused);
            }
            EventKind::PeerClosed => self.sources.stack(at).close(now, id),
            _ => {}
        }
    }

    fn answered(&mut self, now: Time, at: usize, id: ConnId) {
        let Some(client) = self.remove(at, id) else { return };
        if !self.is_measured(&client) {
            return;
        }
        if client.other {
            self.outcome.others.1 += 1;
        } else {
            self.outcome.in_time += 1;
            self.outcome.latency.record(now.since(client.arrived));
        }
    }

    /// Closes the connections of clients that have timed out.
    fn time_out(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&PendingClient { at, id, arrived, .. }) = self.by_timeout.front()
            && arrived + self.timeout <= now
        {
            self.by_timeout.pop_front();
            if self.remove(at, id).is_some() {
                // Released: a connection kept open would send keep-alive probes.
                self.sources.stack(at).detach(now, id);
                any = true;
            }
        }
        any
    }
}

impl Clients for ClientPopulation {
    fn step(&mut self, now: Time, device: &mut SimDevice) -> bool {
        self.now = now;
        self.sources.run_timers(now);
        let mut any = self.sources.receive(now, device, 1);
        while let Some((at, event)) = self.sources.event() {
            self.on_event(now, at, event);
        }
        any |= self.start_due(now);
        any |= self.time_out(now);
        any | self.sources.send(now, device)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let arrivals = self.classes.iter().flatten().map(|class| class.next);
        let timeouts = self.by_timeout.front().map(|client| client.arrived + self.timeout);
        let blocked = self.sources.wants_egress().then(|| self.now + Span::from_micros(1));
        arrivals.chain(timeouts).chain(self.sources.poll_timeout()).chain(blocked).min()
    }

    fn started(&self) -> Option<Time> {
        (self.now >= self.starts).then_some(self.starts)
    }

    fn is_done(&self) -> bool {
        self.exhausted.is_some() || self.now >= self.ends && self.waiting_measured == 0
    }
}
