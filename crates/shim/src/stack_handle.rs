//! Handle of one stack to a socket server that several stacks share.
//!
//! Stacks of a host share the [`SocketServer`], with its listeners and UDP sockets, but not
//! connections: each stack polls its own, and a connection's number includes its stack. The first
//! stack serves programs' requests and posts events to the handles of the others; events of
//! listeners go to all. A connection that a program opens goes to the stack that owns the flow if
//! the program has chosen the port, otherwise to each stack in turn. Datagrams of a UDP socket are
//! sent by the stack that delivered to it last. Decision:
//! `docs/adr/0059-several-stacks-for-programs.md`.
//!
//! A stack reads posted events in its next round; each round of the first stack posts at most one
//! poll's events.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use classify::TransportClassifier;
use net::stack::ConnId;
use net::steer::FlowSteering;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use wire::FourTuple;

use super::conn_pair::ConnPair;
use super::protocol::AccessKey;
use super::routes::Routes;
use super::server::{
    AcceptError, Arrived, ConnectionEnd, Delivered, EVENTFD, QueuedDatagram, RefusalKind, SocketEvent,
    SocketServer, on_pipe, ready,
};
use super::shm_send::ShmSendBuffers;
use super::tcp_info::SocketInfo;
use super::tcp_sockopt::TcpSockopt;

/// One stack's handle to the socket server.
pub struct StackHandle {
    /// Index of the stack.
    stack: u16,
    steering: FlowSteering,
    socket_server: Arc<Mutex<SocketServer>>,
    /// Epoll set of this stack's connections; the first one's is the server's.
    epoll: Arc<OwnedFd>,
    outboxes: Arc<ShmSendBuffers>,
    posts: Arc<[Post]>,
    /// Counter for connections without a chosen port.
    opened: u16,
    /// Options of the connection that this stack made last.
    inherited: Vec<TcpSockopt>,
    events: Vec<SocketEvent>,
}

/// Events posted by other stacks.
struct Post {
    posted: Mutex<Vec<SocketEvent>>,
    /// True if events are posted.
    any: AtomicBool,
    eventfd: OwnedFd,
}

/// Recipient of an event.
enum Recipients {
    /// One stack.
    One(u16),
    /// Every stack.
    All,
}

/// Locks `mutex`, poisoned or not: a stack that panics ends all of them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    /// Creates an empty queue with an eventfd in `epoll`.
    fn new(epoll: &OwnedFd) -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Edge-triggered: the eventfd need not be read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(epoll, &eventfd, epoll::EventData::new_u64(EVENTFD), flags)?;
        Ok(Self { posted: Mutex::default(), any: AtomicBool::new(false), eventfd })
    }

    fn post(&self, what: impl IntoIterator<Item = SocketEvent>) {
        let mut posted = lock(&self.posted);
        let was_empty = posted.is_empty();
        posted.extend(what);
        if was_empty && !posted.is_empty() {
            self.any.store(true, Ordering::Release);
            // Otherwise an earlier wake-up is still pending.
            let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
        }
    }

    /// Appends all posted events; true if there were any.
    fn take(&self, into: &mut Vec<SocketEvent>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut posted = lock(&self.posted);
        self.any.store(false, Ordering::Relaxed);
        into.append(&mut posted);
        true
    }
}

impl StackHandle {
    /// Opens a server with a handle for each stack of `steering`. `secret` must be unpredictable.
    ///
    /// # Errors
    /// No descriptor left, or no abstract sockets in the kernel.
    pub fn open(secret: AccessKey, steering: FlowSteering) -> io::Result<Vec<Self>> {
        let socket_server = SocketServer::of_several(secret, steering.shards())?;
        let watches: Vec<_> =
            (0..steering.shards()).map(|stack| socket_server.watch(stack).clone()).collect();
        let outboxes = socket_server.outboxes().clone();
        let posts: Arc<[Post]> = watches.iter().map(|watch| Post::new(watch)).collect::<io::Result<_>>()?;
        let socket_server = Arc::new(Mutex::new(socket_server));
        let window = |(stack, epoll)| Self {
            stack,
            steering,
            socket_server: socket_server.clone(),
            epoll,
            outboxes: outboxes.clone(),
            posts: posts.clone(),
            opened: 0,
            inherited: Vec::new(),
            events: Vec::new(),
        };
        Ok((0..).zip(watches).map(window).collect())
    }

    /// Sets the addresses and routes of the stacks.
    pub fn set_routes(&self, routes: Routes) {
        lock(&self.socket_server).set_routes(routes);
    }

