//! Short connections: one connection per request, with client timeouts, as seen by an overloaded
//! server.
//!
//! A request is due by the clock, independent of the server. The client connects, sends, reads
//! the response and closes. At its timeout it gives up as a browser does: with a FIN if it is
//! connected, silently if not. Every request ends with one [`RequestOutcome`]. SYNs are
//! retransmitted after a second (RFC 6298), so never with a shorter timeout.
//!
//! Clients have many source addresses, each with its own `Stack` on one device, so a pair of address
//! and port repeats late and meets no state of an earlier connection at the server. Pure: the caller
//! passes time and device.

mod arrivals;
mod outcome;
mod source_pool;

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::Config;
use net::{ConnId, Device, EventKind};
use queueing::{Span, Time};

pub use self::arrivals::{ArrivalModel, LoadBurst};
pub use self::outcome::{OutcomeCounts, RequestOutcome, Slice};
pub use self::source_pool::SourcePool;

use self::arrivals::ScheduledArrivals;
use crate::protocol::http::Framer;

/// Settings of the workload.
#[derive(Clone, Debug)]
pub struct ShortConnections {
    /// Bytes of a request; the response is HTTP.
    pub request: Vec<u8>,
    /// Arrival process.
    pub pace: ArrivalModel,
    /// Timeout, from the due time.
    pub timeout: Span,
    /// Warm-up: time from the first step until requests are measured.
    pub warmup: Span,
    /// Measured time: requests due in it count.
    pub duration: Span,
    /// Length of an [`ShortConnectionResults::slices`] element.
    pub slice: Span,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// Outcomes of the measured requests.
#[derive(Clone, Debug)]
pub struct ShortConnectionResults {
    /// All measured requests.
    pub all: OutcomeCounts,
    /// Requests due in a burst ([`ArrivalModel::Open`]).
    pub burst: OutcomeCounts,
    /// Measured time in slices of [`ShortConnections::slice`].
    pub slices: Vec<Slice>,
    /// Maximum time from due to started.
    pub late_max: Span,
    /// Requests started more than [`LATE`] after they were due, or not at all. More than a few
    /// mean that the client was the bottleneck.
    pub limited: u64,
}

/// Delay of a request's start above which the client is the bottleneck.
pub const LATE: Span = Span::from_millis(5);

/// Maximum number of frames received, and of requests started, per step.
const BATCH: usize = 64;

/// Request in flight on its connection.
struct Attempt {
    id: ConnId,
    due: Time,
    open: bool,
    answered: bool,
    /// True if the slot's connection has a request in flight.
    live: bool,
    framer: Framer,
}

/// Population of clients.
pub struct ClientPopulation {
    workload: ShortConnections,
    target: SocketAddr,
    sources: SourcePool,
    arrivals: ScheduledArrivals,
    /// Attempts by stack, then by slot of the stack.
    attempts: Vec<Vec<Attempt>>,
    /// Timeouts in order; some belong to settled requests.
    timeouts: VecDeque<(Time, usize, ConnId)>,
    started: Option<Time>,
    now: Time,
    /// Measured requests that are not settled.
    pending: u64,
    outcome: ShortConnectionResults,
}

impl ClientPopulation {
    /// Clients of `target` with the addresses of `stacks`, which share a device.
    ///
    /// # Panics
    /// If there are no stacks, their addresses are not consecutive, or the request is empty.
    #[must_use]
    pub fn new(workload: ShortConnections, stacks: Vec<Config>, target: SocketAddr) -> Self {
        assert!(!workload.request.is_empty(), "request is empty; give at least one byte");
        let slices = workload.duration.as_nanos().div_ceil(workload.slice.as_nanos().max(1));
        let outcome = ShortConnectionResults {
            all: OutcomeCounts::default(),
            burst: OutcomeCounts::default(),
            slices: vec![Slice::default(); slices as usize],
            late_max: Span::ZERO,
            limited: 0,
        };
        Self {
            attempts: stacks.iter().map(|_| Vec::new()).collect(),
            sources: SourcePool::new(stacks),
            arrivals: ScheduledArrivals::new(workload.pace.clone(), workload.seed),
            workload,
            target,
            timeouts: VecDeque::new(),
            started: None,
            now: Time::ZERO,
            pending: 0,
            outcome,
        }
    }

    /// Handles everything due at `now`; `false` if there was nothing to do.
    pub fn step<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        self.now = now;
        if self.started.is_none() {
            self.started = Some(now);
            self.arrivals.start(now);
        }
        let mut busy = self.sources.receive(now, device, BATCH);
        busy |= self.sources.run_timers(now);
        while let Some((stack, event)) = self.sources.event() {
            self.on_event(stack, event.conn, event.kind);
        }
        busy |= self.expire();
        busy |= self.begin();
        busy | self.sources.send(now, device)
    }

    /// True if requests due at `now` are measured.
    #[must_use]
    pub fn is_measuring(&self, now: Time) -> bool {
        self.since_warmup(now).is_some_and(|since| since < self.workload.duration)
    }

