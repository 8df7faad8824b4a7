//! Table of requests in flight: due, sent, answered, timed out.
//!
//! Each connection has a queue of requests in order of due time, sent ones first; responses come
//! in the same order. All queues share one slab, so an idle connection costs 20 bytes. Without
//! sockets: the clients on greenwave's stack and on the kernel's share it.

use std::collections::VecDeque;

use queueing::{Histogram, Span, Time};

use crate::plan::{Plan, PlannedRequest, Sequence};
use crate::record::{Recorder, ServerStages};
use crate::report::{ClassReport, Pace};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Due, not completely sent.
    Waiting,
    /// Sent, not answered.
    Sent,
    /// Timed out, but its bytes or its response are still in the connection.
    Abandoned,
    /// Free slot.
    Free,
}

struct Slot {
    request: PlannedRequest,
    next: u32,
    generation: u32,
    state: State,
    /// Time at which its last byte was handed to TCP.
    sent: Time,
}

/// Queue of a connection: `head` ..= `last_sent` are sent, `unsent` ..= `tail` are not.
#[derive(Clone, Copy)]
struct ConnectionQueue {
    head: u32,
    tail: u32,
    last_sent: u32,
    unsent: u32,
    /// Number of bytes of `unsent` sent so far.
    offset: u32,
}

/// Error: a response without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnmatchedResponse;

/// Table of requests in flight. Times count from the start of the run.
pub(crate) struct InFlightTable {
    sequence: Sequence,
    next: Option<PlannedRequest>,
    timeout: Span,
    slab: Vec<Slot>,
    free: Vec<u32>,
    queues: Vec<ConnectionQueue>,
    /// Due time, slot and generation of each request, in order of due time.
    expiry: VecDeque<(Time, u32, u32)>,
    /// Requests due so far, and those not settled yet.
    due: u64,
    open: usize,
    recorder: Recorder,
    /// Latencies since the last [`InFlightTable::take_p999`].
    recent: Histogram,
}

impl InFlightTable {
    pub fn new(plan: &Plan) -> Self {
        let queue = ConnectionQueue { head: NONE, tail: NONE, last_sent: NONE, unsent: NONE, offset: 0 };
        let mut sequence = plan.sequence();
        Self {
            next: sequence.next(),
            sequence,
            timeout: plan.timeout,
            slab: Vec::new(),
            free: Vec::new(),
            queues: vec![queue; plan.connections as usize],
            expiry: VecDeque::new(),
            due: 0,
            open: 0,
            recorder: Recorder::new(plan),
            recent: Histogram::coarse(),
        }
    }

    /// Due time of the next request.
    pub fn next_due(&self) -> Option<Time> {
        self.next.map(|r| r.intended)
    }

