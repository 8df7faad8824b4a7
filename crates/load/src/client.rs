//! Open-loop load client on greenwave's own stack.
//!
//! Pure: the caller passes time and device, so the same client runs on a thread and in the
//! simulator. Latency counts from the time a request was *due*. Requests are pipelined on busy
//! connections; the server answers in order.
//!
//! A local address has 28,232 ephemeral ports per target port. Up to that many connections per
//! target the stack selects the local port. Above it the client assigns ports from 1024 on, up
//! to 64,512 per target; more are an error.

mod error;

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::CloseReason;
use net::{ConnId, Device, Event, EventKind, Stack};
use queueing::{Span, Time};

pub use error::ClientError;

use crate::connect_error::{RETRY_AFTER, ended, not_begun};
use crate::in_flight::InFlightTable;
use crate::plan::Plan;
use crate::protocol::synthetic::{self, TimedResponse};
use crate::record::ServerStages;
use crate::report::Report;
use crate::request_encoder::RequestEncoder;

/// Maximum number of connections from one local address to one target.
pub const PORTS_PER_TARGET: u32 = 64_512;
const EPHEMERAL_PORTS: u32 = 28_232;
const LOCAL_PORT_MIN: u32 = 1024;

/// Maximum number of concurrent handshakes.
const OPENING_MAX: usize = 256;
/// Maximum number of frames received, and of requests started, per step.
const BATCH: usize = 64;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Open connections.
    pub open: u32,
    /// Connections of the plan.
    pub connections: u32,
    /// Requests due so far.
    pub due: u64,
    /// Requests answered or timed out.
    pub settled: u64,
    /// p99.9 of requests answered since the last progress report, on the kernel's sockets;
    /// zero if there are none.
    pub tail: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Conn {
    Closed,
    Opening(ConnId),
    Open(ConnId),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Opens connections, until all are open or the deadline, which the first step sets.
    Opening(Option<Time>),
    /// Sends requests, since this time.
    Running(Time),
    Done,
}

/// Load client for a plan's synthetic requests over a [`Stack`].
pub struct Client {
    stack: Stack,
    targets: Vec<SocketAddr>,
    encoder: RequestEncoder,
    open_within: Span,
    phase: Phase,
    started: Option<Time>,
    in_flight: InFlightTable,
    conns: Vec<Conn>,
    /// Connection of each slot of the stack.
    owners: Vec<u32>,
    /// Connections to open, and the earliest time to do so.
    reconnect_queue: VecDeque<(Time, u32)>,
    opening: usize,
    open: u32,
    reconnects: u64,
    garbled: u64,
    seed: u64,
    last_error: String,
    error: Option<ClientError>,
    stepped: Time,
}

impl Client {
    /// Client for one `target`.
    ///
    /// # Errors
    /// If the plan is invalid or has more connections than there are ports.
    pub fn new(plan: &Plan, stack: net::stack::Config, target: SocketAddr) -> Result<Self, ClientError> {
        Self::with_targets(plan, stack, vec![target])
    }

    /// Client with connections spread over `targets`.
    ///
    /// # Errors
    /// The errors of [`Client::new`].
    ///
    /// # Panics
    /// If `targets` is empty.
    pub fn with_targets(
        plan: &Plan,
        stack: net::stack::Config,
        targets: Vec<SocketAddr>,
    ) -> Result<Self, ClientError> {
        assert!(!targets.is_empty(), "targets is empty; give at least one");
        plan.validate()?;
        let connections = plan.connections;
        let max = PORTS_PER_TARGET.saturating_mul(targets.len() as u32);
        if connections > max {
            return Err(ClientError::Ports { connections, max });
        }
        Ok(Self {
            stack: Stack::new(stack),
            targets,
            encoder: RequestEncoder::new(plan),
            open_within: Span::from_secs(30),
            phase: Phase::Opening(None),
            started: None,
            in_flight: InFlightTable::new(plan),
            conns: vec![Conn::Closed; connections as usize],
            owners: Vec::new(),
            reconnect_queue: (0..connections).map(|conn| (Time::ZERO, conn)).collect(),
            opening: 0,
            open: 0,
            reconnects: 0,
            garbled: 0,
            seed: plan.seed,
            last_error: "no answer".to_owned(),
            error: None,
            stepped: Time::ZERO,
        })
    }