    /// True if all measured requests are settled.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.pending == 0 && self.since_warmup(self.now).is_some_and(|since| since >= self.workload.duration)
    }

    /// Results so far.
    #[must_use]
    pub const fn outcome(&self) -> &ShortConnectionResults {
        &self.outcome
    }

    /// Time since the end of the warm-up; `None` before it.
    fn since_warmup(&self, at: Time) -> Option<Span> {
        let start = self.started? + self.workload.warmup;
        (at >= start).then(|| at.since(start))
    }

    /// True if new requests may start.
    fn is_open(&self) -> bool {
        self.since_warmup(self.now).is_none_or(|since| since < self.workload.duration)
    }

    /// Starts due requests.
    fn begin(&mut self) -> bool {
        let mut any = false;
        for _ in 0..BATCH {
            if !self.is_open() {
                break;
            }
            let Some(due) = self.arrivals.next(self.now) else { break };
            any = true;
            let late = self.now.since(due);
            let counts = self.is_measuring(due);
            let begun = self.sources.connect(self.now, self.target);
            if counts {
                self.pending += 1;
                self.outcome.late_max = self.outcome.late_max.max(late);
                self.outcome.limited += u64::from(late > LATE || begun.is_none());
            }
            let Some((stack, id)) = begun else {
                self.settle(due, RequestOutcome::ClientLimit);
                continue;
            };
            let slots = &mut self.attempts[stack];
            let slot = id.index as usize;
            while slots.len() <= slot {
                let (due, framer) = (Time::ZERO, Framer::default());
                slots.push(Attempt { id, due, open: false, answered: false, live: false, framer });
            }
            let attempt = &mut slots[slot];
            if !attempt.framer.is_idle() {
                attempt.framer = Framer::default();
            }
            (attempt.id, attempt.due, attempt.live) = (id, due, true);
            (attempt.open, attempt.answered) = (false, false);
            self.timeouts.push_back((due + self.workload.timeout, stack, id));
        }
        any
    }

    fn on_event(&mut self, stack: usize, id: ConnId, kind: EventKind) {
        let Some(attempt) = self.attempts[stack].get_mut(id.index as usize) else { return };
        if attempt.id != id || !attempt.live {
            return;
        }
        match kind {
            EventKind::Connected => {
                attempt.open = true;
                // A request fits into the send buffer.
                let _ = self.sources.stack(stack).send(self.now, id, &self.workload.request);
            }
            EventKind::Readable { .. } => self.read(stack, id),
            EventKind::PeerClosed | EventKind::Closed(_) => self.end(stack, id, RequestOutcome::Refused),
            EventKind::Writable | EventKind::Accepted(_) => {}
        }
    }

    fn read(&mut self, stack: usize, id: ConnId) {
        let attempt = &mut self.attempts[stack][id.index as usize];
        attempt.answered = true;
        let bytes = self.sources.stack(stack).received(id);
        let len = bytes.len();
        let mut status = None;
        let framed = attempt.framer.push(bytes, |response| status = Some(response.status));
        let in_time = self.now.since(attempt.due) <= self.workload.timeout;
        self.sources.stack(stack).consume(self.now, id, len);
        match (framed, status) {
            (Ok(()), None) => {}
            (Ok(()), Some(200)) if in_time => self.end(stack, id, RequestOutcome::Ok),
            (Ok(()), Some(200)) => self.end(stack, id, RequestOutcome::Late),
            _ => self.end(stack, id, RequestOutcome::BadResponse),
        }
    }

    /// Closes connections of requests that have timed out.
    fn expire(&mut self) -> bool {
        let mut any = false;
        while let Some(&(_, stack, id)) = self.timeouts.front().filter(|(end, ..)| *end <= self.now) {
            self.timeouts.pop_front();
            let attempt = &self.attempts[stack][id.index as usize];
            if attempt.id == id && attempt.live {
                let outcome = match attempt {
                    Attempt { answered: true, .. } => RequestOutcome::Late,
                    Attempt { open: true, .. } => RequestOutcome::NoResponse,
                    _ => RequestOutcome::ConnectTimeout,
                };
                self.end(stack, id, outcome);
                any = true;
            }
        }
        any
    }

    /// Settles a request and closes its connection.
    fn end(&mut self, stack: usize, id: ConnId, outcome: RequestOutcome) {
        let attempt = &mut self.attempts[stack][id.index as usize];
        attempt.live = false;
        let due = attempt.due;
        self.sources.stack(stack).detach(self.now, id);
        self.settle(due, outcome);
    }

    /// Records the outcome of a request that was due at `due`.
    fn settle(&mut self, due: Time, outcome: RequestOutcome) {
        self.arrivals.on_settled(self.now);
        let (slice, duration) = (self.workload.slice, self.workload.duration);
        let slice_index = |since: Span| (since.as_nanos() / slice.as_nanos().max(1)) as usize;
        if outcome == RequestOutcome::Ok
            && let Some(since) = self.since_warmup(self.now).filter(|since| *since < duration)
        {
            self.outcome.slices[slice_index(since)].answers += 1;
        }
        let Some(since) = self.since_warmup(due).filter(|since| *since < duration) else { return };
        self.pending -= 1;
        let took = self.now.since(due);
        self.outcome.all.add(outcome, took);
        if self.arrivals.is_burst(due) {
            self.outcome.burst.add(outcome, took);
        }
        let slice = &mut self.outcome.slices[slice_index(since)];
        slice.due += 1;
        slice.good += u64::from(outcome == RequestOutcome::Ok);
    }
}

#[cfg(test)]
mod tests;
