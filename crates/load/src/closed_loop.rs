//! Requests of a few kinds on our own stack, as fast as answers come or at a
//! fixed rate: what a comparison of servers sends. Each kind has connections of
//! its own.
//!
//! Unlike [`Client`](crate::Client) it speaks what any server does (echo,
//! HTTP, a stream one way) and can close the loop: each connection keeps a
//! fixed number of requests under way. In an open loop latency counts from the
//! time a request was due. Every byte of an echo is checked. Pure: the caller
//! brings the time and the device.

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::CloseReason;
use net::{Device, Event, EventKind, Stack};
use queueing::{ArrivalTimes, Rng, Time};

mod connect;
mod connection;
mod spec;

use connection::{ClientConnection, State};
pub use spec::{Answer, Exchange, Kind, Outcome, Pace, Tally};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    /// Measures from the first instant to the second.
    Running(Time, Time),
    Done,
}

/// Carries an [`Exchange`] out.
pub struct ClosedLoopClient {
    exchange: Exchange,
    stack: Stack,
    target: SocketAddr,
    lines: Vec<ClientConnection>,
    /// The line of each of the stack's slots.
    owners: Vec<u32>,
    /// Lines to open, and not before when.
    to_open: VecDeque<(Time, u32)>,
    opening: u32,
    opened: u32,
    /// Why a line could not be opened, of the last one.
    why: Option<String>,
    phase: Phase,
    /// Nothing is asked until [`ClosedLoopClient::begin`].
    is_held: bool,
    /// Of each kind.
    turns: Vec<Turns>,
    outcome: Outcome,
}

/// When requests of a kind are due in an open loop, and on which line.
struct Turns {
    arrivals: Option<ArrivalTimes>,
    next_due: Time,
    /// The first of its lines, and which of them is next.
    first: u32,
    turn: u32,
}

/// Frames received and requests started in one step.
const BATCH: usize = 64;

impl ClosedLoopClient {
    /// A client that will talk to `target`.
    ///
    /// # Panics
    /// When a value of `exchange` is outside its range.
    #[must_use]
    pub fn new(exchange: Exchange, stack: net::stack::Config, target: SocketAddr) -> Self {
        let mut turns = Vec::new();
        let mut first = 0;
        for kind in &exchange.kinds {
            assert!(kind.connections > 0, "there are connections");
            assert!(!kind.request.is_empty(), "a request has bytes");
            turns.push(Turns { arrivals: None, next_due: Time::MAX, first, turn: 0 });
            first += kind.connections;
        }
        assert!(first > 0, "there is a kind");
        let lines = (0..turns.len()).flat_map(|kind| {
            let connections = exchange.kinds[kind].connections as usize;
            std::iter::repeat_with(move || ClientConnection::new(kind)).take(connections)
        });
        let lines: Vec<ClientConnection> = lines.collect();
        let kinds = vec![Tally::default(); turns.len()];
        let outcome = Outcome { span: exchange.duration, kinds };
        Self {
            exchange,
            stack: Stack::new(stack),
            target,
            to_open: (0..first).map(|nth| (Time::ZERO, nth)).collect(),
            lines,
            owners: Vec::new(),
            opening: 0,
            opened: 0,
            why: None,
            phase: Phase::Opening,
            is_held: false,
            turns,
            outcome,
        }
    }

    /// The same, whose first request waits for [`begin`](Self::begin): several
    /// clients can so begin together.
    #[must_use]
    pub fn held(self) -> Self {
        Self { is_held: true, ..self }
    }

