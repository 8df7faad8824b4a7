//! Visits: one connection for each request, by clients who do not wait for ever.
//!
//! What a server under overload sees. An attempt is due by the clock, whatever
//! the server does; it shakes hands, asks, has its answer and closes, or goes
//! away when its patience ends, as a browser does: with a FIN where there is a
//! connection, without a word where there is none yet. Every attempt ends in one
//! [`RequestOutcome`]. SYNs are sent again after a second (RFC 6298), so with a patience
//! below that they are not.
//!
//! Visitors come from many addresses, each a `Stack` of its own on one
//! device, so that addresses and ports repeat late and nobody meets what the
//! server remembers of an earlier attempt. Pure: the caller brings the time and
//! the device.

mod arrivals;
mod outcome;
mod source_pool;

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::Config;
use net::{ConnId, Device, EventKind};
use queueing::{Span, Time};

pub use self::arrivals::{LoadBurst, Pace};
pub use self::outcome::{OutcomeCounts, RequestOutcome, Slice};
pub use self::source_pool::SourcePool;

use self::arrivals::ScheduledArrivals;
use crate::protocol::http::Framer;

/// Who comes, and what they want.
#[derive(Clone, Debug)]
pub struct ShortConnections {
    /// The bytes of a request; an HTTP response answers it.
    pub request: Vec<u8>,
    /// When visits are due.
    pub pace: Pace,
    /// From when an attempt is due until it is given up.
    pub timeout: Span,
    /// From the first step until visits count.
    pub warmup: Span,
    /// How long visits that become due count.
    pub duration: Span,
    /// Length of an [`Outcome::slices`] element.
    pub slice: Span,
    /// Replays the instants.
    pub seed: u64,
}

/// What became of the visits that count.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All of them.
    pub all: OutcomeCounts,
    /// Those that were due in a burst ([`Pace::Open`]).
    pub burst: OutcomeCounts,
    /// The counted time, in pieces of [`ShortConnections::slice`].
    pub slices: Vec<Slice>,
    /// An attempt was begun so long after it was due, at worst.
    pub late_max: Span,
    /// Visits begun more than [`LATE`] after they were due, or not at all:
    /// more than a few, and the client was the limit.
    pub limited: u64,
}

/// A client that begins an attempt later than this is itself the limit.
pub const LATE: Span = Span::from_millis(5);

/// Frames received and visits begun in one step.
const BATCH: usize = 64;

/// An attempt under way.
struct Attempt {
    id: ConnId,
    due: Time,
    open: bool,
    answered: bool,
    /// Whether the slot's connection is an attempt under way.
    live: bool,
    framer: Framer,
}

/// Makes visits.
pub struct ClientPopulation {
    visits: ShortConnections,
    target: SocketAddr,
    sources: SourcePool,
    arrivals: ScheduledArrivals,
    /// By stack, then by the stack's slot.
    attempts: Vec<Vec<Attempt>>,
    /// Visits by the end of their patience; some are over.
    timeouts: VecDeque<(Time, usize, ConnId)>,
    started: Option<Time>,
    now: Time,
    /// Visits that count and are not over.
    pending: u64,
    outcome: Outcome,
}

impl ClientPopulation {
    /// Visitors of `target`, from the addresses of `stacks`, which share a device.
    ///
    /// # Panics
    /// When there are no stacks, two have one address, or there is no request.
    #[must_use]
    pub fn new(visits: ShortConnections, stacks: Vec<Config>, target: SocketAddr) -> Self {
        assert!(!visits.request.is_empty(), "a request has bytes");
        let slices = visits.duration.as_nanos().div_ceil(visits.slice.as_nanos().max(1));
        let outcome = Outcome {
            all: OutcomeCounts::default(),
            burst: OutcomeCounts::default(),
            slices: vec![Slice::default(); slices as usize],
            late_max: Span::ZERO,
            limited: 0,
        };
        Self {
            attempts: stacks.iter().map(|_| Vec::new()).collect(),
            sources: SourcePool::new(stacks),
            arrivals: ScheduledArrivals::new(visits.pace.clone(), visits.seed),
            visits,
            target,
            timeouts: VecDeque::new(),
            started: None,
            now: Time::ZERO,
            pending: 0,
            outcome,
        }
    }

    /// Does what is due; false when there was nothing to do.
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

    /// Whether what becomes due now counts.
    #[must_use]
    pub fn is_measuring(&self, now: Time) -> bool {
        self.since_warmup(now).is_some_and(|since| since < self.visits.duration)
    }

    /// Whether all that counts has met its fate.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.pending == 0 && self.since_warmup(self.now).is_some_and(|since| since >= self.visits.duration)
    }

    /// What was measured so far.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Time since the warm-up was over, if it is.
    fn since_warmup(&self, at: Time) -> Option<Span> {
        let start = self.started? + self.visits.warmup;
        (at >= start).then(|| at.since(start))
    }

    /// Whether there is to be anything new.
    fn is_open(&self) -> bool {
        self.since_warmup(self.now).is_none_or(|since| since < self.visits.duration)
    }

    /// Begins visits that are due.
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
            self.timeouts.push_back((due + self.visits.timeout, stack, id));
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
                // A request is shorter than a send buffer.
                let _ = self.sources.stack(stack).send(self.now, id, &self.visits.request);
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
        let in_time = self.now.since(attempt.due) <= self.visits.timeout;
        self.sources.stack(stack).consume(self.now, id, len);
        match (framed, status) {
            (Ok(()), None) => {}
            (Ok(()), Some(200)) if in_time => self.end(stack, id, RequestOutcome::Ok),
            (Ok(()), Some(200)) => self.end(stack, id, RequestOutcome::Late),
            _ => self.end(stack, id, RequestOutcome::BadResponse),
        }
    }

    /// Those whose patience is over go away.
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

    /// An attempt is over: its connection closes.
    fn end(&mut self, stack: usize, id: ConnId, outcome: RequestOutcome) {
        let attempt = &mut self.attempts[stack][id.index as usize];
        attempt.live = false;
        let due = attempt.due;
        self.sources.stack(stack).detach(self.now, id);
        self.settle(due, outcome);
    }

    /// An attempt that was due at `due` met its outcome now.
    fn settle(&mut self, due: Time, outcome: RequestOutcome) {
        self.arrivals.on_settled(self.now);
        let (slice, duration) = (self.visits.slice, self.visits.duration);
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
