//! Our end: the stack, its device, and an application that keeps all data.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use host::Monotonic;
use net::device::fault_injector::{FaultInjector, Rates};
use net::stack::{CloseReason, Config, ListenOptions};
use net::{ConnId, Device, Event, EventKind, Stack};
use queueing::{Clock, Rng, Span, Time};

use crate::port::Port;

/// A connection's task, and its state.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Bytes to send; for an echo, also all received ones.
    pub outbox: Vec<u8>,
    pub is_echo: bool,
    /// Closes its half once the outbox is sent and, for an echo, the peer has closed.
    pub finishes: bool,
    /// Waits with its outbox until the peer has closed its half.
    pub answers: bool,
    /// Leaves received bytes in the stack's buffer.
    pub holds: bool,
    /// Bytes of the outbox that the stack has taken.
    pub sent: usize,
    /// Received bytes.
    pub inbox: Vec<u8>,
    pub is_open: bool,
    pub peer_closed: bool,
    /// True once we have closed our half.
    pub closed: bool,
    /// The reason for which the connection ended, if it has ended.
    pub ended: Option<CloseReason>,
}

/// A stack on its device, without an application.
pub struct Host {
    pub stack: Stack,
    pub clock: Monotonic,
    device: FaultInjector<Port>,
}

impl Host {
    /// A host; `faults` are applied to frames in both directions.
    pub fn new(config: Config, device: Port, faults: Rates) -> Self {
        let device = FaultInjector::new(device, faults, &Rng::seeded(1));
        Self { stack: Stack::new(config), clock: Monotonic::new(), device }
    }

    pub fn listen(&mut self, port: u16) {
        let options = ListenOptions { backlog: 16_384, ..ListenOptions::default() };
        self.stack.listen(port, options).expect("the port is free");
    }

    /// Receives, and sends what is due; waits a millisecond for frames when idle. Calls `on_event`
    /// for each event.
    pub fn turn(&mut self, mut on_event: impl FnMut(&mut Stack, Time, Event)) {
        let mut busy = false;
        for _ in 0..256 {
            let now = self.clock.now();
            if !self.stack.ingress_from(now, &mut self.device) {
                break;
            }
            busy = true;
            while let Some(event) = self.stack.poll_event() {
                on_event(&mut self.stack, now, event);
            }
        }
        let now = self.clock.now();
        self.stack.handle_timeout(now);
        while let Some(event) = self.stack.poll_event() {
            on_event(&mut self.stack, now, event);
        }
        if self.stack.wants_egress() {
            busy |= self.stack.egress(now, &mut self.device) > 0;
        }
        if !busy {
            let due = self.device.next().map_or(Span::from_millis(1), |due| due.since(now));
            self.device.wait(due.min(Span::from_millis(1)));
        }
    }
}

/// Our end.
pub struct Ours {
    host: Host,
    /// Every connection so far, by id.
    pub streams: BTreeMap<ConnId, Stream>,
    /// Task of an accepted connection.
    pub accepts: Stream,
}

/// Listening port of our end.
pub const PORT: u16 = 80;

impl Ours {
    pub fn new(mut host: Host) -> Self {
        host.listen(PORT);
        Self { host, streams: BTreeMap::new(), accepts: Stream::default() }
    }

    /// Opens a connection to `remote` with the task `stream`.
    pub fn connect(&mut self, remote: SocketAddr, stream: Stream) -> ConnId {
        let now = self.host.clock.now();
        let id = self.host.stack.connect(now, remote, None).expect("a port is free");
        self.streams.insert(id, stream);
        id
    }

    /// As [`Host::turn`], with the tasks of all connections.
    pub fn turn(&mut self) {
        let Self { host, streams, accepts } = self;
        host.turn(|stack, now, event| {
            let id = event.conn;
            if matches!(event.kind, EventKind::Accepted(_)) {
                streams.insert(id, accepts.clone());
            }
            let stream = streams.get_mut(&id).expect("events are about known connections");
            match event.kind {
                EventKind::Connected | EventKind::Accepted(_) => stream.is_open = true,
                EventKind::Readable { .. } | EventKind::Writable => {}
                EventKind::PeerClosed => stream.peer_closed = true,
                EventKind::Closed(reason) => stream.ended = Some(reason),
            }
            stream.serve(stack, now, id);
        });
    }

    /// Reads and writes as much as possible on `id`.
    pub fn serve(&mut self, id: ConnId) {
        let now = self.host.clock.now();
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.serve(&mut self.host.stack, now, id);
        }
    }

    /// Resets `id`.
    pub fn abort(&mut self, id: ConnId) {
        let now = self.host.clock.now();
        self.host.stack.abort(now, id);
    }

    pub fn now(&self) -> Time {
        self.host.clock.now()
    }

    pub fn stack(&self) -> &Stack {
        &self.host.stack
    }

    /// Number of connections that have not ended.
    pub fn living(&self) -> usize {
        self.streams.values().filter(|stream| stream.ended.is_none()).count()
    }

    /// The only connection so far.
    pub fn only(&self) -> &Stream {
        assert_eq!(self.streams.len(), 1, "one connection");
        self.streams.values().next().expect("there is one")
    }
}

impl Stream {
    /// Reads and writes as much as possible.
    fn serve(&mut self, stack: &mut Stack, now: Time, id: ConnId) {
        if !self.is_open || self.ended.is_some() {
            return;
        }
        if !self.holds {
            let bytes = stack.received(id);
            self.inbox.extend_from_slice(bytes);
            if self.is_echo {
                self.outbox.extend_from_slice(bytes);
            }
            let n = bytes.len();
            if n > 0 {
                stack.consume(now, id, n);
            }
        }
        if self.answers && !self.peer_closed {
            return;
        }
        if self.sent < self.outbox.len() {
            self.sent += stack.send(now, id, &self.outbox[self.sent..]).unwrap_or(0);
        }
        let is_sent = self.sent == self.outbox.len() && (!self.is_echo || self.peer_closed);
        if self.finishes && is_sent && !self.closed {
            self.closed = true;
            stack.close(now, id);
        }
    }
}
