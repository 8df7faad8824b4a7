//! Closed-loop or open-loop client on greenwave's own stack, for comparisons of servers.
//!
//! Each kind of request has connections of its own. Unlike [`Client`](crate::Client) it uses
//! protocols that any server speaks (echo, HTTP, one-way stream) and supports closed loops: a
//! fixed number of requests in flight per connection. In an open loop latency counts from the
//! time a request was due. Every byte of an echo is compared. Pure: the caller passes time and
//! device.

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::CloseReason;
use net::{Device, Event, EventKind, Stack};
use queueing::{ArrivalTimes, Rng, Time};

mod connect;
mod connection;
mod spec;

use connection::{ClientConnection, State};
pub use spec::{Exchange, ExchangeResults, ExpectedResponse, KindResults, LoadModel, RequestStream};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    /// Measures from the first time to the second.
    Running(Time, Time),
    Done,
}

/// Client that runs an [`Exchange`].
pub struct ClosedLoopClient {
    exchange: Exchange,
    stack: Stack,
    target: SocketAddr,
    connections: Vec<ClientConnection>,
    /// Connection of each slot of the stack.
    owners: Vec<u32>,
    /// Connections to open, and the earliest time to do so.
    connect_queue: VecDeque<(Time, u32)>,
    opening: u32,
    opened: u32,
    /// Last reason why a connection could not be opened.
    last_error: Option<String>,
    phase: Phase,
    /// Holds the first request until [`ClosedLoopClient::begin`].
    is_paused: bool,
    /// Schedule per kind.
    schedules: Vec<Schedule>,
    outcome: ExchangeResults,
}

/// Open-loop schedule of a kind: due times, and the connection to use.
struct Schedule {
    arrivals: Option<ArrivalTimes>,
    next_due: Time,
    /// First connection of the kind, and offset of the next one to use.
    first: u32,
    next_index: u32,
}

/// Maximum number of frames received, and of requests started per kind, in a step.
const BATCH: usize = 64;

impl ClosedLoopClient {
    /// Client for `target`.
    ///
    /// # Panics
    /// If a value of `exchange` is outside its range.
    #[must_use]
    pub fn new(exchange: Exchange, stack: net::stack::Config, target: SocketAddr) -> Self {
        let mut schedules = Vec::new();
        let mut first = 0;
        for kind in &exchange.kinds {
            assert!(kind.connections > 0, "connections 0 is outside 1..; give each kind at least one");
            assert!(!kind.request.is_empty(), "request is empty; give at least one byte");
            schedules.push(Schedule { arrivals: None, next_due: Time::MAX, first, next_index: 0 });
            first += kind.connections;
        }
        assert!(first > 0, "kinds is empty; give at least one");
        let connections = (0..schedules.len()).flat_map(|kind| {
            let connections = exchange.kinds[kind].connections as usize;
            std::iter::repeat_with(move || ClientConnection::new(kind)).take(connections)
        });
        let connections: Vec<ClientConnection> = connections.collect();
        let kinds = vec![KindResults::default(); schedules.len()];
        let outcome = ExchangeResults { span: exchange.duration, kinds };
        Self {
            exchange,
            stack: Stack::new(stack),
            target,
            connect_queue: (0..first).map(|nth| (Time::ZERO, nth)).collect(),
            connections,
            owners: Vec::new(),
            opening: 0,
            opened: 0,
            last_error: None,
            phase: Phase::Opening,
            is_paused: false,
            schedules,
            outcome,
        }
    }

    /// Paused client: the first request waits for [`begin`](Self::begin), so several clients
    /// can start together.
    #[must_use]
    pub fn paused(self) -> Self {
        Self { is_paused: true, ..self }
    }

