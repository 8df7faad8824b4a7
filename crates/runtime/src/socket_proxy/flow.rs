//! What becomes of a connection: its events, its bytes to the program, and its
//! end; the program's bytes to TCP are `collecting`'s.
//!
//! The ends meet as TCP's halves do. The peer's FIN finishes the pipe; a
//! program that shuts its end down, or closes it, has our half closed after
//! what it wrote; one that closes is forgotten by then, and what still comes
//! for it resets the connection, as the kernel does (RFC 9293 §3.6.1).

use std::collections::VecDeque;
use std::net::SocketAddr;

use net::stack::{ConnId, Event, EventKind, KeepAlive};
use net::{Device, Stack};
use queueing::{Priority, Time};

use super::accept_wait::Stage;
use super::request_tracker::RequestTracker;
use super::{AppSockets, AppStream, CORKED_MAX, HANDED_MAX, SocketProxy, WriteResult};

mod tx;

/// Whose turn it is on a level.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueEntry {
    /// A connection.
    Conn(ConnId),
    /// A port for which datagrams came.
    Port(u16),
    /// A socket from which a program has sent datagrams.
    Socket(u64),
}

/// A connection that a program has.
pub(super) struct Flow<P> {
    generation: u32,
    pub(super) pipe: P,
    /// Its handshake is under way.
    pub(super) opening: bool,
    /// Waits on this level to hand over.
    queued_in: Option<Priority>,
    /// Waits on this level to be collected from.
    queued_out: Option<Priority>,
    /// How urgent is what it was handed last, or what its program says.
    pub(super) level: Priority,
    /// The pipe has no room.
    pub(super) full: bool,
    /// How far it is. One that the program opened has nobody's SYN, and is taken.
    pub(super) stage: Stage,
    /// The program reads no more.
    deaf: bool,
    /// The peer sends no more; and the program was told.
    pub(super) peer_closed: bool,
    finished: bool,
    /// The program writes no more.
    pub(super) shut: bool,
    /// No process has the other end any more.
    pub(super) gone: bool,
    pub(super) keep_alive: Option<(bool, KeepAlive)>,
    pub(super) reset_on_close: bool,
    /// Its program wants small segments to wait for more.
    pub(super) cork: bool,
    /// They wait, until then at the most.
    pub(super) corked: Option<Time>,
    /// Its requests, where slow ones are kept.
    followed: Option<Box<RequestTracker>>,
}

impl<P> Flow<P> {
    fn new(generation: u32, pipe: P) -> Self {
        Self {
            generation,
            pipe,
            opening: false,
            queued_in: None,
            queued_out: None,
            level: Priority::default(),
            full: false,
            stage: Stage::Silent,
            deaf: false,
            peer_closed: false,
            finished: false,
            shut: false,
            gone: false,
            keep_alive: None,
            reset_on_close: false,
            cork: false,
            corked: None,
            followed: None,
        }
    }

    /// One that its program opens.
    pub(super) fn opening(generation: u32, pipe: P, followed: Option<Box<RequestTracker>>) -> Self {
        Self { opening: true, stage: Stage::Taken, followed, ..Self::new(generation, pipe) }
    }

    /// Has small segments of it, which is `conn`, wait for more from `now` on, or no longer.
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

    /// Whether it is `conn`'s, and not of who had the place before or after.
    pub(super) fn is_of(&self, conn: ConnId) -> bool {
        self.generation == conn.generation
    }
}

