//! A stack's window at the desk.
//!
//! Stacks of one host share a [`SocketServer`]: who listens where, and sockets for datagrams. What passes
//! on connections they do not: each watches the pipes of its own, and a
//! connection's number tells whose it is. The first stack hears what programs
//! ask, and leaves at the others' windows what is theirs to know. Who
//! listens is for all. A connection that a program opens goes to the stack that owns
//! the flow where its program has chosen the port, and to each in turn where
//! not. What a socket for datagrams sends goes out by the stack that handed it
//! something last. Decision: `docs/adr/0059-several-stacks-for-programs.md`.
//!
//! Bounds: what is left at a window is read in its stack's next round, and no more
//! is left in one of the first's than that polls at once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::classify::TransportClassifier;
use net::stack::ConnId;
use net::steer::Steering;
use net::wire::FourTuple;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::conn_pair::ConnPair;
use super::protocol::Key;
use super::routes::Routes;
use super::server::{
    AcceptError, Arrived, BELL, Delivered, End, QueuedDatagram, Refusal, SocketEvent, SocketServer, on_pipe,
    ready,
};
use super::shm_send::ShmSendBuffers;
use super::tcp_info::SocketInfo;

/// Where one stack meets programs.
pub struct StackHandle {
    /// Which stack this is, from 0.
    stack: u16,
    steering: Steering,
    desk: Arc<Mutex<SocketServer>>,
    /// Where this stack's pipes are watched; the first one's is the desk's own.
    epoll: Arc<OwnedFd>,
    outboxes: Arc<ShmSendBuffers>,
    posts: Arc<[Post]>,
    /// Connections that were passed on to be opened.
    opened: u16,
    heard: Vec<SocketEvent>,
}

/// What others have left at a window.
struct Post {
    left: Mutex<Vec<SocketEvent>>,
    /// There is something.
    any: AtomicBool,
    bell: OwnedFd,
}

/// Whom something concerns.
enum Whom {
    /// This stack.
    One(u16),
    /// Every stack.
    All,
}

