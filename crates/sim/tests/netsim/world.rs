//! Path, the two stacks at its ends, and their applications.
//!
//! A client requests a number of bytes on each of its connections, the server sends them, and
//! every byte is checked on arrival. A run ends when all transfers are complete and all
//! connections closed; otherwise it fails: nothing may hang.

use std::collections::BTreeMap;

use net::Stack;
use net::stack::{CloseReason, Config, ConnId, Counters, Event, EventKind, ListenOptions};
use queueing::{Rng, Span, Time};
use sim::path::{self, PathDevice};

/// Indices of client and server.
const CLIENT: usize = 0;
const SERVER: usize = 1;
const REQUEST: usize = 64;

/// Transfers of one connection: `count` responses of `bytes` each, in sequence.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub starts: Span,
    pub bytes: u64,
    pub count: u64,
}

pub struct World {
    pub now: Time,
    pub stacks: [Stack; 2],
    pub ends: [PathDevice; 2],
    start: Time,
    transfers: Vec<Transfer>,
    started: usize,
    clients: BTreeMap<ConnId, Client>,
    servers: BTreeMap<ConnId, Server>,
    /// Duration of each response per wish, once all have arrived.
    pub durations: BTreeMap<usize, Vec<Span>>,
    closed: [usize; 2],
    events: Vec<Event>,
    /// Interval over which arrivals are collected before the stacks send.
    pub batch: Span,
    sends_at: Time,
}

struct Client {
    transfer: usize,
    requested_at: Time,
    received: u64,
    answers: Vec<Span>,
}

#[derive(Default)]
struct Server {
    /// Requests received, bytes requested, bytes sent.
    requests: u64,
    requested: u64,
    sent: u64,
    peer_closed: bool,
}

/// Stream of every connection, from byte 0 on. Its period is not a power of two, so that
/// misplaced segments are detected.
pub struct Pattern(Vec<u8>);

const PERIOD: u64 = 65_521;

impl Pattern {
    fn new() -> Self {
        let mut rng = Rng::seeded(1);
        let period: Vec<u8> = (0..PERIOD).map(|_| rng.next_u64() as u8).collect();
        Self(period.repeat(2))
    }

    /// At most `len` bytes of the stream at offset `at`.
    fn at(&self, at: u64, len: u64) -> &[u8] {
        let start = (at % PERIOD) as usize;
        &self.0[start..start + len.min(PERIOD) as usize]
    }

    fn check(&self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let expected = self.at(at, bytes.len() as u64);
            assert!(bytes[..expected.len()] == *expected, "byte {at} or one soon after is wrong");
            at += expected.len() as u64;
            bytes = &bytes[expected.len()..];
        }
    }
}

impl World {
    /// Client and server with these settings at the ends of this path (server to client, client
    /// to server).
    pub fn new(
        settings: impl Fn(&mut Config),
        [down, up]: [path::Config; 2],
        seed: u64,
        transfers: &[Transfer],
    ) -> Self {
        let stack = |host: u8| {
            let mut config = Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
            settings(&mut config);
            Stack::new(config)
        };
        let start = Time::from_nanos(1_000_000_000);
        let (server, client) = path::connect(down, up, &Rng::seeded(seed));
        let mut stacks = [stack(2), stack(1)];
        stacks[SERVER].listen(80, ListenOptions::default()).expect("port 80 is free");
        Self {
            now: start,
            start,
            stacks,
            ends: [client, server],
            transfers: transfers.to_vec(),
            started: 0,
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            durations: BTreeMap::new(),
            closed: [0, 0],
            events: Vec::new(),
            batch: Span::ZERO,
            sends_at: start,
        }
    }

    /// Runs until every wish is complete and every connection closed.
    ///
    /// # Panics
    /// If that takes longer than `limit`, if nothing more will happen before, or if a byte differs.
    pub fn run(&mut self, limit: Span) {
        let done = |world: &Self| world.closed == [world.transfers.len(); 2];
        self.run_until(Time::ZERO + limit + self.now.since(Time::ZERO), done, &mut |_| {});
        assert!(
            done(self),
            "not done after {limit}: {} of {} wishes",
            self.durations.len(),
            self.transfers.len()
        );
    }

    /// Runs until `end` or until `done`; calls `observe` at every instant.
    pub fn run_until(&mut self, end: Time, done: impl Fn(&Self) -> bool, observe: &mut dyn FnMut(&Self)) {
        let pattern = Pattern::new();
        while !done(self) && self.now <= end {
            while let Some(transfer) = self.transfers.get(self.started)
                && self.start + transfer.starts <= self.now
            {
                self.start_transfer(self.started);
                self.started += 1;
            }
            self.serve(&pattern);
            if self.sends_at <= self.now {
                for (stack, end) in self.stacks.iter_mut().zip(&mut self.ends) {
                    if stack.wants_egress() {
                        stack.egress(self.now, end);
                    }
                }
                self.sends_at = self.now + self.batch;
            }
            observe(self);
            let arrivals = self.ends.iter().filter_map(PathDevice::next_arrival);
            let timeouts = self.stacks.iter().filter_map(Stack::poll_timeout);
            let transfers = self.transfers.get(self.started).map(|transfer| self.start + transfer.starts);
            let waits = self.sends_at > self.now && self.stacks.iter().any(Stack::wants_egress);
            let sends = waits.then_some(self.sends_at);
            let Some(next) = arrivals.chain(timeouts).chain(transfers).chain(sends).min() else { return };
            self.now = self.now.max(next);
            self.arrive();
        }
    }

