//! Server on the kernel's TCP, tuned for one thread: edge-triggered epoll, one read and one write
//! per request, no copy in between. With several threads, each has its own listener
//! (`SO_REUSEPORT`), epoll and core; they share nothing.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Barrier;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use queueing::CoreId;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::{CHUNK, Serves, page, ready, requests};
use crate::{Error, panics};

const LISTENER: Token = Token(usize::MAX);

struct Conn {
    stream: TcpStream,
    /// Bytes that the kernel has not accepted yet, from `sent` on.
    outbox: Vec<u8>,
    sent: usize,
    /// First bytes of an incomplete request.
    partial: Vec<u8>,
}

/// Length of the accept queue: the kernel's maximum.
const BACKLOG: i32 = i32::MAX;

/// Serves on `threads` threads until killed.
pub fn serve(addr: SocketAddr, app: Serves, threads: u16) -> Result<(), Error> {
    let bound = (0..threads).map(|_| listen(addr)).collect::<io::Result<Vec<_>>>();
    let bound = bound.map_err(|e| Error::new(format!("{addr}: {e}")))?;
    let all = Barrier::new(bound.len());
    std::thread::scope(|scope| {
        let serving: Vec<_> = (0..)
            .zip(bound)
            .map(|(nth, listener)| {
                let all = &all;
                scope.spawn(move || {
                    if threads > 1 {
                        host::affinity::pin_nth(CoreId(nth)).map_err(|e| Error::new(e.to_string()))?;
                    }
                    turn(addr, listener, app, all)
                })
            })
            .collect();
        serving.into_iter().try_for_each(|thread| panics::join("the server", thread).map_err(Error::new)?)
    })
}

/// Listener at `addr`, shared with other listeners.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &addr)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Event loop of one thread; `all` of them are ready before the first serves.
fn turn(addr: SocketAddr, mut listener: TcpListener, app: Serves, all: &Barrier) -> Result<(), Error> {
    let error = |e: io::Error| Error::new(format!("{addr}: {e}"));
    let mut poll = Poll::new().map_err(error)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(error)?;
    let (page, chunk) = (page(), vec![b'x'; CHUNK]);
    let answer = if app == Serves::Source { &chunk } else { &page };
    let (mut conns, mut next) = (HashMap::new(), 0);
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; 256 * 1024]);
    if all.wait().is_leader() {
        ready();
    }
    loop {
        match poll.poll(&mut events, None) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            other => other.map_err(error)?,
        }
        for event in &events {
            let token = event.token();
            if token == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let both = Interest::READABLE | Interest::WRITABLE;
                    stream.set_nodelay(true).map_err(error)?;
                    poll.registry().register(&mut stream, Token(next), both).map_err(error)?;
                    conns.insert(next, Conn { stream, outbox: Vec::new(), sent: 0, partial: Vec::new() });
                    next += 1;
                }
            } else if let Some(conn) = conns.get_mut(&token.0)
                && !conn.turn(app, answer, &mut buffer)
            {
                conns.remove(&token.0);
            }
        }
    }
}

impl Conn {
    /// Reads and answers until a read or write would block; false when the connection is over.
    fn turn(&mut self, app: Serves, answer: &[u8], buffer: &mut [u8]) -> bool {
        loop {
            match self.flush() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
            let n = match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            let bytes = &buffer[..n];
            let done = match app {
                Serves::Echo => self.send(bytes),
                Serves::Http if self.partial.is_empty() => {
                    let (count, end) = requests(bytes);
                    self.partial.extend_from_slice(&bytes[end..]);
                    (0..count).try_for_each(|_| self.send(answer))
                }
                Serves::Http => {
                    self.partial.extend_from_slice(bytes);
                    let (count, end) = requests(&self.partial);
                    self.partial.drain(..end);
                    (0..count).try_for_each(|_| self.send(answer))
                }
                Serves::Sink => Ok(()),
                Serves::Source => (0..n).try_for_each(|_| self.send(answer)),
            };
            if done.is_err() {
                return false;
            }
            // A short read means that there is no more, epoll(7).
            if n < buffer.len() && self.outbox.is_empty() {
                return true;
            }
        }
    }

    /// Sends `bytes`; keeps the bytes that the kernel does not accept.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.outbox.is_empty() { write(&mut self.stream, bytes)? } else { 0 };
        self.outbox.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// True if nothing remains to be sent.
    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.outbox.len() {
            let taken = write(&mut self.stream, &self.outbox[self.sent..])?;
            if taken == 0 {
                return Ok(false);
            }
            self.sent += taken;
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(true)
    }
}

/// Writes `bytes`; returns how many the kernel accepts.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}
