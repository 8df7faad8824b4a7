//! Request lifecycle of a connection: events, parsing, answers.
//!
//! [`Shard::on_event`] is the state table; the other functions are its straight-line actions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Device;
use net::buffer_pool::BufferPool;
use net::stack::{ConnId, Event, EventKind};
use queueing::{Label, Priority, Span, Time};
use sched::dispatch::{RequestType, Task, WorkerId};

use super::connections::{SegmentMark, State, due, token};
use super::job::Origin;
use super::response::Response;
use super::slow_requests::{RequestEnd, ServedRequest};
use super::{Job, Shard, Step};
use crate::app::{App, ConnectionFate, Framing, Stages};

impl<D: Device, A: App> Shard<D, A> {
    /// Handles the events of TCP and UDP.
    pub(super) fn take_events(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, event);
        }
        self.take_datagrams(now);
    }

    fn on_event(&mut self, now: Time, event: Event) {
        let id = event.conn;
        if let EventKind::Accepted(_) | EventKind::Connected = event.kind {
            self.stats.counters.accepted += 1;
            return self.conns.open(id);
        }
        let Some(state) = self.conns.get(id).map(|conn| conn.state) else { return };
        match (state, event.kind) {
            (_, EventKind::Closed(_)) => self.forget(now, id),
            (State::Closing, EventKind::Readable { .. }) => self.discard(now, id),
            (_, EventKind::Readable { fresh }) => self.on_readable(now, event, state, u64::from(fresh)),
            (State::Flushing, EventKind::Writable) => self.flush_rest(now, id),
            (State::Quiet, EventKind::PeerClosed) => self.close_after_peer(now, id),
            (_, EventKind::PeerClosed) => {
                if let Some(conn) = self.conns.get(id) {
                    conn.peer_closed = true;
                }
            }
            (_, EventKind::Writable | EventKind::Accepted(_) | EventKind::Connected) => {}
        }
    }

    /// Records a segment; queues a task for it, or raises the priority of the waiting one.
    fn on_readable(&mut self, now: Time, event: Event, state: State, fresh: u64) {
        let id = event.conn;
        let Some(conn) = self.conns.get(id) else { return };
        let start = (conn.end - conn.read) as usize;
        conn.end += fresh;
        let kind = self.needs_kind.then(|| self.kind(id, start, fresh as usize)).flatten();
        // Bytes of an incomplete request that was parsed before belong to the same request.
        let start = if state == State::Quiet { 0 } else { start };
        let deadline = self.needs_deadline.then(|| self.time_left(now, &event, start)).flatten();
        let label = Label { deadline, ..event.label };
        let mark = |end| SegmentMark {
            end,
            label,
            kind,
            received: event.received,
            popped: self.front.popped(),
            pushed: now,
        };
        let Some(conn) = self.conns.get(id) else { return };
        conn.mark(mark(conn.end));
        match state {
            State::Quiet => self.enter(now, id, label, kind),
            State::Queued(priority) | State::Stalled(priority) => {
                if let Some(label) = conn.raised(now, priority, label) {
                    self.enter(now, id, label, kind);
                }
            }
            _ => {}
        }
    }

    /// Time left of the request whose unread bytes begin at `start`, if they show it.
    fn time_left(&mut self, now: Time, event: &Event, start: usize) -> Option<Span> {
        let request = self.stack.received(event.conn).get(start..).filter(|bytes| !bytes.is_empty())?;
        time_left(&*self.app, request, now.since(event.received), &mut self.stats.counters.panics)
    }

    /// Request type of the segment at `start` of the unread bytes, if they show it.
    fn kind(&mut self, id: ConnId, start: usize, len: usize) -> Option<RequestType> {
        let received = self.stack.received(id);
        let segment = received.get(start..(start + len).min(received.len()))?;
        let (kind, panicked) = ask_kind(&*self.app, segment);
        self.stats.counters.panics += u64::from(panicked);
        kind
    }

    /// Request type of the datagram `payload`, if it shows it.
    pub(super) fn kind_of(&mut self, payload: &[u8]) -> Option<RequestType> {
        let (kind, panicked) = ask_kind(&*self.app, payload);
        self.stats.counters.panics += u64::from(panicked);
        kind
    }

    /// Puts a task of `id` into the event queue. If that is full, the connection waits to enter, or
    /// its less urgent task stays.
    pub(super) fn enter(&mut self, now: Time, id: ConnId, label: Label, kind: Option<RequestType>) {
        let Some(conn) = self.conns.get(id) else { return };
        let seq = conn.seq.wrapping_add(1);
        match self.dispatch.push(now, Task { token: token(id, seq), label, kind }) {
            Ok(()) => {
                conn.seq = seq;
                conn.due = due(now, label);
                conn.state = State::Queued(label.priority);
            }
            Err(_) => {
                self.stats.counters.queue_full += 1;
                if !matches!(conn.state, State::Queued(_)) {
                    conn.due = due(now, label);
                    conn.state = State::Stalled(label.priority);
                    self.stalled[label.priority.index()].push_back(id);
                    self.stalled_len += 1;
                }
            }
        }
    }

    /// Moves stalled connections into the event queue, the most urgent first, until it is full
    /// again.
    pub(super) fn enter_stalled(&mut self, now: Time) {
        if !self.room || self.stalled_len == 0 && !self.datagrams.is_stuck() {
            return;
        }
        self.room = false;
        for priority in Priority::all() {
            if !self.enter_stuck(now, priority) {
                return;
            }
            while let Some(id) = self.stalled[priority.index()].pop_front() {
                self.stalled_len -= 1;
                let Some(conn) = self.conns.get(id) else { continue };
                if conn.state != State::Stalled(priority) {
                    continue;
                }
                let Some((label, kind)) = conn.next_request(now) else { continue };
                let seq = conn.seq.wrapping_add(1);
                let task = Task { token: token(id, seq), label, kind };
                if self.dispatch.push(now, task).is_err() {
                    self.stalled[priority.index()].push_front(id);
                    self.stalled_len += 1;
                    return;
                }
                conn.seq = seq;
                conn.due = due(now, label);
                conn.state = State::Queued(label.priority);
            }
        }
    }

    /// Parses the received bytes of `id` and assigns a complete request to `worker`.
    pub(super) fn parse_request(&mut self, now: Time, worker: WorkerId, id: ConnId, task: Task) -> Step {
        let received = self.stack.received(id);
        let app = &self.app;
        let framing = catch_unwind(AssertUnwindSafe(|| app.frame(received)));
        let (len, full) = (received.len(), received.len() >= self.recv_buffer);
        match framing {
            Ok(Framing::Complete { len: request }) if (1..=len).contains(&request) => {
                return Step::Assign(self.give(now, worker, id, task, request));
            }
            Ok(Framing::Incomplete) if full => {
                self.stats.counters.oversized += 1;
                self.abort(now, id);
            }
            Ok(Framing::Incomplete) => {
                self.stats.counters.partial += 1;
                let Some(conn) = self.conns.get(id) else { return Step::Partial(worker) };
                conn.state = State::Quiet;
                if conn.peer_closed {
                    self.close_after_peer(now, id);
                }
            }
            Ok(Framing::Invalid | Framing::Complete { .. }) => {
                self.stats.counters.invalid += 1;
                self.abort(now, id);
            }
            Err(_) => {
                self.stats.counters.panics += 1;
                self.abort(now, id);
            }
        }
        Step::Partial(worker)
    }

    /// Job of the first `len` received bytes.
    fn give(&mut self, now: Time, worker: WorkerId, id: ConnId, task: Task, len: usize) -> Job {
        let (mut request, response) = (self.buffers.take(len), self.response(worker));
        request.extend_from_slice(&self.stack.received(id)[..len]);
        self.stack.consume(now, id, len);
        let private = self.stack.private(id).copied().unwrap_or([0; 64]);
        let (mut first, mut label) = (false, task.label);
        let mark = self.conns.get(id).and_then(|conn| {
            conn.state = State::Serving;
            first = conn.read == 0;
            label.deadline = (conn.due != Time::MAX).then(|| conn.due.since(now));
            conn.consume(len as u64)
        });
        if let (Some(admission), true) = (&mut self.front.admission, first) {
            admission.on_served();
        }
        let stages = mark.map_or(Stages::default(), |mark| Stages {
            nic: mark.popped.since(mark.received),
            tcp: mark.pushed.since(mark.popped),
            event: now.since(mark.pushed),
        });
        if self.watched || self.front.admission.is_some() {
            self.on_budget(task.label.priority, &stages, &request);
        }
        self.assigned += 1;
        self.workers.idle.remove(worker);
        self.workers.given[usize::from(worker.0)] = private;
        self.workers.since[usize::from(worker.0)] = now;
        self.stats.on_given(task.label.priority, &stages);
        Job {
            worker,
            from: Origin::Connection(id),
            label,
            kind: task.kind,
            stages,
            request,
            response,
            private,
            registration: None,
            service: queueing::Span::ZERO,
            outcome: ConnectionFate::Keep,
            panicked: false,
        }
    }

    /// Records the budget in `request`, for the guard and the statistics.
    fn on_budget(&mut self, priority: Priority, stages: &Stages, request: &[u8]) {
        let budget = time_left(&*self.app, request, Span::ZERO, &mut self.stats.counters.panics);
        if let Some(admission) = &mut self.front.admission {
            admission.on_budget(budget);
        }
        if let Some(budget) = budget {
            let waited = stages.nic + stages.tcp + stages.event;
            self.stats.on_budget(priority, budget.saturating_sub(waited));
        }
    }

    /// Response buffer for `worker`, a large one.
    pub(super) fn response(&mut self, worker: WorkerId) -> Vec<u8> {
        let response = self.buffers.take(BufferPool::LARGE);
        self.workers.room[usize::from(worker.0)] = response.capacity();
        response
    }

    /// Sends the response of a served job, unless its connection is gone. Returns the request's
    /// end, or `None` while a part waits for space.
    pub(super) fn answer(&mut self, now: Time, mut job: Job) -> Option<RequestEnd> {
        let id = match job.from {
            Origin::Connection(id) => id,
            Origin::Datagram(slot) => return self.answer_datagram(slot, job),
        };
        let given = self.workers.given[usize::from(job.worker.0)];
        let Some(conn) = self.conns.get(id) else {
            self.stats.counters.late += 1;
            self.buffers.give(job.response);
            return Some(RequestEnd::Gone);
        };
        if job.panicked {
            self.stats.counters.panics += 1;
            self.buffers.give(job.response);
            self.abort(now, id);
            return Some(RequestEnd::Failed);
        }
        conn.close = job.outcome == ConnectionFate::Close;
        conn.response = Response::new(std::mem::take(&mut job.response), job.take_rest());
        conn.state = State::Flushing;
        job.settle(&mut self.stack, id, &given);
        self.stack.set_label(now, id, job.label);
        self.flush(now, id)
    }

    /// Records a served request, if it is slow. While a part of its response waits for space, its
    /// connection keeps it.
    pub(super) fn on_served_request(
        &mut self,
        now: Time,
        from: Origin,
        served_request: ServedRequest,
        end: Option<RequestEnd>,
        request: &[u8],
    ) {
        let app = &self.app;
        let attributes = || catch_unwind(AssertUnwindSafe(|| app.attributes(request))).unwrap_or_default();
        match (end, from) {
            (Some(end), _) => {
                self.stats.slow.offer(served_request.level(), served_request.total(now), || {
                    served_request.until(now, end, attributes())
                });
            }
            (None, Origin::Connection(id)) => {
                if let Some(conn) = self.conns.get(id) {
                    conn.served_request = Some(Box::new((served_request, attributes())));
                }
            }
            (None, Origin::Datagram(_)) => {}
        }
    }

    /// Closes after the peer's close, with all requests answered; discards an incomplete request.
    fn close_after_peer(&mut self, now: Time, id: ConnId) {
        if !self.stack.received(id).is_empty() {
            self.stats.counters.truncated += 1;
        }
        self.close(now, id);
    }

    /// Closes our half and discards further input.
    pub(super) fn close(&mut self, now: Time, id: ConnId) {
        if let Some(conn) = self.conns.get(id) {
            conn.state = State::Closing;
            conn.marks.clear();
        }
        self.discard(now, id);
        self.stack.close(now, id);
    }

    fn discard(&mut self, now: Time, id: ConnId) {
        let unread = self.stack.received(id).len();
        if unread > 0 {
            self.stack.consume(now, id, unread);
        }
    }

    /// Resets the connection.
    pub(super) fn abort(&mut self, now: Time, id: ConnId) {
        self.stats.counters.aborted += 1;
        self.stack.abort(now, id);
        self.forget(now, id);
    }

    /// Ends the connection: its tasks become stale, a response in service late.
    fn forget(&mut self, now: Time, id: ConnId) {
        if let Some(served_request) = self.conns.get(id).and_then(|conn| conn.served_request.take()) {
            self.on_end(now, *served_request, RequestEnd::Gone);
        }
        if let Some(response) = self.conns.close(id) {
            self.stats.counters.closed += 1;
            self.drop_response(id, response);
        }
    }
}

/// Request type that `app` sees in `bytes`, and whether it panicked.
fn ask_kind<A: App>(app: &A, bytes: &[u8]) -> (Option<RequestType>, bool) {
    let asked = catch_unwind(AssertUnwindSafe(|| app.kind(bytes)));
    (asked.as_ref().ok().copied().flatten(), asked.is_err())
}

/// Time left of `request` `since` its receipt, if `app` finds a budget; counts a panic of `app`.
pub(super) fn time_left<A: App>(app: &A, request: &[u8], since: Span, panics: &mut u64) -> Option<Span> {
    let found = catch_unwind(AssertUnwindSafe(|| app.budget(request)));
    *panics += u64::from(found.is_err());
    Some(found.ok()??.saturating_sub(since))
}