    /// Value of the environment variable [`VARIABLE`](super::VARIABLE).
    #[must_use]
    pub fn variable(&self) -> String {
        lock(&self.socket_server).variable()
    }

    /// Descriptor that is readable while events for this stack are pending.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Refusals so far by any stack, with their counts.
    #[must_use]
    pub fn refused(&self) -> Vec<(RefusalKind, u64)> {
        lock(&self.socket_server).refused().collect()
    }

    /// Number of this stack's connection `conn` at the server.
    #[must_use]
    pub fn number(&self, conn: ConnId) -> u64 {
        let slot = u64::from(conn.index) * u64::from(self.steering.shards()) + u64::from(self.stack);
        slot << 32 | u64::from(conn.generation)
    }

    /// Connection with this number in its stack.
    #[must_use]
    pub fn conn(&self, number: u64) -> ConnId {
        let slot = (number >> 32) / u64::from(self.steering.shards());
        ConnId { index: slot as u32, generation: number as u32 }
    }

    /// Appends new events, at most a batch; true if there were any.
    pub fn poll(&mut self, into: &mut Vec<SocketEvent>) -> bool {
        let some = if self.stack == 0 { self.poll_server(into) } else { self.poll_own(into) };
        // The order of these two does not matter: reading the pair also reads the send buffer.
        some | self.outboxes.written(self.stack, |id| into.push(SocketEvent::Written(id)))
    }