    /// Whether it could begin: connections are open, and nothing was asked.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Opening && self.opened as usize == self.lines.len()
    }

    /// Lets the warm-up begin as soon as all connections are open.
    pub fn begin(&mut self) {
        self.is_held = false;
    }

    /// Does what is due; false when there was nothing to do.
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
                for line in &self.lines {
                    self.outcome.kinds[line.kind].unanswered += line.due.len() as u64;
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

    /// When [`step`](Self::step) has something to do if no frame comes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let end = match self.phase {
            Phase::Running(_, end) => Some(end),
            Phase::Opening => self.next_to_open(),
            Phase::Done => None,
        };
        let due = self.turns.iter().map(|turns| turns.next_due).filter(|due| *due < Time::MAX);
        self.stack.poll_timeout().into_iter().chain(end).chain(due).min()
    }

    /// Whether what happens now is measured.
    #[must_use]
    pub fn is_measuring(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Running(start, end) if start <= now && now < end)
    }

    /// Whether the measured time is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// What was measured so far.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The stack, to read counters.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Resets all connections, so that the server forgets them.
    pub fn hang_up<D: Device>(&mut self, now: Time, device: &mut D) {
        self.lines.iter().for_each(|line| self.stack.abort(now, line.id));
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
        for kind in 0..self.turns.len() {
            match self.exchange.kinds[kind].pace {
                Pace::Closed { outstanding } => self.fill(kind, outstanding, now),
                Pace::Open { arrivals, seed } => {
                    let mut arrivals = arrivals.times(now, Rng::seeded(seed));
                    self.turns[kind].next_due = arrivals.next().unwrap_or(Time::MAX);
                    self.turns[kind].arrivals = Some(arrivals);
                }
            }
        }
    }

    fn fill(&mut self, kind: usize, outstanding: u32, now: Time) {
        for at in 0..self.lines.len() {
            if self.lines[at].kind == kind {
                (0..outstanding).for_each(|_| self.add(at, now));
                self.send(at, now);
            }
        }
    }

    /// Starts requests that are due in an open loop.
    fn start_due(&mut self, now: Time) -> bool {
        let mut any = false;
        for kind in 0..self.turns.len() {
            for _ in 0..BATCH {
                let turns = &mut self.turns[kind];
                if turns.next_due > now {
                    break;
                }
                let due = turns.next_due;
                turns.next_due = turns.arrivals.as_mut().and_then(Iterator::next).unwrap_or(Time::MAX);
                let at = (turns.first + turns.turn) as usize;
                turns.turn = (turns.turn + 1) % self.exchange.kinds[kind].connections;
                self.add(at, due);
                self.send(at, now);
                any = true;
            }
        }
        any
    }

    fn add(&mut self, at: usize, due: Time) {
        let line = &mut self.lines[at];
        line.due.push_back(due);
        line.unsent += 1;
    }

    /// Sends what waits on a line, as far as the stack takes it.
    fn send(&mut self, at: usize, now: Time) {
        let measuring = self.is_measuring(now);
        let line = &mut self.lines[at];
        let (kind, tally) = (&self.exchange.kinds[line.kind], &mut self.outcome.kinds[line.kind]);
        while line.unsent > 0 && line.state == State::Open {
            let rest = &kind.request[line.offset..];
            let Ok(taken) = self.stack.send(now, line.id, rest) else { return };
            line.offset += taken;
            if measuring {
                tally.bytes += taken as u64;
            }
            if taken < rest.len() {
                return;
            }
            line.offset = 0;
            if kind.answer == Answer::Nothing {
                tally.answers += u64::from(measuring);
            } else {
                line.unsent -= 1;
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
        let Some(line) = self.lines.get_mut(at).filter(|line| line.id == event.conn) else { return };
        match event.kind {
            EventKind::Connected => {
                line.state = State::Open;
                self.opening -= 1;
                self.opened += 1;
            }
            EventKind::Readable { .. } => self.read(at, now),
            EventKind::Writable => self.send(at, now),
            EventKind::PeerClosed => self.give_up(at, now, CloseReason::Finished),
            EventKind::Closed(why) => self.on_closed(at, now, why),
            EventKind::Accepted(_) => {}
        }
    }

    fn read(&mut self, at: usize, now: Time) {
        let line = &mut self.lines[at];
        let bytes = self.stack.received(line.id);
        let len = bytes.len();
        let Some(answers) = line.answers(&self.exchange.kinds[line.kind], bytes) else {
            return self.give_up(at, now, CloseReason::Aborted);
        };
        let ClientConnection { id, kind, .. } = self.lines[at];
        self.stack.consume(now, id, len);
        if self.is_measuring(now) {
            self.outcome.kinds[kind].bytes += len as u64;
        }
        self.on_answers(at, now, answers);
    }

    fn on_answers(&mut self, at: usize, now: Time, answers: u64) {
        let measuring = self.is_measuring(now);
        for _ in 0..answers {
            let line = &mut self.lines[at];
            if line.due.len() as u32 <= line.unsent {
                return self.give_up(at, now, CloseReason::Aborted);
            }
            let Some(due) = line.due.pop_front() else { return };
            let kind = line.kind;
            if measuring {
                let tally = &mut self.outcome.kinds[kind];
                tally.answers += 1;
                tally.latency.record(now.since(due));
            }
            if matches!(self.exchange.kinds[kind].pace, Pace::Closed { .. }) {
                self.add(at, now);
            }
        }
        self.send(at, now);
    }

    /// The server ended a connection, or answered what was not asked.
    fn give_up(&mut self, at: usize, now: Time, why: CloseReason) {
        if self.lines[at].state == State::Open {
            self.stack.abort(now, self.lines[at].id);
            self.on_closed(at, now, why);
        }
    }
}

#[cfg(test)]
mod tests;
