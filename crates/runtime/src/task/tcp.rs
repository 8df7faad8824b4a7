//! TCP sockets for tasks.
//!
//! Any thread may use them; a shard's own tasks never wait for its locks. A task that reads data
//! from an accepted connection runs with their label from then on, and its output has its label. An
//! urgent request thus meets no queue that ignores its priority, on receive or transmit. On a
//! connection that a task opened, the task keeps the label of the request it handles: its SYN, its
//! call and the response have it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use net::stack::{ConnId, ListenOptions, ListenerId};

use super::control_block::{UNLABELED, unpack};
use super::handle::{Shared, lock};
use super::sockets::{Sockets, error};
use super::waiter::Waiter;
use super::{Handle, current};

/// Listener; accepts the most urgent connection first.
pub struct TcpListener {
    home: Arc<Shared>,
    id: ListenerId,
    local: SocketAddr,
}

impl TcpListener {
    /// Listens on `port` of the current task's stack.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]; [`io::ErrorKind::InvalidInput`] for port 0.
    ///
    /// # Panics
    /// If called outside a task; see [`Handle::listen`].
    pub fn bind(port: u16) -> io::Result<Self> {
        Handle::current().listen(port, ListenOptions::default())
    }

    /// Accepts the next connection; returns it with the peer's address. The task, and tasks that it
    /// spawns, run with the connection's label from then on.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// [`TcpListener::accept`] for hand-written futures.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<(TcpStream, SocketAddr)> {
        let now = self.home.now();
        let mut sockets = lock(&self.home.sockets);
        let Some((slot, label)) = sockets.accept(now, self.id) else {
            let before = sockets.await_connection(self.id, Waiter::new(cx));
            drop(sockets);
            drop(before);
            return Poll::Pending;
        };
        let stream = TcpStream::new(&self.home, &sockets, slot);
        drop(sockets);
        current::with(|running| running.task.set_label(label));
        let remote = stream.remote;
        Poll::Ready((stream, remote))
    }

    /// Local address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// Resets connections in the accept queue, refuses later ones and frees the port.
impl Drop for TcpListener {
    fn drop(&mut self) {
        let waiter = lock(&self.home.sockets).unlisten(self.home.now(), self.id);
        drop(waiter);
        self.home.notify();
    }
}

/// A connection. It implements the I/O traits of tokio and hyper, with the features of those names.
///
/// Dropping it closes it after its output; unread bytes reset it. One task may read and one write
/// at a time.
pub struct TcpStream {
    pub(super) home: Arc<Shared>,
    slot: u32,
    id: ConnId,
    local: SocketAddr,
    remote: SocketAddr,
}

impl TcpStream {
    fn new(home: &Arc<Shared>, sockets: &Sockets, slot: u32) -> Self {
        let id = sockets.table[slot as usize].id;
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let (local, remote) = sockets.stack.tuple(id).map_or((unspecified, unspecified), |tuple| {
            (SocketAddr::new(tuple.local, tuple.local_port), SocketAddr::new(tuple.remote, tuple.remote_port))
        });
        Self { home: home.clone(), slot, id, local, remote }
    }

    /// Connects to `remote` from the current task's stack.
    ///
    /// # Errors
    /// No port, no route, too many connections, or the reason why the handshake failed.
    ///
    /// # Panics
    /// If called outside a task; see [`Handle::connect`].
    pub async fn connect(remote: SocketAddr) -> io::Result<Self> {
        Handle::current().connect(remote).await
    }

