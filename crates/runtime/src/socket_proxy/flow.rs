//! Connection lifecycle: events, input to the program, and the end; [`tx`] does the program's
//! output.
//!
//! Pipe and TCP close by halves. The peer's FIN ends the program's input. A program's shutdown or
//! close closes our half after its output. A closed connection is forgotten at that point, and
//! later input resets it, as in the kernel (RFC 9293 §3.6.1).

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::{ConnId, Event, EventKind, KeepAlive};
use net::{Device, Stack};
use queueing::{Priority, Time};

use super::accept_wait::AcceptStage;
use super::calls::Call;
use super::request_tracker::RequestTracker;
use super::{AppSockets, AppStream, CORKED_MAX, DELIVERIES_MAX, SocketProxy, WriteResult};

mod tx;

/// Entry of a level's queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueEntry {
    /// A connection.
    Conn(ConnId),
    /// A port with received datagrams.
    Port(u16),
    /// A socket with datagrams to send.
    Socket(u64),
}

/// A program's connection.
pub(super) struct Flow<P> {
    generation: u32,
    pub(super) pipe: P,
    /// True during the handshake.
    pub(super) opening: bool,
    /// Level at which the flow is queued for delivery.
    queued_in: Option<Priority>,
    /// Level at which the flow is queued for output.
    queued_out: Option<Priority>,
    /// Level of the last delivered bytes, or as set by the program; of a call's output, if later.
    pub(super) level: Priority,
    /// State of calls, if the program opened the connection.
    pub(super) call: Option<Box<Call>>,
    /// True if the pipe is full.
    pub(super) full: bool,
    /// Progress towards acceptance. An active open counts as accepted, as the guard saw no SYN.
    pub(super) stage: AcceptStage,
    /// Bytes that make the connection readable: fewer are withheld from the pipe. 0: none are.
    pub(super) low_water: usize,
    /// True if the program has ended reading.
    read_shut: bool,
    /// True if the peer has closed its half; `finished` once the program's input has ended.
    pub(super) peer_closed: bool,
    finished: bool,
    /// True if the program has ended writing.
    pub(super) shut: bool,
    /// True if all processes have closed their end.
    pub(super) gone: bool,
    pub(super) keep_alive: Option<(bool, KeepAlive)>,
    pub(super) reset_on_close: bool,
    /// True if the program has set TCP_CORK.
    pub(super) cork: bool,
    /// Time until which small segments are held.
    pub(super) corked: Option<Time>,
    /// Request tracker, if slow requests are recorded.
    tracker: Option<Box<RequestTracker>>,
}

impl<P> Flow<P> {
    /// True if the next output may begin a call, so that its level is unknown.
    fn is_before_call(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_unread())
    }

    fn new(generation: u32, pipe: P) -> Self {
        Self {
            generation,
            pipe,
            opening: false,
            queued_in: None,
            queued_out: None,
            level: Priority::default(),
            call: None,
            full: false,
            stage: AcceptStage::NoData,
            low_water: 0,
            read_shut: false,
            peer_closed: false,
            finished: false,
            shut: false,
            gone: false,
            keep_alive: None,
            reset_on_close: false,
            cork: false,
            corked: None,
            tracker: None,
        }
    }

    /// State of an active open.
    pub(super) fn opening(generation: u32, pipe: P, tracker: Option<Box<RequestTracker>>) -> Self {
        let call = Some(Box::new(Call::new()));
        Self { opening: true, stage: AcceptStage::Accepted, call, tracker, ..Self::new(generation, pipe) }
    }

    /// Starts or ends, at `now`, the holding of small segments of this flow, which is `conn`.
    pub(super) fn hold(
        &mut self,
        now: Time,
        conn: ConnId,
        holds: bool,
        stack: &mut Stack,
        corked: &mut VecDeque<(Time, ConnId)>,
    ) {
        if holds == self.corked.is_some() {
            return;
        }
        self.corked = holds.then_some(now + CORKED_MAX);
        corked.extend(self.corked.map(|until| (until, conn)));
        stack.set_cork(now, conn, holds);
    }

    /// True if this is the flow of `conn`, not of another connection in the same slot.
    pub(super) fn is_of(&self, conn: ConnId) -> bool {
        self.generation == conn.generation
    }
}

