//! Requests under way: due, sent, answered, given up.
//!
//! Each connection is a line of requests in the order of their due times,
//! first those that are sent, then those that wait to be; answers come in that
//! order too. All lines share one slab, so an idle connection costs 20 bytes.
//! Knows nothing of sockets: both clients, on our own stack and on the
//! kernel's, keep their books here.

use std::collections::VecDeque;

use queueing::{Histogram, Span, Time};

use crate::plan::{Plan, Request, Sequence};
use crate::record::{Recorder, Stages};
use crate::report::ClassReport;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Due, not entirely sent.
    Waiting,
    /// Sent, not answered.
    Sent,
    /// Counted as lost already, but its bytes, or its answer's, are still in
    /// the connection.
    GivenUp,
    /// The slot is free.
    Free,
}

struct Flight {
    request: Request,
    next: u32,
    generation: u32,
    state: State,
}

/// A connection's requests: `head` ..= `last_sent` are sent, `unsent` ..= `tail` wait.
#[derive(Clone, Copy)]
struct Line {
    head: u32,
    tail: u32,
    last_sent: u32,
    unsent: u32,
    /// Bytes of `unsent` that are sent.
    offset: u32,
}

/// An answer that belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnmatchedResponse;

/// All requests under way. Times are counted from the run's start.
pub(crate) struct InFlightTable {
    sequence: Sequence,
    next: Option<Request>,
    timeout: Span,
    slab: Vec<Flight>,
    free: Vec<u32>,
    lines: Vec<Line>,
    /// Due time, slot and generation of each request, in order.
    expiry: VecDeque<(Time, u32, u32)>,
    /// Requests pulled so far, and how many of them are not settled.
    due: u64,
    open: usize,
    recorder: Recorder,
    /// Latencies since the tail was last taken.
    recent: Histogram,
}

impl InFlightTable {
    pub fn new(plan: &Plan) -> Self {
        let line = Line { head: NONE, tail: NONE, last_sent: NONE, unsent: NONE, offset: 0 };
        let mut sequence = plan.sequence();
        Self {
            next: sequence.next(),
            sequence,
            timeout: plan.timeout,
            slab: Vec::new(),
            free: Vec::new(),
            lines: vec![line; plan.connections as usize],
            expiry: VecDeque::new(),
            due: 0,
            open: 0,
            recorder: Recorder::new(plan),
            recent: Histogram::coarse(),
        }
    }

    /// When the next request is due.
    pub fn next_due(&self) -> Option<Time> {
        self.next.map(|r| r.intended)
    }