/// A stack that panics ends all of them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    /// One whose bell wakes who sleeps on `epoll`.
    fn new(epoll: &OwnedFd) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Each ring is an edge: it need not be read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(epoll, &bell, epoll::EventData::new_u64(BELL), flags)?;
        Ok(Self { left: Mutex::default(), any: AtomicBool::new(false), bell })
    }

    fn leave(&self, what: impl IntoIterator<Item = SocketEvent>) {
        let mut left = lock(&self.left);
        let was_empty = left.is_empty();
        left.extend(what);
        if was_empty && !left.is_empty() {
            self.any.store(true, Ordering::Release);
            // Who has not taken what was left before will take this with it.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Whether there was anything.
    fn take(&self, into: &mut Vec<SocketEvent>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut left = lock(&self.left);
        self.any.store(false, Ordering::Relaxed);
        into.append(&mut left);
        true
    }
}

impl StackHandle {
    /// A window for each stack of `steering`, at one desk. `secret` is what
    /// nobody can guess.
    ///
    /// # Errors
    /// When there is no descriptor left, or the kernel has no abstract sockets.
    pub fn open(secret: Key, steering: Steering) -> io::Result<Vec<Self>> {
        let desk = SocketServer::of_several(secret, steering.shards())?;
        let watches: Vec<_> = (0..steering.shards()).map(|stack| desk.watch(stack).clone()).collect();
        let outboxes = desk.outboxes().clone();
        let posts: Arc<[Post]> = watches.iter().map(|watch| Post::new(watch)).collect::<io::Result<_>>()?;
        let desk = Arc::new(Mutex::new(desk));
        let window = |(stack, epoll)| Self {
            stack,
            steering,
            desk: desk.clone(),
            epoll,
            outboxes: outboxes.clone(),
            posts: posts.clone(),
            opened: 0,
            heard: Vec::new(),
        };
        Ok((0..).zip(watches).map(window).collect())
    }

    /// Where the stacks are, from now on.
    pub fn set_place(&self, place: Routes) {
        lock(&self.desk).set_place(place);
    }

    /// What [`VARIABLE`](super::VARIABLE) is to say.
    #[must_use]
    pub fn variable(&self) -> String {
        lock(&self.desk).variable()
    }

    /// A descriptor that is readable while something waits to be polled here.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// What was refused so far at any window, and how often.
    #[must_use]
    pub fn refused(&self) -> Vec<(Refusal, u64)> {
        lock(&self.desk).refused().collect()
    }

    /// How this stack's connection `conn` is called at the desk.
    #[must_use]
    pub fn number(&self, conn: ConnId) -> u64 {
        let slot = u64::from(conn.index) * u64::from(self.steering.shards()) + u64::from(self.stack);
        slot << 32 | u64::from(conn.generation)
    }

    /// Which of its stack's connections is called `number`.
    #[must_use]
    pub fn conn(&self, number: u64) -> ConnId {
        let slot = (number >> 32) / u64::from(self.steering.shards());
        ConnId { index: slot as u32, generation: number as u32 }
    }

    /// Appends what happened since, up to a batch; whether anything did.
    pub fn poll(&mut self, into: &mut Vec<SocketEvent>) -> bool {
        let some = if self.stack == 0 { self.hear(into) } else { self.look(into) };
        // Who left something in an outbox before he sent through the pair is told of that first or later:
        // who reads the pair looks into the outbox.
        some | self.outboxes.written(self.stack, |id| into.push(SocketEvent::Written(id)))
    }

    /// This stack is about to sleep until the kernel wakes it; `false` where programs have written
    /// something meanwhile: it is to be polled first.
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.outboxes.sleep(self.stack)
    }

    /// It is awake.
    pub fn wake(&self) {
        self.outboxes.wake(self.stack);
    }

    /// Appends what other stacks have left here; whether there was anything. A frame that
    /// follows from it, as a first datagram does from a socket that was bound, has not
    /// come before it was left: who looks here between taking frames in and
    /// telling whose they are knows of it.
    pub fn poll_left(&self, into: &mut Vec<SocketEvent>) -> bool {
        self.posts[usize::from(self.stack)].take(into)
    }

    /// Looks at what was left here, and at this stack's pipes.
    fn look(&self, into: &mut Vec<SocketEvent>) -> bool {
        let some = ready(&self.epoll, |id, flags| {
            if id != BELL {
                on_pipe(id, flags, into);
            }
        });
        some | self.poll_left(into)
    }

    /// Hears programs for all stacks.
    fn hear(&mut self, into: &mut Vec<SocketEvent>) -> bool {
        let desk = self.desk.clone();
        let mut desk = lock(&desk);
        if self.posts.len() == 1 {
            return desk.poll(into);
        }
        // What was left came before what is heard now.
        self.poll_left(into);
        let mut heard = std::mem::take(&mut self.heard);
        let some = desk.poll(&mut heard);
        for what in heard.drain(..) {
            match self.whom(&desk, &what) {
                Whom::One(0) => into.push(what),
                Whom::One(stack) => self.posts[usize::from(stack)].leave([what]),
                Whom::All => {
                    self.posts[1..].iter().for_each(|post| post.leave([what]));
                    into.push(what);
                }
            }
        }
        self.heard = heard;
        some
    }

    /// Whom `what`, which was heard at the desk, concerns.
    fn whom(&mut self, desk: &SocketServer, what: &SocketEvent) -> Whom {
        match *what {
            SocketEvent::Pipe { id, .. }
            | SocketEvent::Written(id)
            | SocketEvent::Shut(id)
            | SocketEvent::Set { id, .. }
            | SocketEvent::Asked { id, .. } => Whom::One(desk.stack_of(id) as u16),
            SocketEvent::DatagramReadable(socket) => Whom::One(desk.sender(socket)),
            SocketEvent::Connect { to, port: Some(port), .. } => {
                Whom::One(self.owner(desk.place(), to, port))
            }
            SocketEvent::Connect { port: None, .. } => {
                self.opened = (self.opened + 1) % self.steering.shards();
                Whom::One(self.opened)
            }
            SocketEvent::Listen { .. }
            | SocketEvent::Unlisten(_)
            | SocketEvent::Bound(_)
            | SocketEvent::Closed { .. }
            | SocketEvent::DatagramWritable(_) => Whom::All,
        }
    }

    /// The stack that a connection from `port` of ours to `to` belongs to.
    fn owner(&self, place: &Routes, to: SocketAddr, port: u16) -> u16 {
        let Some(local) = place.source(to.ip()) else { return 0 };
        let tuple = FourTuple { local, remote: to.ip(), local_port: port, remote_port: to.port() };
        self.steering.of_flow(&tuple)
    }

    /// What connections to `port` are classified by, where whoever listens
    /// there has said so.
    #[must_use]
    pub fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        lock(&self.desk).classifier(port)
    }

    /// [`SocketServer::offer`]: a new connection of this stack's.
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
        let mut desk = lock(&self.desk);
        let pipe = desk.offer(id, local, remote);
        self.inherit(&mut desk);
        pipe
    }

    /// [`SocketServer::opening`], by this stack.
    pub fn opening(
        &mut self,
        call: u64,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnPair> {
        let id = self.number(conn);
        let mut desk = lock(&self.desk);
        let pipe = desk.opening(call, id, local, remote);
        self.inherit(&mut desk);
        pipe
    }

    /// What a connection of this stack's inherits is told here; the first stack polls it.
    fn inherit(&self, desk: &mut SocketServer) {
        if self.stack != 0 {
            self.posts[usize::from(self.stack)].leave(desk.take_inherited(self.stack));
        }
    }

    /// [`SocketServer::refuse_opening`].
    pub fn refuse_opening(&self, call: u64, why: Errno) {
        lock(&self.desk).refuse_opening(call, why);
    }

    /// [`SocketServer::opened`], of this stack's `conn`.
    pub fn opened(&self, conn: ConnId, pipe: &mut ConnPair) {
        lock(&self.desk).opened(self.number(conn), pipe);
    }

    /// [`SocketServer::failed`], of this stack's `conn`.
    pub fn failed(&self, conn: ConnId, why: Errno) {
        lock(&self.desk).failed(self.number(conn), why);
    }

    /// [`SocketServer::ended`], of this stack's `conn`.
    pub fn ended(&self, conn: ConnId, end: End) {
        lock(&self.desk).ended(self.number(conn), end);
    }

    /// [`SocketServer::answer`].
    pub fn answer(&self, call: u64, figures: &SocketInfo) {
        lock(&self.desk).answer(call, figures);
    }

    /// [`SocketServer::deliver`], by this stack.
    pub fn deliver(&self, arrived: Arrived, level: u8, payload: &[u8], segment: usize) -> Delivered {
        let mut desk = lock(&self.desk);
        let delivered = desk.deliver(arrived, level, payload, segment);
        self.answers(&mut desk, delivered);
        delivered
    }

    /// [`SocketServer::merges`].
    #[must_use]
    pub fn merges(&self, port: u16) -> bool {
        lock(&self.desk).merges(port)
    }

    /// [`SocketServer::letter`], for this stack to send; others hear of the end of a socket.
    pub fn letter(&self, id: u64, level: u8, bytes: &mut [u8]) -> QueuedDatagram {
        let mut desk = lock(&self.desk);
        let letter = desk.letter(id, level, bytes);
        match letter {
            QueuedDatagram::Settled(delivered) => self.answers(&mut desk, delivered),
            // While nobody else can have the port: what is told of that comes later.
            QueuedDatagram::End { port, last } => {
                let what = SocketEvent::Closed { socket: id, port, last };
                let others = self.posts.iter().enumerate().filter(|(n, _)| *n != usize::from(self.stack));
                others.for_each(|(_, post)| post.leave([what]));
            }
            QueuedDatagram::Out { .. } | QueuedDatagram::Elsewhere | QueuedDatagram::Nothing => {}
        }
        letter
    }

    /// Who was handed something by this stack answers by it.
    fn answers(&self, desk: &mut SocketServer, delivered: Delivered) {
        if let Delivered::To(socket) = delivered {
            desk.set_sender(socket, self.stack);
        }
    }

    /// [`SocketServer::undelivered`].
    pub fn undelivered(&self, port: u16, remote: SocketAddr, why: Errno) {
        lock(&self.desk).undelivered(port, remote, why);
    }
}

#[cfg(test)]
mod tests;