    /// True if all connections are open and no request was sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Opening && self.opened as usize == self.connections.len()
    }

    /// Starts the warm-up as soon as all connections are open.
    pub fn begin(&mut self) {
        self.is_paused = false;
    }

    /// Handles everything due at `now`; `false` if there was nothing to do.
    pub fn step<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        let mut busy = self.receive(now, device);
        if self.stack.poll_timeout().is_some_and(|due| due <= now) {
            self.stack.handle_timeout(now);
            self.on_events(now);
            busy = true;
        }
        match self.phase {
            Phase::Opening => busy |= self.open_more(now),
            Phase::Running(_, end) if now >= end => {
                for connection in &self.connections {
                    self.outcome.kinds[connection.kind].unanswered += connection.due.len() as u64;
                }
                self.phase = Phase::Done;
            }
            Phase::Running(..) => busy |= self.start_due(now),
            Phase::Done => {}
        }
        if self.stack.wants_egress() {
            busy |= self.stack.egress(now, device) > 0;
        }
        busy
    }

    /// Time of the next [`step`](Self::step) if no frame arrives.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let end = match self.phase {
            Phase::Running(_, end) => Some(end),
            Phase::Opening => self.next_connect(),
            Phase::Done => None,
        };
        let due = self.schedules.iter().map(|schedule| schedule.next_due).filter(|due| *due < Time::MAX);
        self.stack.poll_timeout().into_iter().chain(end).chain(due).min()
    }

    /// True if `now` is in the measured time.
    #[must_use]
    pub fn is_measuring(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Running(start, end) if start <= now && now < end)
    }

    /// True after the measured time.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Results so far.
    #[must_use]
    pub const fn outcome(&self) -> &ExchangeResults {
        &self.outcome
    }

    /// The stack, for its counters.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Resets all connections, so the server frees them.
    pub fn reset_all<D: Device>(&mut self, now: Time, device: &mut D) {
        self.connections.iter().for_each(|connection| self.stack.abort(now, connection.id));
        while self.stack.egress(now, device) > 0 {}
    }

    fn receive<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        for received in 0..BATCH {
            if !self.stack.ingress_from(now, device) {
                return received > 0;
            }
            self.on_events(now);
        }
        true
    }

    fn start(&mut self, now: Time) {
        let start = now + self.exchange.warmup;
        self.phase = Phase::Running(start, start + self.exchange.duration);
        for kind in 0..self.schedules.len() {
            match self.exchange.kinds[kind].pace {
                LoadModel::Closed { outstanding } => self.fill(kind, outstanding, now),
                LoadModel::Open { arrivals, seed } => {
                    let mut arrivals = arrivals.times(now, Rng::seeded(seed));
                    self.schedules[kind].next_due = arrivals.next().unwrap_or(Time::MAX);
                    self.schedules[kind].arrivals = Some(arrivals);
                }
            }
        }
    }

    fn fill(&mut self, kind: usize, outstanding: u32, now: Time) {
        for at in 0..self.connections.len() {
            if self.connections[at].kind == kind {
                (0..outstanding).for_each(|_| self.add(at, now));
                self.send(at, now);
            }
        }
    }

    /// Starts due requests of open loops.
    fn start_due(&mut self, now: Time) -> bool {
        let mut any = false;
        for kind in 0..self.schedules.len() {
            for _ in 0..BATCH {
                let schedule = &mut self.schedules[kind];
                if schedule.next_due > now {
                    break;
                }
                let due = schedule.next_due;
                schedule.next_due = schedule.arrivals.as_mut().and_then(Iterator::next).unwrap_or(Time::MAX);
                let at = (schedule.first + schedule.next_index) as usize;
                schedule.next_index = (schedule.next_index + 1) % self.exchange.kinds[kind].connections;
                self.add(at, due);
                self.send(at, now);
                any = true;
            }
        }
        any
    }

    fn add(&mut self, at: usize, due: Time) {
        let connection = &mut self.connections[at];
        connection.due.push_back(due);
        connection.unsent += 1;
    }

    /// Sends queued requests on a connection until the send buffer is full.
    fn send(&mut self, at: usize, now: Time) {
        let measuring = self.is_measuring(now);
        let connection = &mut self.connections[at];
        let (kind, tally) = (&self.exchange.kinds[connection.kind], &mut self.outcome.kinds[connection.kind]);
        while connection.unsent > 0 && connection.state == State::Open {
            let rest = &kind.request[connection.offset..];
            let Ok(sent) = self.stack.send(now, connection.id, rest) else { return };
            connection.offset += sent;
            if measuring {
                tally.bytes += sent as u64;
            }
            if sent < rest.len() {
                return;
            }
            connection.offset = 0;
            if kind.answer == ExpectedResponse::Nothing {
                tally.answers += u64::from(measuring);
            } else {
                connection.unsent -= 1;
            }
        }
    }

    fn on_events(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        let Some(&at) = self.owners.get(event.conn.index as usize) else { return };
        let at = at as usize;
        let Some(connection) = self.connections.get_mut(at).filter(|connection| connection.id == event.conn)
        else {
            return;
        };
        match event.kind {
            EventKind::Connected => {
                connection.state = State::Open;
                self.opening -= 1;
                self.opened += 1;
            }
            EventKind::Readable { .. } => self.read(at, now),
            EventKind::Writable => self.send(at, now),
            EventKind::PeerClosed => self.disconnect(at, now, CloseReason::Finished),
            EventKind::Closed(why) => self.on_closed(at, now, why),
            EventKind::Accepted(_) => {}
        }
    }

    fn read(&mut self, at: usize, now: Time) {
        let connection = &mut self.connections[at];
        let bytes = self.stack.received(connection.id);
        let len = bytes.len();
        let Some(answers) = connection.answers(&self.exchange.kinds[connection.kind], bytes) else {
            return self.disconnect(at, now, CloseReason::Aborted);
        };
        let ClientConnection { id, kind, .. } = self.connections[at];
        self.stack.consume(now, id, len);
        if self.is_measuring(now) {
            self.outcome.kinds[kind].bytes += len as u64;
        }
        self.on_answers(at, now, answers);
    }

    fn on_answers(&mut self, at: usize, now: Time, answers: u64) {
        let measuring = self.is_measuring(now);
        for _ in 0..answers {
            let connection = &mut self.connections[at];
            if connection.due.len() as u32 <= connection.unsent {
                return self.disconnect(at, now, CloseReason::Aborted);
            }
            let Some(due) = connection.due.pop_front() else { return };
            let kind = connection.kind;
            if measuring {
                let tally = &mut self.outcome.kinds[kind];
                tally.answers += 1;
                tally.latency.record(now.since(due));
            }
            if matches!(self.exchange.kinds[kind].pace, LoadModel::Closed { .. }) {
                self.add(at, now);
            }
        }
        self.send(at, now);
    }

    /// Handles a close by the server or an unexpected response.
    fn disconnect(&mut self, at: usize, now: Time, why: CloseReason) {
        if self.connections[at].state == State::Open {
            self.stack.abort(now, self.connections[at].id);
            self.on_closed(at, now, why);
        }
    }
}

#[cfg(test)]
mod tests;