    /// Enqueues the next request due at `now`; returns its connection.
    pub fn enqueue_due(&mut self, now: Time) -> Option<u32> {
        let request = self.next.filter(|r| r.intended <= now)?;
        self.next = self.sequence.next();
        self.due += 1;
        self.recorder.due(request.class, request.intended, now);
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = self.slab.len() as u32;
                self.slab.push(Slot { request, next: NONE, generation: 0, state: State::Free, sent: now });
                at
            }
        };
        let slot = &mut self.slab[at as usize];
        (slot.request, slot.next, slot.state) = (request, NONE, State::Waiting);
        self.expiry.push_back((request.intended, at, slot.generation));
        self.open += 1;
        let queue = &mut self.queues[request.conn as usize];
        match queue.tail {
            NONE => queue.head = at,
            tail => self.slab[tail as usize].next = at,
        }
        queue.tail = at;
        if queue.unsent == NONE {
            queue.unsent = at;
        }
        Some(request.conn)
    }

    /// First request of `conn` that is not completely sent, and the number of its bytes sent.
    pub fn unsent(&self, conn: u32) -> Option<(&PlannedRequest, usize)> {
        let queue = &self.queues[conn as usize];
        let slot = self.slab.get(queue.unsent as usize)?;
        Some((&slot.request, queue.offset as usize))
    }

    /// Records that `bytes` more of the first unsent request of `conn`, `len` bytes long, were
    /// sent.
    pub fn sent(&mut self, conn: u32, now: Time, bytes: usize, len: usize) {
        let queue = &mut self.queues[conn as usize];
        queue.offset += bytes as u32;
        assert!(queue.offset as usize <= len, "more bytes sent than the request has");
        if (queue.offset as usize) < len {
            return;
        }
        let slot = &mut self.slab[queue.unsent as usize];
        queue.last_sent = queue.unsent;
        queue.unsent = slot.next;
        queue.offset = 0;
        if slot.state == State::Waiting {
            (slot.state, slot.sent) = (State::Sent, now);
            self.recorder.sent(slot.request.class, slot.request.intended, now);
        }
    }

    /// Records the next response on `conn`; `id` if the protocol has one.
    pub fn answered(
        &mut self,
        conn: u32,
        id: Option<u64>,
        now: Time,
        stages: ServerStages,
    ) -> Result<(), UnmatchedResponse> {
        let queue = &mut self.queues[conn as usize];
        if queue.last_sent == NONE {
            return Err(UnmatchedResponse);
        }
        let at = queue.head;
        let slot = &self.slab[at as usize];
        let request = slot.request;
        if id.is_some_and(|id| id != request.id) {
            return Err(UnmatchedResponse);
        }
        if queue.last_sent == at {
            queue.last_sent = NONE;
        }
        queue.head = slot.next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        if slot.state == State::Sent {
            self.open -= 1;
            self.recorder.answered(request.class, request.intended, slot.sent, now, stages);
            self.recent.record(now.since(request.intended));
        }
        self.release(at);
        Ok(())
    }

    /// Records that the next response on `conn`, if it has a request, is an error.
    pub fn response_is_error(&mut self, conn: u32) {
        let queue = &self.queues[conn as usize];
        if queue.last_sent != NONE {
            let slot = &self.slab[queue.head as usize];
            if slot.state == State::Sent {
                self.recorder.error(slot.request.class, slot.request.intended);
            }
        }
    }

    /// p99.9 of latencies since the last call; zero if there are none.
    pub fn take_p999(&mut self) -> Span {
        let tail = self.recent.quantile(0.999);
        self.recent.clear();
        tail
    }

    /// Handles the loss of a connection: sent requests are lost, queued ones wait for the next
    /// connection.
    pub fn on_disconnect(&mut self, conn: u32) {
        let queue = self.queues[conn as usize];
        let mut at = queue.head;
        while at != queue.unsent {
            let slot = &self.slab[at as usize];
            let next = slot.next;
            if slot.state == State::Sent {
                self.open -= 1;
                self.recorder.unanswered(slot.request.class, slot.request.intended);
            }
            self.release(at);
            at = next;
        }
        let queue = &mut self.queues[conn as usize];
        (queue.head, queue.last_sent, queue.offset) = (queue.unsent, NONE, 0);
        if queue.head == NONE {
            queue.tail = NONE;
        } else if self.slab[queue.unsent as usize].state == State::Abandoned {
            let partial = queue.unsent;
            self.unlink(conn, NONE, partial);
        }
    }

    /// Expires requests; `true` if any timed out.
    pub fn expire(&mut self, now: Time) -> bool {
        let mut any = false;
        self.pop_settled();
        while let Some(due) = self.next_expiry()
            && due <= now
        {
            any = true;
            let Some((_, at, _)) = self.expiry.pop_front() else { break };
            self.open -= 1;
            let slot = &mut self.slab[at as usize];
            let request = slot.request;
            let sent = slot.state == State::Sent;
            slot.state = State::Abandoned;
            if sent {
                self.recorder.unanswered(request.class, request.intended);
            } else {
                self.recorder.never_sent(request.class, request.intended);
                let queue = &self.queues[request.conn as usize];
                match (queue.unsent == at, queue.offset) {
                    (true, 0) => self.unlink(request.conn, queue.last_sent, at),
                    // A part is in the stream: the rest must follow.
                    (true, _) => {}
                    (false, _) => self.unlink(request.conn, queue.unsent, at),
                }
            }
            self.pop_settled();
        }
        any
    }

    /// Time of the next timeout; may be early if that request was settled since the last
    /// [`InFlightTable::expire`].
    pub fn next_expiry(&self) -> Option<Time> {
        let &(intended, ..) = self.expiry.front()?;
        Some(intended + self.timeout)
    }

    /// Drops timeouts of settled requests.
    fn pop_settled(&mut self) {
        while let Some(&(_, at, generation)) = self.expiry.front() {
            let slot = &self.slab[at as usize];
            if slot.generation == generation && matches!(slot.state, State::Waiting | State::Sent) {
                return;
            }
            self.expiry.pop_front();
        }
    }

    /// True if every request was answered or timed out.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.next.is_none()
    }

    /// Number of requests due, and number settled.
    pub fn progress(&self) -> (u64, u64) {
        (self.due, self.due - self.open as u64)
    }

    /// Expires all requests: ends the run.
    pub fn abandon(&mut self) {
        self.next = None;
        self.timeout = Span::ZERO;
        self.expire(Time::MAX);
    }

    pub fn report(&self) -> Vec<ClassReport> {
        self.recorder.report()
    }

    /// Punctuality of the generator.
    pub fn pace(&self) -> Pace {
        self.recorder.pace()
    }

    /// Removes the unsent request `at`, which follows `previous`, from its queue. Requests of
    /// a queue expire in order, so it is the first without a byte in the stream.
    fn unlink(&mut self, conn: u32, previous: u32, at: u32) {
        let next = self.slab[at as usize].next;
        let queue = &mut self.queues[conn as usize];
        match previous {
            NONE => queue.head = next,
            previous => {
                let link = &mut self.slab[previous as usize].next;
                assert!(*link == at, "requests of a queue expire in order");
                *link = next;
            }
        }
        if queue.tail == at {
            queue.tail = previous;
        }
        if queue.unsent == at {
            queue.unsent = next;
        }
        self.release(at);
    }

    fn release(&mut self, at: u32) {
        let slot = &mut self.slab[at as usize];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests;