    /// Announces that this stack will sleep until the kernel wakes it; `false` if programs have
    /// written meanwhile, in which case it polls first.
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.outboxes.sleep(self.stack)
    }

    /// Announces that this stack is awake.
    pub fn wake(&self) {
        self.outboxes.wake(self.stack);
    }

    /// Appends events posted by other stacks; true if there were any. A frame that follows from an
    /// event, such as the first datagram to a newly bound socket, arrives after it was posted. A
    /// stack that calls this between receiving frames and assigning them therefore knows the event.
    pub fn poll_posted(&self, into: &mut Vec<SocketEvent>) -> bool {
        self.posts[usize::from(self.stack)].take(into)
    }

    /// Appends posted events and those of this stack's connections.
    fn poll_own(&self, into: &mut Vec<SocketEvent>) -> bool {
        let some = ready(&self.epoll, |id, flags| {
            if id != EVENTFD {
                on_pipe(id, flags, into);
            }
        });
        some | self.poll_posted(into)
    }

    /// Serves programs for all stacks.
    fn poll_server(&mut self, into: &mut Vec<SocketEvent>) -> bool {
        let socket_server = self.socket_server.clone();
        let mut socket_server = lock(&socket_server);
        if self.posts.len() == 1 {
            return socket_server.poll(into);
        }
        // Events posted earlier come before new ones.
        self.poll_posted(into);
        let mut events = std::mem::take(&mut self.events);
        let some = socket_server.poll(&mut events);
        for what in events.drain(..) {
            match self.recipients(&socket_server, &what) {
                Recipients::One(0) => into.push(what),
                Recipients::One(stack) => self.posts[usize::from(stack)].post([what]),
                Recipients::All => {
                    self.posts[1..].iter().for_each(|post| post.post([what]));
                    into.push(what);
                }
            }
        }
        self.events = events;
        some
    }

    /// Recipient of an event of the server.
    fn recipients(&mut self, socket_server: &SocketServer, what: &SocketEvent) -> Recipients {
        match *what {
            SocketEvent::Pipe { id, .. }
            | SocketEvent::Written(id)
            | SocketEvent::Shut(id)
            | SocketEvent::Set { id, .. }
            | SocketEvent::Asked { id, .. } => Recipients::One(socket_server.stack_of(id) as u16),
            SocketEvent::DatagramReadable(socket) => Recipients::One(socket_server.sender(socket)),
            SocketEvent::Connect { to, port: Some(port), .. } => {
                Recipients::One(self.owner(socket_server.routes(), to, port))
            }
            SocketEvent::Connect { port: None, .. } => {
                self.opened = (self.opened + 1) % self.steering.shards();
                Recipients::One(self.opened)
            }
            SocketEvent::Listen { .. }
            | SocketEvent::Unlisten(_)
            | SocketEvent::Bound(_)
            | SocketEvent::Closed { .. }
            | SocketEvent::DatagramWritable(_) => Recipients::All,
        }
    }

    /// Stack that owns a connection from local port `port` to `to`.
    fn owner(&self, routes: &Routes, to: SocketAddr, port: u16) -> u16 {
        let Some(local) = routes.source(to.ip()) else { return 0 };
        let tuple = FourTuple { local, remote: to.ip(), local_port: port, remote_port: to.port() };
        self.steering.of_flow(&tuple)
    }

    /// Classifier of connections to `port`, if a listener there has set one.
    #[must_use]
    pub fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        lock(&self.socket_server).classifier(port)
    }

    /// Offers a new connection of this stack, as [`SocketServer::offer`].
    ///
    /// # Errors
    /// [`AcceptError`].
    pub fn offer(
        &mut self,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<ConnPair, AcceptError> {
        let id = self.number(conn);
        let mut socket_server = lock(&self.socket_server);
        let pipe = socket_server.offer(id, local, remote);
        self.inherited = socket_server.take_inherited();
        pipe
    }

    /// Starts a handshake of this stack, as [`SocketServer::opening`].
    pub fn opening(
        &mut self,
        call: u64,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnPair> {
        let id = self.number(conn);
        let mut socket_server = lock(&self.socket_server);
        let pipe = socket_server.opening(call, id, local, remote);
        self.inherited = socket_server.take_inherited();
        pipe
    }

    /// Options of the connection that this stack made last, as [`SocketServer::take_inherited`].
    pub fn take_inherited(&mut self) -> Vec<TcpSockopt> {
        std::mem::take(&mut self.inherited)
    }

    /// Rejects a request, as [`SocketServer::refuse_opening`].
    pub fn refuse_opening(&self, call: u64, why: Errno) {
        lock(&self.socket_server).refuse_opening(call, why);
    }

    /// Reports a complete handshake of `conn`, as [`SocketServer::opened`].
    pub fn opened(&self, conn: ConnId, pipe: &mut ConnPair) {
        lock(&self.socket_server).opened(self.number(conn), pipe);
    }

    /// Reports a failed handshake of `conn`, as [`SocketServer::failed`].
    pub fn failed(&self, conn: ConnId, why: Errno) {
        lock(&self.socket_server).failed(self.number(conn), why);
    }

    /// Records the end of `conn`, as [`SocketServer::ended`].
    pub fn ended(&self, conn: ConnId, end: ConnectionEnd) {
        lock(&self.socket_server).ended(self.number(conn), end);
    }

    /// Answers a getsockopt request, as [`SocketServer::answer`].
    pub fn answer(&self, call: u64, figures: &SocketInfo) {
        lock(&self.socket_server).answer(call, figures);
    }

    /// Delivers a datagram from this stack, as [`SocketServer::deliver`].
    pub fn deliver(&self, arrived: Arrived, level: u8, payload: &[u8], segment: usize) -> Delivered {
        let mut socket_server = lock(&self.socket_server);
        let delivered = socket_server.deliver(arrived, level, payload, segment);
        self.answers(&mut socket_server, delivered);
        delivered
    }

    /// True if a socket on `port` has UDP_GRO, as [`SocketServer::merges`].
    #[must_use]
    pub fn merges(&self, port: u16) -> bool {
        lock(&self.socket_server).merges(port)
    }

    /// Reads a datagram for this stack to send, as [`SocketServer::next_datagram`]; posts the end of a
    /// socket to the others.
    pub fn next_datagram(&self, id: u64, level: u8, bytes: &mut [u8]) -> QueuedDatagram {
        let mut socket_server = lock(&self.socket_server);
        let datagram = socket_server.next_datagram(id, level, bytes);
        match datagram {
            QueuedDatagram::Settled(delivered) => self.answers(&mut socket_server, delivered),
            // Posted under the lock, before the port can be bound again: events of that come later.
            QueuedDatagram::End { port, last } => {
                let what = SocketEvent::Closed { socket: id, port, last };
                let others = self.posts.iter().enumerate().filter(|(n, _)| *n != usize::from(self.stack));
                others.for_each(|(_, post)| post.post([what]));
            }
            QueuedDatagram::Out { .. } | QueuedDatagram::Elsewhere | QueuedDatagram::Nothing => {}
        }
        datagram
    }

    /// Makes this stack the sender of a socket to which it has delivered.
    fn answers(&self, socket_server: &mut SocketServer, delivered: Delivered) {
        if let Delivered::To(socket) = delivered {
            socket_server.set_sender(socket, self.stack);
        }
    }

    /// Reports undeliverable datagrams, as [`SocketServer::undelivered`].
    pub fn undelivered(&self, port: u16, remote: SocketAddr, why: Errno) {
        lock(&self.socket_server).undelivered(port, remote, why);
    }
}

#[cfg(test)]
mod tests;