/// Flow of `conn`, if it still exists.
pub(super) fn of<P>(flows: &mut [Option<Flow<P>>], conn: ConnId) -> Option<&mut Flow<P>> {
    flows.get_mut(conn.index as usize)?.as_mut().filter(|flow| flow.is_of(conn))
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    pub(super) fn flow(&mut self, conn: ConnId) -> Option<&mut Flow<P::Pipe>> {
        of(&mut self.flows, conn)
    }

    pub(super) fn take_events(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        let Event { conn, kind, label, received } = event;
        match kind {
            EventKind::Accepted(_) => self.offer(now, conn),
            EventKind::Readable { fresh } => {
                let popped = self.front.popped();
                if let Some(tracker) = self.flow(conn).and_then(|flow| flow.tracker.as_mut()) {
                    tracker.arrived(now, fresh, received, popped);
                }
                self.queue_in(conn, label.priority);
            }
            EventKind::PeerClosed => {
                if let Some(flow) = self.flow(conn) {
                    flow.peer_closed = true;
                    // A FIN has the level of the bytes before it.
                    let level = flow.level;
                    self.queue_in(conn, level);
                }
            }
            EventKind::Writable => self.queue_out(conn),
            // The program sees the end by its pipe, which is dropped.
            EventKind::Closed(why) => {
                self.on_closed(conn, why);
                self.forget(now, conn);
            }
            EventKind::Connected => self.on_connected(conn),
        }
    }

    fn offer(&mut self, now: Time, conn: ConnId) {
        let Some(tuple) = self.stack.tuple(conn) else { return };
        let local = SocketAddr::new(tuple.local, tuple.local_port);
        let remote = SocketAddr::new(tuple.remote, tuple.remote_port);
        let Some(pipe) = self.programs.offer(conn, local, remote) else {
            self.counters.unaccepted += 1;
            return self.stack.abort(now, conn);
        };
        self.counters.offered += 1;
        let tracker = self.tracker_state.accepted(local.port());
        self.insert_flow(now, conn, Flow { tracker, ..Flow::new(conn.generation, pipe) });
    }

    /// Registers `conn` as a program's, with the options that it inherits: they apply to its first byte.
    pub(super) fn insert_flow(&mut self, now: Time, conn: ConnId, flow: Flow<P::Pipe>) {
        let index = conn.index as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let before = self.flows[index].replace(flow);
        self.present += u64::from(before.is_none());
        let mut inherited = std::mem::take(&mut self.inherited);
        self.programs.inherited(&mut inherited);
        for option in inherited.drain(..) {
            self.set(now, conn, option);
        }
        self.inherited = inherited;
    }

    /// Queues input of `conn` on `level`.
    pub(super) fn queue_in(&mut self, conn: ConnId, level: Priority) {
        let Some(flow) = self.flow(conn) else { return };
        if flow.full || flow.queued_in.is_some_and(|queued| queued <= level) {
            return;
        }
        flow.queued_in = Some(level);
        self.push_in(QueueEntry::Conn(conn), level);
    }

    /// Queues `entry` for delivery on `level`.
    pub(super) fn push_in(&mut self, entry: QueueEntry, level: Priority) {
        self.levels = self.levels.with(level);
        self.inbound[level.index()].push_back(entry);
    }

    /// Delivers input, the most urgent first; returns the most urgent level delivered, if any.
    pub(super) fn deliver_input(&mut self, now: Time) -> Option<Priority> {
        let (mut delivered, mut first) = (0, None);
        for level in Priority::all() {
            let mut had_entry = false;
            while (delivered < DELIVERIES_MAX || !had_entry)
                && let Some(entry) = self.inbound[level.index()].pop_front()
            {
                let had = match entry {
                    QueueEntry::Conn(conn) => self.deliver_conn(now, conn, level),
                    QueueEntry::Port(port) => self.deliver_port(now, port, level),
                    QueueEntry::Socket(_) => false,
                };
                delivered += usize::from(had);
                had_entry |= had;
            }
            first = first.or(had_entry.then_some(level));
        }
        first
    }

    /// Publishes level, shared bytes and flow state of `conn` to its program.
    pub(super) fn publish(&mut self, conn: ConnId) {
        if let Some(Some(flow)) = self.flows.get_mut(conn.index as usize)
            && let Some(private) = self.stack.private(conn)
        {
            flow.pipe.publish(flow.level, private);
            if let Some(state) = self.stack.flow(conn) {
                flow.pipe.flow(&state);
            }
        }
    }

    /// Delivers input of `conn`; false if it was not queued on this level.
    fn deliver_conn(&mut self, now: Time, conn: ConnId, level: Priority) -> bool {
        let Some(flow) = self.flow(conn).filter(|flow| flow.queued_in == Some(level)) else { return false };
        flow.queued_in = None;
        flow.level = level;
        let fresh = !self.stack.received(conn).is_empty();
        if let Some(call) = self.flow(conn).and_then(|flow| flow.call.as_mut()).filter(|_| fresh) {
            call.on_response();
        }
        self.deliver_bytes(now, conn, usize::MAX);
        true
    }

    /// Delivers up to `bytes` bytes of input of `conn`.
    pub(super) fn deliver_bytes(&mut self, now: Time, conn: ConnId, mut bytes: usize) {
        let index = conn.index as usize;
        self.publish(conn);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        loop {
            let received = self.stack.received(conn);
            if received.is_empty() {
                break;
            }
            let len = received.len();
            if bytes == 0 || len < flow.low_water && !flow.read_shut && !flow.peer_closed {
                return;
            }
            let received = &received[..len.min(bytes)];
            let taken = match if flow.read_shut { WriteResult::Closed } else { flow.pipe.write(received) } {
                WriteResult::Some(taken) => {
                    self.counters.bytes_in += taken as u64;
                    if let Some(tracker) = &mut flow.tracker {
                        tracker.delivered(now, flow.level, &received[..taken], &mut self.tracker_state);
                    }
                    if self.front.admission.is_some() {
                        self.accept_waits.on_input_delivered(now, conn, &mut flow.stage);
                    }
                    taken
                }
                WriteResult::Full => {
                    flow.full = true;
                    return flow.pipe.want_space(true);
                }
                // A closed pipe is handled by `release_flow`; until then another process may still write.
                WriteResult::Closed if flow.gone => return,
                WriteResult::Closed => {
                    flow.read_shut = true;
                    self.counters.bytes_discarded += len as u64;
                    len
                }
            };
            bytes = bytes.saturating_sub(taken);
            self.stack.consume(now, conn, taken);
        }
        if flow.peer_closed && !std::mem::replace(&mut flow.finished, true) {
            flow.pipe.finish();
        }
    }

    /// Delivers up to `bytes` bytes of input of `conn` that are less than its low water: the program
    /// is about to read.
    pub(super) fn deliver_withheld(&mut self, now: Time, conn: ConnId, bytes: usize) {
        let Some(flow) = self.flow(conn).filter(|flow| flow.low_water > 1 && !flow.full) else { return };
        let low_water = std::mem::take(&mut flow.low_water);
        self.deliver_bytes(now, conn, bytes);
        if let Some(flow) = self.flow(conn) {
            flow.low_water = low_water;
        }
    }

    /// Resets connections whose programs closed with bytes unread; true if there were any.
    pub(super) fn reset(&mut self, now: Time) -> bool {
        let mut resets = std::mem::take(&mut self.resets);
        let some = !resets.is_empty();
        for conn in resets.drain(..) {
            if self.flow(conn).is_some() {
                self.release_flow(now, conn, true);
            }
        }
        self.resets = resets;
        some
    }

    /// Releases `conn` after its program closed it: our half closes after its output, or the
    /// connection is reset.
    fn release_flow(&mut self, now: Time, conn: ConnId, reset: bool) {
        if let Some(flow) = of(&mut self.flows, conn) {
            self.accept_waits.on_answer(now, &mut flow.stage, &mut self.front.admission);
            if flow.gone {
                self.programs.released(conn);
            }
        }
        match reset {
            true => {
                self.counters.reset += 1;
                self.stack.abort(now, conn);
            }
            false => self.stack.detach(now, conn),
        }
        self.forget(now, conn);
    }

    pub(super) fn forget(&mut self, now: Time, conn: ConnId) {
        if let Some(flow) = of(&mut self.flows, conn) {
            self.accept_waits.on_gone(flow.stage);
            if let Some(mut tracker) = flow.tracker.take() {
                tracker.gone(now, &mut self.tracker_state);
            }
            self.flows[conn.index as usize] = None;
            self.present -= 1;
            self.counters.ended += 1;
        }
    }
}
