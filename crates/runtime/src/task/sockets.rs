//! Socket table between stack and tasks: owners of connections and their waiters.
//!
//! Bytes stay in the stack until a task reads them, so an unread connection's window closes by
//! itself. The table holds waiters, the label of the unread bytes, and the accept queues, which are
//! ordered by the label of each connection's most urgent bytes. Bound: one entry per connection,
//! and the listeners' backlogs.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use net::Stack;
use net::stack::{CloseReason, ConnId, Event, EventKind, ListenOptions, ListenerId, UdpId, Unreachable};
use queueing::{Discipline, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time};

use super::control_block::{UNLABELED, level, pack, unpack};
use super::waiter::{Waiter, Woken};

/// Socket table of a shard; see the module.
pub(crate) struct Sockets {
    pub stack: Stack,
    pub(super) table: Vec<Socket>,
    free: Vec<u32>,
    /// Table index by [`ConnId::index`].
    slot_by_index: Vec<u32>,
    listeners: Vec<Listening>,
    /// Connections reset because of a full accept queue.
    pub overflows: u64,
    /// Connections read for the first time.
    pub served: u64,
    /// Waiters for datagrams.
    pub udp_waiters: BTreeMap<UdpId, Waiter>,
}

/// A connection.
pub(crate) struct Socket {
    pub id: ConnId,
    phase: Phase,
    /// Most urgent label of its unread bytes, packed.
    pub unread: u64,
    /// On a connection that a task opened, the label of its call, packed: that of the task that
    /// wrote last. Responses have it.
    pub call: Option<u64>,
    pub connected: bool,
    pub peer_closed: bool,
    pub closed: Option<CloseReason>,
    /// True once a task has read from the socket.
    pub read: bool,
    pub reader: Option<Waiter>,
    pub writer: Option<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    /// The connection is in this listener's accept queue.
    Waiting(u32),
    /// A [`TcpStream`](super::TcpStream) holds the connection.
    Held,
}

impl Socket {
    /// True if the socket is connection `id` in the accept queue of `listener`.
    fn waits(&self, id: ConnId, listener: u32) -> bool {
        self.id == id && self.phase == Phase::Waiting(listener)
    }
}

/// Listener of a port.
struct Listening {
    port: u16,
    queue: Strict<Fifo<Pending>>,
    waiting: usize,
    backlog: usize,
    open: bool,
    acceptor: Option<Waiter>,
}

/// Entry of an accept queue, at `level`.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    id: ConnId,
    level: Priority,
    /// Time since which it waits at this level.
    since: Time,
}

impl Entry for Pending {
    fn label(&self) -> Label {
        Label::new(self.level)
    }
}

/// Default backlog, as in the stack.
const BACKLOG: usize = 1024;
/// Wait for acceptance after which a connection is treated as aged.
const AGE_MAX: Span = Span::from_millis(10);
const NO_SLOT: u32 = u32::MAX;