    /// Puts the next request that is due at `now` in line; says in which.
    pub fn pull(&mut self, now: Time) -> Option<u32> {
        let request = self.next.filter(|r| r.intended <= now)?;
        self.next = self.sequence.next();
        self.due += 1;
        self.recorder.due(request.class, request.intended);
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = self.slab.len() as u32;
                self.slab.push(Flight { request, next: NONE, generation: 0, state: State::Free });
                at
            }
        };
        let flight = &mut self.slab[at as usize];
        (flight.request, flight.next, flight.state) = (request, NONE, State::Waiting);
        self.expiry.push_back((request.intended, at, flight.generation));
        self.open += 1;
        let line = &mut self.lines[request.conn as usize];
        match line.tail {
            NONE => line.head = at,
            tail => self.slab[tail as usize].next = at,
        }
        line.tail = at;
        if line.unsent == NONE {
            line.unsent = at;
        }
        Some(request.conn)
    }

    /// The first request of `conn` that is not entirely sent, and how many of
    /// its bytes are.
    pub fn unsent(&self, conn: u32) -> Option<(&Request, usize)> {
        let line = &self.lines[conn as usize];
        let flight = self.slab.get(line.unsent as usize)?;
        Some((&flight.request, line.offset as usize))
    }

    /// `bytes` more of the first unsent request of `conn`, which has `len` in
    /// all, are sent.
    pub fn sent(&mut self, conn: u32, now: Time, bytes: usize, len: usize) {
        let line = &mut self.lines[conn as usize];
        line.offset += bytes as u32;
        assert!(line.offset as usize <= len, "no more is sent than there is");
        if (line.offset as usize) < len {
            return;
        }
        let flight = &mut self.slab[line.unsent as usize];
        line.last_sent = line.unsent;
        line.unsent = flight.next;
        line.offset = 0;
        if flight.state == State::Waiting {
            flight.state = State::Sent;
            self.recorder.sent(flight.request.class, flight.request.intended, now);
        }
    }

    /// The next answer on `conn` came; `id` names it where the protocol does.
    pub fn answered(
        &mut self,
        conn: u32,
        id: Option<u64>,
        now: Time,
        stages: Stages,
    ) -> Result<(), UnmatchedResponse> {
        let line = &mut self.lines[conn as usize];
        if line.last_sent == NONE {
            return Err(UnmatchedResponse);
        }
        let at = line.head;
        let flight = &self.slab[at as usize];
        let request = flight.request;
        if id.is_some_and(|id| id != request.id) {
            return Err(UnmatchedResponse);
        }
        if line.last_sent == at {
            line.last_sent = NONE;
        }
        line.head = flight.next;
        if line.head == NONE {
            line.tail = NONE;
        }
        if flight.state == State::Sent {
            self.open -= 1;
            self.recorder.answered(request.class, request.intended, now, stages);
            self.recent.record(now.since(request.intended));
        }
        self.release(at);
        Ok(())
    }

    /// p99.9 of what was answered since it was last taken; zero where nothing was.
    pub fn take_tail(&mut self) -> Span {
        let tail = self.recent.quantile(0.999);
        self.recent.clear();
        tail
    }

    /// The connection is gone: what was sent on it is lost, what waits goes
    /// out on its successor.
    pub fn broken(&mut self, conn: u32) {
        let line = self.lines[conn as usize];
        let mut at = line.head;
        while at != line.unsent {
            let flight = &self.slab[at as usize];
            let next = flight.next;
            if flight.state == State::Sent {
                self.open -= 1;
                self.recorder.unanswered(flight.request.class, flight.request.intended);
            }
            self.release(at);
            at = next;
        }
        let line = &mut self.lines[conn as usize];
        (line.head, line.last_sent, line.offset) = (line.unsent, NONE, 0);
        if line.head == NONE {
            line.tail = NONE;
        } else if self.slab[line.unsent as usize].state == State::GivenUp {
            let half = line.unsent;
            self.unlink(conn, NONE, half);
        }
    }

    /// Gives up requests whose timeout has come; says whether there were any.
    pub fn expire(&mut self, now: Time) -> bool {
        let mut any = false;
        self.tidy();
        while let Some(due) = self.next_expiry()
            && due <= now
        {
            any = true;
            let Some((_, at, _)) = self.expiry.pop_front() else { break };
            self.open -= 1;
            let flight = &mut self.slab[at as usize];
            let request = flight.request;
            let sent = flight.state == State::Sent;
            flight.state = State::GivenUp;
            if sent {
                self.recorder.unanswered(request.class, request.intended);
            } else {
                self.recorder.never_sent(request.class, request.intended);
                let line = &self.lines[request.conn as usize];
                match (line.unsent == at, line.offset) {
                    (true, 0) => self.unlink(request.conn, line.last_sent, at),
                    // Half of it is in the stream: the other half must follow.
                    (true, _) => {}
                    (false, _) => self.unlink(request.conn, line.unsent, at),
                }
            }
            self.tidy();
        }
        any
    }

    /// When the next request times out; early when it is settled since the
    /// last [`InFlightTable::expire`].
    pub fn next_expiry(&self) -> Option<Time> {
        let &(intended, ..) = self.expiry.front()?;
        Some(intended + self.timeout)
    }

    /// Forgets timeouts of requests that are settled.
    fn tidy(&mut self) {
        while let Some(&(_, at, generation)) = self.expiry.front() {
            let flight = &self.slab[at as usize];
            if flight.generation == generation && matches!(flight.state, State::Waiting | State::Sent) {
                return;
            }
            self.expiry.pop_front();
        }
    }

    /// Whether every request was answered or given up.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.next.is_none()
    }

    /// Requests that have become due, and those of them that are settled.
    pub fn progress(&self) -> (u64, u64) {
        (self.due, self.due - self.open as u64)
    }

    /// Gives up everything that is under way: the run ends here.
    pub fn abandon(&mut self) {
        self.next = None;
        self.timeout = Span::ZERO;
        self.expire(Time::MAX);
    }

    pub fn report(&self) -> Vec<ClassReport> {
        self.recorder.report()
    }

    /// Takes the unsent request `at`, which follows `previous`, out of its
    /// line. Requests of a line expire in order, so it is the first that has
    /// no byte in the stream.
    fn unlink(&mut self, conn: u32, previous: u32, at: u32) {
        let next = self.slab[at as usize].next;
        let line = &mut self.lines[conn as usize];
        match previous {
            NONE => line.head = next,
            previous => {
                let link = &mut self.slab[previous as usize].next;
                assert!(*link == at, "requests of a line expire in order");
                *link = next;
            }
        }
        if line.tail == at {
            line.tail = previous;
        }
        if line.unsent == at {
            line.unsent = next;
        }
        self.release(at);
    }

    fn release(&mut self, at: u32) {
        let flight = &mut self.slab[at as usize];
        flight.state = State::Free;
        flight.generation = flight.generation.wrapping_add(1);
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests;
