//! Requests of one kind on our own stack, as fast as answers come or at a
//! fixed rate: what a comparison of servers sends.
//!
//! Unlike [`Client`](crate::Client) it speaks what any server does (echo,
//! HTTP, a stream one way) and can close the loop: each connection keeps a
//! fixed number of requests under way. In an open loop latency counts from the
//! time a request was due. Every byte of an echo is checked. Pure: the caller
//! brings the time and the device.

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::{ConnId, Device, Event, EventKind, Stack};
use queueing::{Arrivals, Histogram, Rng, Span, Time, Times};

use crate::protocol::http::Framer;

/// What is sent, where answers end, and how fast.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Connections, 1 or more; requests take them in turn.
    pub connections: u32,
    /// The bytes of every request, at least one.
    pub request: Vec<u8>,
    /// What comes back.
    pub answer: Answer,
    /// When requests are sent.
    pub pace: Pace,
    /// From the last handshake to the first request that is measured.
    pub warmup: Span,
    /// How long is measured.
    pub duration: Span,
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is the request.
    Echo,
    /// It is an HTTP response.
    Http,
    /// It has so many bytes, whatever they are.
    Bytes(u64),
    /// There is none: requests follow each other as fast as they are taken.
    Nothing,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection keeps so many under way.
    Closed {
        /// Requests under way on each connection, 1 or more.
        outstanding: u32,
    },
    /// At random instants (Poisson), whatever the server does.
    Open {
        /// Requests per second, over all connections.
        rate_per_s: f64,
        /// Replays the instants.
        seed: u64,
    },
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Answers that came in the measured time; with [`Answer::Nothing`],
    /// requests that were taken.
    pub answers: u64,
    /// Bytes of payload sent and received in that time.
    pub bytes: u64,
    /// The measured time.
    pub span: Span,
    /// From when a request was due (open) or sent (closed) to its answer's end.
    pub latency: Histogram,
    /// Connections that the server ended, or whose answer was wrong.
    pub broken: u64,
    /// Requests without an answer at the end. In a closed loop these are those
    /// under way.
    pub unanswered: u64,
}

/// What one connection is doing.
struct Line {
    id: ConnId,
    is_open: bool,
    /// When each request under way was due, oldest first; the last `unsent` of
    /// them wait to be sent.
    due: VecDeque<Time>,
    unsent: u32,
    /// Bytes of the first unsent request that are sent.
    offset: usize,
    /// Bytes of the answer that comes now.
    heard: u64,
    framer: Framer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    /// Measures from the first instant to the second.
    Running(Time, Time),
    Done,
}

/// Carries an [`Exchange`] out.
pub struct Exchanger {
    exchange: Exchange,
    stack: Stack,
    target: SocketAddr,
    lines: Vec<Line>,
    /// The line of each of the stack's slots.
    owners: Vec<u32>,
    opened: u32,
    phase: Phase,
    arrivals: Option<Times>,
    next_due: Time,
    turn: u32,
    outcome: Outcome,
}

/// Handshakes under way at once.
const OPENING_MAX: usize = 128;
/// Frames received and requests started in one step.
const BATCH: usize = 64;