    /// Local address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.remote
    }

    /// Connection id in the stack.
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// Passes the received bytes, never empty, to `take`, which returns the number consumed. Returns 0
    /// after the peer's close. The task runs with their label from then on, unless it opened the
    /// connection.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn poll_read_with(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<usize>> {
        let now = self.home.now();
        let mut sockets = lock(&self.home.sockets);
        let Sockets { stack, table, served, .. } = &mut *sockets;
        let socket = &mut table[self.slot as usize];
        let received = stack.received(self.id);
        if received.is_empty() {
            if let Some(reason) = socket.closed {
                return Poll::Ready(error(reason).map_or(Ok(0), Err));
            }
            if socket.peer_closed {
                return Poll::Ready(Ok(0));
            }
            let before = socket.reader.replace(Waiter::new(cx));
            drop(sockets);
            drop(before);
            return Poll::Pending;
        }
        let (there, taken) = (received.len(), take(received));
        *served += u64::from(!std::mem::replace(&mut socket.read, true));
        let label = socket.call.is_none().then_some(socket.unread);
        if taken == there {
            socket.unread = UNLABELED;
        }
        let before = socket.reader.take();
        stack.consume(now, self.id, taken);
        drop(sockets);
        drop(before);
        if let Some(label) = label {
            current::with(|running| running.task.set_label(label));
        }
        self.home.notify();
        Poll::Ready(Ok(taken))
    }

    /// Passes `parts` to TCP in order; returns the number of bytes accepted.
    ///
    /// # Errors
    /// The reason why the connection has ended; [`io::ErrorKind::BrokenPipe`] if our half is
    /// closed.
    pub fn poll_write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now = self.home.now();
        let label = current::with(|running| running.task.label());
        let mut sockets = lock(&self.home.sockets);
        let Sockets { stack, table, .. } = &mut *sockets;
        let socket = &mut table[self.slot as usize];
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        if let Some(reason) = socket.closed {
            return Poll::Ready(Err(error(reason).unwrap_or_else(broken)));
        }
        if let Some(label) = label {
            stack.set_label(now, self.id, unpack(now, label));
            socket.call = socket.call.map(|_| label);
        }
        let mut written = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match stack.send(now, self.id, part) {
                Ok(taken) => {
                    written += taken;
                    if taken < part.len() {
                        break;
                    }
                }
                Err(_) if written > 0 => break,
                Err(_) => return Poll::Ready(Err(broken())),
            }
        }
        if written == 0 && parts.iter().any(|part| !part.is_empty()) {
            let before = socket.writer.replace(Waiter::new(cx));
            drop(sockets);
            drop(before);
            return Poll::Pending;
        }
        drop(sockets);
        self.home.notify();
        Poll::Ready(Ok(written))
    }

    /// Closes our half after its output; the peer's stays open.
    pub fn shut(&mut self) {
        lock(&self.home.sockets).stack.close(self.home.now(), self.id);
        self.home.notify();
    }

    /// Waits for the end of the handshake.
    fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sockets = lock(&self.home.sockets);
        let socket = &mut sockets.table[self.slot as usize];
        if socket.connected {
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = socket.closed {
            // A reset during the handshake is a refusal.
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let error = error(reason).filter(|e| e.kind() != io::ErrorKind::ConnectionReset);
            return Poll::Ready(Err(error.unwrap_or_else(refused)));
        }
        let before = socket.writer.replace(Waiter::new(cx));
        drop(sockets);
        drop(before);
        Poll::Pending
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let waiters = lock(&self.home.sockets).release(self.home.now(), self.slot);
        drop(waiters);
        self.home.notify();
    }
}

impl Handle {
    /// Listens on `port`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]; [`io::ErrorKind::InvalidInput`] for port 0.
    pub fn listen(&self, port: u16, options: ListenOptions) -> io::Result<TcpListener> {
        let mut sockets = lock(&self.0.sockets);
        let id = sockets.listen(port, options)?;
        let local = SocketAddr::new(sockets.stack.config().addr.into(), port);
        Ok(TcpListener { home: self.0.clone(), id, local })
    }

    /// Connects to `remote`.
    ///
    /// # Errors
    /// No port, no route, too many connections, or the reason why the handshake failed.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = {
            let call = current::with(|running| running.task.label()).unwrap_or(UNLABELED);
            let mut sockets = lock(&self.0.sockets);
            let slot = sockets.connect(self.0.now(), remote, call)?;
            TcpStream::new(&self.0, &sockets, slot)
        };
        self.0.notify();
        poll_fn(|cx| stream.poll_connected(cx)).await.map(|()| stream)
    }
}