impl Sockets {
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            table: Vec::new(),
            free: Vec::new(),
            slot_by_index: Vec::new(),
            listeners: Vec::new(),
            overflows: 0,
            served: 0,
            udp_waiters: BTreeMap::new(),
        }
    }

    /// Connections in accept queues or owned by tasks.
    pub fn held(&self) -> u64 {
        (self.table.len() - self.free.len()) as u64
    }

    /// Handles the stack's events.
    pub fn take_events(&mut self, now: Time, woken: &mut Woken) {
        while let Some(event) = self.stack.poll_event() {
            self.on_event(now, &event, woken);
        }
        while let Some(id) = self.stack.poll_udp() {
            // The waiter stays until it has read: the next datagram may be more urgent.
            if let (Some(waiter), Some(level)) = (self.udp_waiters.get(&id), self.stack.udp_level(id)) {
                woken.push((waiter.clone(), level));
            }
        }
    }

    fn on_event(&mut self, now: Time, event: &Event, woken: &mut Woken) {
        if let EventKind::Accepted(listener) = event.kind {
            return self.on_accepted(now, event, listener, woken);
        }
        let Some(slot) = self.slot(event.conn) else { return };
        let socket = &mut self.table[slot as usize];
        let priority = socket.call.map_or(event.label.priority, level);
        match event.kind {
            EventKind::Readable { .. } => {
                let label = socket.call.unwrap_or_else(|| pack(now, event.label));
                let raised = level(label) < level(socket.unread);
                socket.unread = socket.unread.min(label);
                // The waiter stays until it has read: later bytes may be more urgent.
                woken.extend(socket.reader.clone().map(|reader| (reader, priority)));
                if let (Phase::Waiting(listener), true) = (socket.phase, raised) {
                    self.raise(now, slot, listener, woken);
                }
            }
            EventKind::Writable => {
                woken.extend(socket.writer.take().map(|writer| (writer, priority)));
            }
            EventKind::Connected => {
                socket.connected = true;
                woken.extend(socket.writer.take().map(|writer| (writer, priority)));
            }
            EventKind::PeerClosed => {
                socket.peer_closed = true;
                woken.extend(socket.reader.take().map(|reader| (reader, priority)));
            }
            EventKind::Closed(reason) => {
                socket.closed = Some(reason);
                let waiters = socket.reader.take().into_iter().chain(socket.writer.take());
                woken.extend(waiters.map(|waiter| (waiter, priority)));
                self.slot_by_index[event.conn.index as usize] = NO_SLOT;
                if let Phase::Waiting(listener) = socket.phase {
                    self.listeners[listener as usize].waiting -= 1;
                    self.free_slot(slot);
                }
            }
            EventKind::Accepted(_) => {}
        }
    }

    /// Queues a new connection for acceptance.
    fn on_accepted(&mut self, now: Time, event: &Event, ListenerId(index): ListenerId, woken: &mut Woken) {
        let listener = &self.listeners[index as usize];
        if !listener.open || listener.waiting >= listener.backlog {
            self.overflows += u64::from(listener.open);
            return self.stack.abort(now, event.conn);
        }
        let slot = self.add(event.conn, Phase::Waiting(index));
        self.listeners[index as usize].waiting += 1;
        self.table[slot as usize].unread = pack(now, event.label);
        self.raise(now, slot, index, woken);
    }

    /// Queues a connection for acceptance at the level of its bytes.
    fn raise(&mut self, now: Time, slot: u32, index: u32, woken: &mut Woken) {
        let socket = &self.table[slot as usize];
        let pending = Pending { slot, id: socket.id, level: level(socket.unread), since: now };
        let listener = &mut self.listeners[index as usize];
        if let PushResult::Refused(pending) = listener.queue.push(now, pending) {
            // Some entries are stale: closed or accepted.
            let table = &self.table;
            let mut all: Vec<Pending> = std::iter::from_fn(|| listener.queue.pop(now)).collect();
            all.retain(|other| table[other.slot as usize].waits(other.id, index));
            all.push(pending);
            all.sort_by_key(|other| other.since);
            for other in all {
                let outcome = listener.queue.push(other.since, other);
                assert!(matches!(outcome, PushResult::Queued), "each connection has one entry per level");
            }
        }
        woken.extend(listener.acceptor.clone().map(|acceptor| (acceptor, pending.level)));
    }

    /// Next connection to accept, and its label, packed.
    pub fn accept(&mut self, now: Time, ListenerId(index): ListenerId) -> Option<(u32, u64)> {
        loop {
            let listener = &mut self.listeners[index as usize];
            let Pending { slot, id, .. } = listener.queue.pop(now)?;
            let socket = &mut self.table[slot as usize];
            if socket.waits(id, index) {
                socket.phase = Phase::Held;
                listener.waiting -= 1;
                return Some((slot, socket.unread));
            }
        }
    }

    /// Sets the waiter for new connections; returns the previous one.
    pub fn await_connection(&mut self, ListenerId(index): ListenerId, acceptor: Waiter) -> Option<Waiter> {
        self.listeners[index as usize].acceptor.replace(acceptor)
    }

    /// Listens on `port`.
    pub fn listen(&mut self, port: u16, options: ListenOptions) -> io::Result<ListenerId> {
        let backlog = if options.backlog == 0 { BACKLOG } else { options.backlog };
        let id = self.stack.listen(port, options).map_err(|e| match e {
            net::stack::ListenError::PortInUse(_) | net::stack::ListenError::TooMany => {
                io::ErrorKind::AddrInUse
            }
            net::stack::ListenError::PortZero => io::ErrorKind::InvalidInput,
        })?;
        let slot_by_index = backlog * Priority::LEVELS;
        let queue = Strict::new(slot_by_index, |_| Fifo::new(slot_by_index)).with_age_max(AGE_MAX);
        let listening = Listening { port, queue, waiting: 0, backlog, open: true, acceptor: None };
        // The stack reuses numbers of closed listeners.
        match self.listeners.get_mut(id.0 as usize) {
            Some(closed) => *closed = listening,
            None => self.listeners.push(listening),
        }
        Ok(id)
    }

    /// Closes a listener and resets the connections in its accept queue; returns its waiter.
    pub fn unlisten(&mut self, now: Time, id: ListenerId) -> Option<Waiter> {
        let listener = &mut self.listeners[id.0 as usize];
        listener.open = false;
        self.stack.unlisten(listener.port);
        while let Some((slot, _)) = self.accept(now, id) {
            self.stack.abort(now, self.table[slot as usize].id);
            self.release(now, slot);
        }
        self.listeners[id.0 as usize].acceptor.take()
    }

    /// Starts an active open for a task with the packed label `call`.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, call: u64) -> io::Result<u32> {
        use net::stack::ConnectError::{NoPort, NoRoute, TooMany};
        let id = self.stack.connect(now, remote, None).map_err(|e| match e {
            NoPort => io::ErrorKind::AddrNotAvailable,
            TooMany => io::ErrorKind::OutOfMemory,
            NoRoute => io::ErrorKind::NetworkUnreachable,
        })?;
        self.stack.set_label(now, id, unpack(now, call));
        let slot = self.add(id, Phase::Held);
        self.table[slot as usize].call = Some(call);
        Ok(slot)
    }

    /// Closes a connection after its owner dropped it; returns its waiters.
    pub fn release(&mut self, now: Time, slot: u32) -> [Option<Waiter>; 2] {
        let socket = &mut self.table[slot as usize];
        let waiters = [socket.reader.take(), socket.writer.take()];
        if socket.closed.is_none() {
            let id = socket.id;
            self.slot_by_index[id.index as usize] = NO_SLOT;
            self.stack.detach(now, id);
        }
        self.free_slot(slot);
        waiters
    }

    fn add(&mut self, id: ConnId, phase: Phase) -> u32 {
        let socket = Socket {
            id,
            phase,
            unread: UNLABELED,
            call: None,
            connected: false,
            peer_closed: false,
            closed: None,
            read: false,
            reader: None,
            writer: None,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.table[slot as usize] = socket;
                slot
            }
            None => {
                self.table.push(socket);
                self.table.len() as u32 - 1
            }
        };
        let index = id.index as usize;
        if self.slot_by_index.len() <= index {
            self.slot_by_index.resize(index + 1, NO_SLOT);
        }
        self.slot_by_index[index] = slot;
        slot
    }

    fn free_slot(&mut self, slot: u32) {
        self.table[slot as usize].phase = Phase::Free;
        self.free.push(slot);
    }

    /// Table index of `id`, if it has an entry.
    fn slot(&self, id: ConnId) -> Option<u32> {
        let slot = *self.slot_by_index.get(id.index as usize)?;
        self.table.get(slot as usize).filter(|socket| socket.id == id).map(|_| slot)
    }
}

/// Error for users of a connection that ended for `reason`; `None` after a regular close.
pub(crate) fn error(reason: CloseReason) -> Option<io::Error> {
    Some(io::Error::from(match reason {
        CloseReason::Finished => return None,
        CloseReason::Reset => io::ErrorKind::ConnectionReset,
        CloseReason::TimedOut => io::ErrorKind::TimedOut,
        CloseReason::Aborted => io::ErrorKind::ConnectionAborted,
        CloseReason::Unreachable(Unreachable::Port) => io::ErrorKind::ConnectionRefused,
        CloseReason::Unreachable(Unreachable::Network) => io::ErrorKind::NetworkUnreachable,
        CloseReason::Unreachable(_) => io::ErrorKind::HostUnreachable,
    }))
}
