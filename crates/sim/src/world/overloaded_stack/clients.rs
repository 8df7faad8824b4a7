//! Everybody who calls, behind as few addresses as hold them.
//!
//! A connection whose last word the server has not confirmed keeps its place, and
//! a server that drops what it cannot receive confirms late: under a flood there
//! are many times more connections than callers who wait.

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

/// Where the server listens: enough pairs of ports for all who are under way.
pub(super) fn ports() -> impl Iterator<Item = u16> {
    PORT_MIN..PORT_MIN + 2 * PORTS
}

/// Ports for each kind of callers, each with 28,232 of an address of theirs. All
/// three are taken in turn, so this shares no divisor with the others: then no
/// pair comes again before all have come, 3.5 million for each address. Who meets
/// what the server remembers of a caller before it costs frames that nobody
/// reckons with.
const PORTS: u16 = 127;

/// The first address of the callers'; the others follow.
const CALLERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// Addresses of theirs at the most: eight million connections, some gigabytes.
const ADDRESSES_MAX: usize = 8;

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
    /// Behind which address.
    at: usize,
    id: ConnId,
    came: Time,
    /// Of the second kind.
    other: bool,
}

/// Those who come by one law, and by another from an instant on.
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
    crowd: SourcePool,
    kinds: [Option<Kind>; 2],
    draws: Rng,
    service: Distribution,
    patience: Span,
    starts: Time,
    ends: Time,
    now: Time,
    /// Those who wait, by their address, and by their connection's slot there.
    calls: Vec<Vec<Option<Call>>>,
    /// Everybody in the order in which patience ends.
    leaving: VecDeque<Call>,
    /// Callers who count and still wait.
    counted: u64,
    buffer: Vec<u8>,
    /// Since when one came who found no place.
    full: Option<Time>,
    outcome: Outcome,
}

/// Addresses that have a place for everybody who comes, if no connection ended
/// before all have; fewer where that are too many, which mostly do as well.
fn addresses(config: &Config) -> usize {
    let load = config.load.max(config.surge) + config.load_others;
    let time = config.warmup + config.duration + config.patience;
    let all = load * config.capacity_per_s() * time.as_secs_f64();
    ((all / config.connections_max as f64).ceil() as usize).clamp(1, ADDRESSES_MAX)
}

/// The stack behind the `n`-th address.
fn tcp(config: &Config, n: usize) -> net::stack::Config {
    let addr = Ipv4Addr::from_bits(CALLERS.to_bits() + n as u32);
    let mut tcp = stack(addr, config.seed);
    tcp.rto_min = CLIENT_RTO_MIN;
    // An acknowledgement that is late makes nobody send more.
    tcp.rack = false;
    // Many hosts' callers stand behind an address: none waits for its port.
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

    /// What became of them; or how many addresses were full, and since when.
    pub(super) fn into_outcome(self) -> Result<Outcome, (usize, Time)> {
        match self.full {
            Some(since) => Err((self.calls.len(), since)),
            None => Ok(self.outcome),
        }
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

    /// The caller of `id` behind address `at`, who waits no longer.
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
                    stack.release(now, id);
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

    /// Lets those leave whose patience ends.
    fn leave(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&Call { at, id, came, .. }) = self.leaving.front()
            && came + self.patience <= now
        {
            self.leaving.pop_front();
            if self.settle(at, id).is_some() {
                // Let go: who holds on would ask time and again whether the server lives.
                self.crowd.stack(at).release(now, id);
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