    /// Sets the time limit for opening all connections; default 30 s.
    pub fn open_within(&mut self, span: Span) {
        self.open_within = span;
    }

    /// Handles everything due at `now`; `false` if there was nothing to do.
    pub fn step<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        self.stepped = now;
        let mut busy = self.receive(now, device);
        if self.stack.poll_timeout().is_some_and(|due| due <= now) {
            self.stack.handle_timeout(now);
            busy = true;
        }
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, event);
            busy = true;
        }
        if self.phase != Phase::Done {
            busy |= self.open_more(now);
        }
        match self.phase {
            Phase::Opening(None) => self.phase = Phase::Opening(Some(now + self.open_within)),
            Phase::Opening(_) if self.open as usize == self.conns.len() => {
                self.phase = Phase::Running(now);
                self.started = Some(now);
                busy = true;
            }
            Phase::Opening(Some(end)) if now >= end => {
                let (open, connections) = (self.open, self.conns.len() as u32);
                self.error = Some(ClientError::Opening { open, connections, why: self.last_error.clone() });
                self.phase = Phase::Done;
            }
            Phase::Running(start) => {
                let since = Time::ZERO + now.since(start);
                busy |= self.in_flight.expire(since);
                for _ in 0..BATCH {
                    let Some(conn) = self.in_flight.enqueue_due(since) else { break };
                    self.send(now, conn);
                    busy = true;
                }
                if self.in_flight.is_done() {
                    self.phase = Phase::Done;
                }
            }
            Phase::Opening(_) | Phase::Done => {}
        }
        if self.stack.wants_egress() {
            busy |= self.stack.egress(now, device) > 0;
        }
        busy
    }

    /// Time of the next call of `step` if no frame arrives.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let own = match self.phase {
            Phase::Opening(None) => Some(Time::ZERO),
            Phase::Opening(end) => end,
            Phase::Running(start) => {
                let next = self.in_flight.next_due().into_iter().chain(self.in_flight.next_expiry()).min();
                next.map(|t| start + t.since(Time::ZERO))
            }
            Phase::Done => None,
        };
        let reopen = (self.phase != Phase::Done && self.opening < OPENING_MAX)
            .then(|| self.reconnect_queue.front().map(|&(due, _)| due))
            .flatten();
        // The device was full: try again soon.
        let blocked = self.stack.wants_egress().then(|| self.stepped + Span::from_micros(1));
        [own, reopen, blocked, self.stack.poll_timeout()].into_iter().flatten().min()
    }

    /// True if every request was answered or timed out, or the run could not start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Error because of which the run could not start.
    #[must_use]
    pub fn error(&self) -> Option<&ClientError> {
        self.error.as_ref()
    }

    /// Time zero of due times; `None` while connections open.
    #[must_use]
    pub const fn started(&self) -> Option<Time> {
        self.started
    }

    /// Progress of the run.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (due, settled) = self.in_flight.progress();
        Progress { open: self.open, connections: self.conns.len() as u32, due, settled, tail: Span::ZERO }
    }

    /// Ends the run now; requests in flight count as unanswered or never sent.
    pub fn stop(&mut self) {
        self.in_flight.abandon();
        self.phase = Phase::Done;
    }

    /// Resets all connections; `step` sends the RST segments.
    pub fn reset_all(&mut self, now: Time) {
        for conn in &mut self.conns {
            if let Conn::Open(id) | Conn::Opening(id) = std::mem::replace(conn, Conn::Closed) {
                self.stack.abort(now, id);
            }
        }
        (self.open, self.opening) = (0, 0);
        self.reconnect_queue.clear();
    }

    /// Report so far; `world` is the environment.
    #[must_use]
    pub fn report(&self, world: &str) -> Report {
        Report {
            world: world.to_owned(),
            seed: self.seed,
            machine: None,
            reconnects: self.reconnects,
            garbled: self.garbled,
            classes: self.in_flight.report(),
            pace: self.in_flight.pace(),
        }
    }

    /// The stack, for its counters and flows.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    fn receive<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        for received in 0..BATCH {
            if !self.stack.ingress_from(now, device) {
                return received > 0;
            }
        }
        true
    }

    fn on_event(&mut self, now: Time, event: Event) {
        let Some(&conn) = self.owners.get(event.conn.index as usize) else { return };
        let Some(&state) = self.conns.get(conn as usize) else { return };
        match (state, event.kind) {
            (Conn::Opening(id), EventKind::Connected) if id == event.conn => {
                self.conns[conn as usize] = Conn::Open(id);
                self.opening -= 1;
                self.open += 1;
                self.send(now, conn);
            }
            (Conn::Opening(id), EventKind::Closed(reason)) if id == event.conn => {
                self.opening -= 1;
                self.closed(now, conn, reason);
            }
            (Conn::Open(id), kind) if id == event.conn => match kind {
                EventKind::Readable { .. } => self.read(now, conn, id, event.received),
                EventKind::Writable => self.send(now, conn),
                EventKind::PeerClosed => {
                    self.stack.close(now, id);
                    self.open -= 1;
                    self.closed(now, conn, CloseReason::Finished);
                }
                EventKind::Closed(reason) => {
                    self.open -= 1;
                    self.closed(now, conn, reason);
                }
                EventKind::Connected | EventKind::Accepted(_) => {}
            },
            // Event of an earlier connection in this slot.
            _ => {}
        }
    }

    fn read(&mut self, now: Time, conn: u32, id: ConnId, received: Time) {
        let Phase::Running(start) = self.phase else {
            let stray = self.stack.received(id).len();
            return self.stack.consume(now, id, stray);
        };
        let at = Time::ZERO + received.since(start);
        let (consumed, valid) = synthetic::responses(self.stack.received(id), |response| {
            let TimedResponse { id, nic, tcp, event, service, .. } = response;
            self.in_flight.answered(conn, Some(id), at, ServerStages { nic, tcp, event, service }).is_ok()
        });
        if !valid {
            self.garbled += 1;
            self.stack.abort(now, id);
            self.open -= 1;
            self.closed(now, conn, CloseReason::Aborted);
        } else if consumed > 0 {
            self.stack.consume(now, id, consumed);
        }
    }

    /// Sends queued requests on `conn` until the send buffer is full.
    fn send(&mut self, now: Time, conn: u32) {
        let (Conn::Open(id), Phase::Running(start)) = (self.conns[conn as usize], self.phase) else { return };
        while let Some((request, offset)) = self.in_flight.unsent(conn) {
            let bytes = self.encoder.write(request);
            let len = bytes.len();
            let Ok(sent) = self.stack.send(now, id, &bytes[offset..]) else { return };
            self.in_flight.sent(conn, Time::ZERO + now.since(start), sent, len);
            if offset + sent < len {
                return;
            }
        }
    }

    /// Starts a bounded number of handshakes.
    fn open_more(&mut self, now: Time) -> bool {
        let mut any = false;
        while self.opening < OPENING_MAX
            && let Some(&(due, conn)) = self.reconnect_queue.front()
            && due <= now
        {
            self.reconnect_queue.pop_front();
            any = true;
            let target = self.targets[conn as usize % self.targets.len()];
            match self.stack.connect(now, target, self.local_port(conn)) {
                Ok(id) => {
                    let slot = id.index as usize;
                    if self.owners.len() <= slot {
                        self.owners.resize(slot + 1, u32::MAX);
                    }
                    self.owners[slot] = conn;
                    self.conns[conn as usize] = Conn::Opening(id);
                    self.opening += 1;
                }
                Err(error) => {
                    self.last_error = not_begun(target, error);
                    self.reconnect_queue.push_back((now + RETRY_AFTER, conn));
                }
            }
        }
        any
    }

    /// Local port of `conn`, if ephemeral ports do not suffice.
    fn local_port(&self, conn: u32) -> Option<u16> {
        let targets = self.targets.len() as u32;
        let numbered = self.conns.len() as u32 > EPHEMERAL_PORTS.saturating_mul(targets);
        numbered.then(|| (LOCAL_PORT_MIN + conn / targets) as u16)
    }

    /// Handles the loss of `conn`: requests in flight are lost, and it is opened again.
    fn closed(&mut self, now: Time, conn: u32, reason: CloseReason) {
        let target = self.targets[conn as usize % self.targets.len()];
        self.last_error = ended(target, reason);
        self.conns[conn as usize] = Conn::Closed;
        self.in_flight.on_disconnect(conn);
        if matches!(self.phase, Phase::Running(_)) {
            self.reconnects += 1;
        }
        self.reconnect_queue.push_back((now + RETRY_AFTER, conn));
    }
}

#[cfg(test)]
mod tests;