impl Exchanger {
    /// A client that will talk to `target`.
    ///
    /// # Panics
    /// When a value of `exchange` is outside its range.
    #[must_use]
    pub fn new(exchange: Exchange, stack: net::stack::Config, target: SocketAddr) -> Self {
        assert!(exchange.connections > 0, "there are connections");
        assert!(!exchange.request.is_empty(), "a request has bytes");
        let outcome = Outcome {
            answers: 0,
            bytes: 0,
            span: exchange.duration,
            latency: Histogram::new(),
            broken: 0,
            unanswered: 0,
        };
        Self {
            exchange,
            stack: Stack::new(stack),
            target,
            lines: Vec::new(),
            owners: Vec::new(),
            opened: 0,
            phase: Phase::Opening,
            arrivals: None,
            next_due: Time::MAX,
            turn: 0,
            outcome,
        }
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
                self.outcome.unanswered = self.lines.iter().map(|line| line.due.len() as u64).sum();
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

    /// Connections that are open, until the last is.
    #[must_use]
    pub const fn opened(&self) -> u32 {
        self.opened
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

    fn receive<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        for received in 0..BATCH {
            if !self.stack.ingress_from(now, device) {
                return received > 0;
            }
            self.on_events(now);
        }
        true
    }

    /// Starts handshakes; once the last is done, requests.
    fn open_more(&mut self, now: Time) -> bool {
        if self.opened == self.exchange.connections {
            self.start(now);
            return true;
        }
        let mut any = false;
        while (self.lines.len() as u32) < self.exchange.connections
            && self.lines.len() - (self.opened as usize) < OPENING_MAX
            && let Ok(id) = self.stack.connect(now, self.target, None)
        {
            let slot = id.index as usize;
            if self.owners.len() <= slot {
                self.owners.resize(slot + 1, u32::MAX);
            }
            self.owners[slot] = self.lines.len() as u32;
            let (due, framer) = (VecDeque::new(), Framer::default());
            self.lines.push(Line { id, is_open: false, due, unsent: 0, offset: 0, heard: 0, framer });
            any = true;
        }
        any
    }

    fn start(&mut self, now: Time) {
        let start = now + self.exchange.warmup;
        self.phase = Phase::Running(start, start + self.exchange.duration);
        match self.exchange.pace {
            Pace::Closed { outstanding } => {
                for at in 0..self.lines.len() {
                    for _ in 0..outstanding {
                        self.add(at, now);
                    }
                    self.send(at, now);
                }
            }
            Pace::Open { rate_per_s, seed } => {
                let mut arrivals = Arrivals::Poisson { rate_per_s }.times(now, Rng::seeded(seed));
                self.next_due = arrivals.next().unwrap_or(Time::MAX);
                self.arrivals = Some(arrivals);
            }
        }
    }

    /// Starts requests that are due in an open loop.
    fn start_due(&mut self, now: Time) -> bool {
        let mut any = false;
        for _ in 0..BATCH {
            if self.next_due > now {
                break;
            }
            let due = self.next_due;
            self.next_due = self.arrivals.as_mut().and_then(Iterator::next).unwrap_or(Time::MAX);
            let at = self.turn as usize;
            self.turn = (self.turn + 1) % self.exchange.connections;
            self.add(at, due);
            self.send(at, now);
            any = true;
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
        while line.unsent > 0 && line.is_open {
            let rest = &self.exchange.request[line.offset..];
            let Ok(taken) = self.stack.send(now, line.id, rest) else { return };
            line.offset += taken;
            if measuring {
                self.outcome.bytes += taken as u64;
            }
            if taken < rest.len() {
                return;
            }
            line.offset = 0;
            if self.exchange.answer == Answer::Nothing {
                self.outcome.answers += u64::from(measuring);
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
                line.is_open = true;
                self.opened += 1;
            }
            EventKind::Readable { .. } => self.read(at, now),
            EventKind::Writable => self.send(at, now),
            EventKind::PeerClosed => self.give_up(at, now),
            EventKind::Closed(_) => {
                self.outcome.broken += u64::from(line.is_open);
                line.is_open = false;
            }
            EventKind::Accepted(_) => {}
        }
    }

    fn read(&mut self, at: usize, now: Time) {
        let line = &mut self.lines[at];
        let bytes = self.stack.received(line.id);
        let len = bytes.len();
        let request = &self.exchange.request;
        let answers = match self.exchange.answer {
            Answer::Echo => {
                let whole = request.len() as u64;
                let mut left = bytes;
                while !left.is_empty() {
                    let from = (line.heard % whole) as usize;
                    let n = left.len().min(request.len() - from);
                    if left[..n] != request[from..from + n] {
                        return self.give_up(at, now);
                    }
                    line.heard += n as u64;
                    left = &left[n..];
                }
                let answers = line.heard / whole;
                line.heard %= whole;
                answers
            }
            Answer::Bytes(whole) => {
                line.heard += len as u64;
                let answers = line.heard / whole;
                line.heard %= whole;
                answers
            }
            Answer::Http => {
                let (mut answers, mut fine) = (0, true);
                let framed = line.framer.push(bytes, |response| {
                    answers += 1;
                    fine &= response.status == 200 && !response.last;
                });
                if framed.is_err() || !fine {
                    return self.give_up(at, now);
                }
                answers
            }
            Answer::Nothing => 0,
        };
        self.stack.consume(now, self.lines[at].id, len);
        if self.is_measuring(now) {
            self.outcome.bytes += len as u64;
        }
        self.on_answers(at, now, answers);
    }

    fn on_answers(&mut self, at: usize, now: Time, answers: u64) {
        let measuring = self.is_measuring(now);
        for _ in 0..answers {
            let line = &mut self.lines[at];
            if line.due.len() as u32 <= line.unsent {
                return self.give_up(at, now);
            }
            let Some(due) = line.due.pop_front() else { return };
            if measuring {
                self.outcome.answers += 1;
                self.outcome.latency.record(now.since(due));
            }
            if matches!(self.exchange.pace, Pace::Closed { .. }) {
                self.add(at, now);
            }
        }
        self.send(at, now);
    }

    /// The server ended a connection, or answered what was not asked.
    fn give_up(&mut self, at: usize, now: Time) {
        let line = &mut self.lines[at];
        if std::mem::replace(&mut line.is_open, false) {
            self.outcome.broken += 1;
            self.stack.abort(now, line.id);
        }
    }
}

#[cfg(test)]
mod tests;