    fn arrive(&mut self) {
        for (stack, end) in self.stacks.iter_mut().zip(&mut self.ends) {
            while stack.ingress_from(self.now, end) {}
            stack.handle_timeout(self.now);
        }
    }

    fn start_transfer(&mut self, transfer: usize) {
        let remote = "10.0.0.1:80".parse().expect("an address");
        let conn = self.stacks[CLIENT].connect(self.now, remote, None).expect("a free port");
        self.clients
            .insert(conn, Client { transfer, requested_at: self.now, received: 0, answers: Vec::new() });
    }

    fn serve(&mut self, pattern: &Pattern) {
        for side in [CLIENT, SERVER] {
            let mut events = std::mem::take(&mut self.events);
            events.extend(std::iter::from_fn(|| self.stacks[side].poll_event()));
            for event in events.drain(..) {
                match (side, event.kind) {
                    (_, EventKind::Closed(reason)) => self.on_closed(side, event.conn, reason),
                    (CLIENT, kind) => self.on_client_event(event.conn, kind, pattern),
                    (_, kind) => self.on_server_event(event.conn, kind, pattern),
                }
            }
            self.events = events;
        }
    }

    fn on_closed(&mut self, side: usize, conn: ConnId, reason: CloseReason) {
        // A last acknowledgement may be lost so often that the peer gives up or resets.
        assert!(matches!(reason, CloseReason::Finished), "side {side} closed: {reason:?}");
        self.closed[side] += 1;
        self.servers.remove(&conn);
    }

    fn on_client_event(&mut self, conn: ConnId, kind: EventKind, pattern: &Pattern) {
        let stack = &mut self.stacks[CLIENT];
        let Some(client) = self.clients.get_mut(&conn) else { return };
        let transfer = self.transfers[client.transfer];
        match kind {
            EventKind::Connected => {
                client.requested_at = self.now;
                assert_eq!(stack.send(self.now, conn, &request(transfer.bytes)), Ok(REQUEST));
            }
            EventKind::Readable { .. } => {
                let bytes = stack.received(conn);
                pattern.check(client.received, bytes);
                let len = bytes.len();
                client.received += len as u64;
                stack.consume(self.now, conn, len);
                if len == 0 || !client.received.is_multiple_of(transfer.bytes) {
                    return;
                }
                client.answers.push(self.now.since(client.requested_at));
                if client.received < transfer.bytes * transfer.count {
                    client.requested_at = self.now;
                    assert_eq!(stack.send(self.now, conn, &request(transfer.bytes)), Ok(REQUEST));
                    return;
                }
                self.durations.insert(client.transfer, std::mem::take(&mut client.answers));
                stack.close(self.now, conn);
            }
            _ => {}
        }
    }

    fn on_server_event(&mut self, conn: ConnId, kind: EventKind, pattern: &Pattern) {
        let stack = &mut self.stacks[SERVER];
        let server = self.servers.entry(conn).or_default();
        match kind {
            EventKind::Readable { .. } => {
                // Requests arrive one at a time, whole or fragmented.
                let bytes = stack.received(conn);
                let complete_len = bytes.len() / REQUEST * REQUEST;
                for request in bytes[..complete_len].chunks(REQUEST) {
                    server.requests += 1;
                    server.requested += u64::from_be_bytes(request[..8].try_into().expect("eight bytes"));
                }
                stack.consume(self.now, conn, complete_len);
            }
            EventKind::PeerClosed => server.peer_closed = true,
            _ => {}
        }
        while server.sent < server.requested {
            let bytes = pattern.at(server.sent, server.requested - server.sent);
            match stack.send(self.now, conn, bytes) {
                Ok(0) | Err(_) => return,
                Ok(accepted) => server.sent += accepted as u64,
            }
        }
        if server.peer_closed {
            stack.close(self.now, conn);
        }
    }

    /// Counters of the two stacks, the client's first.
    pub fn counters(&self) -> [&Counters; 2] {
        self.stacks.each_ref().map(Stack::counters)
    }

    /// Bytes received so far by the connection of `transfer`.
    pub fn received(&self, transfer: usize) -> u64 {
        self.clients.values().find(|client| client.transfer == transfer).map_or(0, |client| client.received)
    }
}

fn request(bytes: u64) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&bytes.to_be_bytes());
    request
}