/// The flow of `conn`, if it is there still.
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
                if let Some(followed) = self.flow(conn).and_then(|flow| flow.followed.as_mut()) {
                    followed.arrived(now, fresh, received, popped);
                }
                self.queue_in(conn, label.priority);
            }
            EventKind::PeerClosed => {
                if let Some(flow) = self.flow(conn) {
                    flow.peer_closed = true;
                    // An end is as urgent as what came before it.
                    let level = flow.level;
                    self.queue_in(conn, level);
                }
            }
            EventKind::Writable => self.queue_out(conn),
            // The pipe goes with it, and so the program hears of it.
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
            self.counters.untaken += 1;
            return self.stack.abort(now, conn);
        };
        self.counters.offered += 1;
        let followed = self.ledger.came(local.port());
        self.seat(conn, Flow { followed, ..Flow::new(conn.generation, pipe) });
    }

    /// `conn` is a program's from now on.
    pub(super) fn seat(&mut self, conn: ConnId, flow: Flow<P::Pipe>) {
        let index = conn.index as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, || None);
        }
        let before = self.flows[index].replace(flow);
        self.present += u64::from(before.is_none());
    }

    /// `conn` has something for its program, as urgent as `level`.
    pub(super) fn queue_in(&mut self, conn: ConnId, level: Priority) {
        let Some(flow) = self.flow(conn) else { return };
        if flow.full || flow.queued_in.is_some_and(|queued| queued <= level) {
            return;
        }
        flow.queued_in = Some(level);
        self.push_in(QueueEntry::Conn(conn), level);
    }

    /// `who` waits on `level` to hand over.
    pub(super) fn push_in(&mut self, who: QueueEntry, level: Priority) {
        self.levels = self.levels.with(level);
        self.inbound[level.index()].push_back(who);
    }

    /// Hands over what has come, the most urgent first; how urgent that was, if there was any.
    pub(super) fn hand_over(&mut self, now: Time) -> Option<Priority> {
        let (mut handed, mut first) = (0, None);
        for level in Priority::all() {
            let mut had_turn = false;
            while (handed < HANDED_MAX || !had_turn)
                && let Some(who) = self.inbound[level.index()].pop_front()
            {
                let had = match who {
                    QueueEntry::Conn(conn) => self.hand_over_one(now, conn, level),
                    QueueEntry::Port(port) => self.hand_over_port(now, port, level),
                    QueueEntry::Socket(_) => false,
                };
                handed += usize::from(had);
                had_turn |= had;
            }
            first = first.or(had_turn.then_some(level));
        }
        first
    }

    /// Lets the program of `conn` know its label and private bytes.
    pub(super) fn tell(&mut self, conn: ConnId) {
        if let Some(Some(flow)) = self.flows.get_mut(conn.index as usize)
            && let Some(private) = self.stack.private(conn)
        {
            flow.pipe.tell(flow.level, private);
            if let Some(state) = self.stack.flow(conn) {
                flow.pipe.flow(&state);
            }
        }
    }

    /// Whether `conn` waited for its turn on this level.
    fn hand_over_one(&mut self, now: Time, conn: ConnId, level: Priority) -> bool {
        let Some(flow) = self.flow(conn).filter(|flow| flow.queued_in == Some(level)) else { return false };
        flow.queued_in = None;
        flow.level = level;
        self.hand_over_bytes(now, conn);
        true
    }

    fn hand_over_bytes(&mut self, now: Time, conn: ConnId) {
        let index = conn.index as usize;
        self.tell(conn);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        loop {
            let received = self.stack.received(conn);
            if received.is_empty() {
                break;
            }
            let len = received.len();
            let taken = match if flow.deaf { WriteResult::Gone } else { flow.pipe.write(received) } {
                WriteResult::Some(taken) => {
                    self.counters.bytes_in += taken as u64;
                    if let Some(followed) = &mut flow.followed {
                        followed.handed(now, flow.level, &received[..taken], &mut self.ledger);
                    }
                    if self.front.gate.is_some() {
                        self.newcomers.on_handed(now, conn, &mut flow.stage);
                    }
                    taken
                }
                WriteResult::Full => {
                    flow.full = true;
                    return flow.pipe.want_room(true);
                }
                // It is let go of when nobody has the pipe; until then somebody may
                // write who does not read.
                WriteResult::Gone if flow.gone => return,
                WriteResult::Gone => {
                    flow.deaf = true;
                    self.counters.bytes_unheard += len as u64;
                    len
                }
            };
            self.stack.consume(now, conn, taken);
        }
        if flow.peer_closed && !std::mem::replace(&mut flow.finished, true) {
            flow.pipe.finish();
        }
    }

    /// Resets those whose programs closed with bytes unread; whether there were any.
    pub(super) fn reset(&mut self, now: Time) -> bool {
        let mut resets = std::mem::take(&mut self.resets);
        let some = !resets.is_empty();
        for conn in resets.drain(..) {
            if self.flow(conn).is_some() {
                self.let_go(now, conn, true);
            }
        }
        self.resets = resets;
        some
    }

    /// The program has let go of `conn`: our half closes after what it wrote;
    /// or the connection is reset.
    fn let_go(&mut self, now: Time, conn: ConnId, reset: bool) {
        if let Some(flow) = of(&mut self.flows, conn) {
            self.newcomers.on_answer(&mut flow.stage, &mut self.front.gate);
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
            self.newcomers.on_gone(flow.stage);
            if let Some(mut followed) = flow.followed.take() {
                followed.gone(now, &mut self.ledger);
            }
            self.flows[conn.index as usize] = None;
            self.present -= 1;
            self.counters.ended += 1;
        }
    }
}
