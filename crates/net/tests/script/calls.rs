//! Socket calls of scripts, on the stack's own interface.
//!
//! No call blocks. Events stay in the stack until a call needs them, as with an application that
//! accepts or reads slowly.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use net::stack::{CloseReason, ConnectError, Event, ListenOptions, ListenerId, UdpId, Unreachable};
use net::{ConnId, EventKind};

use super::ast::Call;
use super::codec::{PEER_V4, PEER_V6};
use super::flow::bytes;
use super::run::{Failure, PORTS, Runner};

/// Object of a file descriptor.
#[derive(Clone, Copy)]
pub(super) enum Socket {
    /// TCP socket that is not connected, perhaps bound to a port.
    Fresh {
        port: Option<u16>,
        fast_open: usize,
    },
    /// UDP socket without a port.
    FreshDatagram,
    Datagram(UdpId),
    Listener(ListenerId),
    Stream(ConnId),
}

/// State of a connection.
#[derive(Default)]
pub struct Stream {
    pub connected: bool,
    pub peer_closed: bool,
    pub closed: Option<CloseReason>,
    pub writable: u32,
    read: u32,
    written: u32,
    /// True if the error was reported.
    reported: bool,
    /// True if SO_LINGER is on with time 0: closing sends a reset.
    pub(super) abrupt: bool,
}

#[derive(Default)]
pub struct Sockets {
    pub(super) open: BTreeMap<i64, Socket>,
    streams: BTreeMap<ConnId, Stream>,
    /// Connections accepted by the stack, but not yet by the application.
    waiting: VecDeque<(ListenerId, ConnId)>,
    latest: Option<ConnId>,
}

/// Result of a call: a number, or the name of an error.
pub(super) type Outcome = Result<i64, &'static str>;

impl Sockets {
    /// Connection of `fd`, or the latest one.
    pub fn stream(&self, fd: Option<i64>) -> Option<(ConnId, &Stream)> {
        let id = match fd {
            None => self.latest?,
            Some(fd) => match self.open.get(&fd)? {
                Socket::Stream(id) => *id,
                _ => return None,
            },
        };
        Some((id, self.streams.get(&id)?))
    }

    fn add(&mut self, socket: Socket) -> i64 {
        let fd = (3..).find(|fd| !self.open.contains_key(fd)).unwrap_or(3);
        self.open.insert(fd, socket);
        fd
    }

    fn take_event(&mut self, event: Event) {
        let stream = self.streams.entry(event.conn).or_default();
        match event.kind {
            EventKind::Connected => stream.connected = true,
            EventKind::Accepted(listener) => {
                stream.connected = true;
                self.waiting.push_back((listener, event.conn));
            }
            EventKind::PeerClosed => stream.peer_closed = true,
            EventKind::Writable => stream.writable += 1,
            EventKind::Closed(reason) => stream.closed = Some(reason),
            _ => {}
        }
    }
}

impl Runner {
    /// Reads all pending events of the stack.
    pub fn drain(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            self.sockets.take_event(event);
        }
    }

    /// Makes `call`; returns its text with its result.
    pub fn call(&mut self, call: &Call) -> Result<String, Failure> {
        let outcome = self.outcome(call)?;
        let expected = match (call.result, &call.errno) {
            (None, _) => None,
            (Some(value), None) => Some(value.to_string()),
            (Some(value), Some(errno)) => Some(format!("{value} {errno}")),
        };
        let got = match outcome {
            Ok(value) => value.to_string(),
            Err(errno) => format!("-1 {errno}"),
        };
        let line = format!("{}({}) = ", call.name, call.args.join(", "));
        match expected {
            Some(expected) if expected != got => {
                Err(Failure::differs("the result differs", line.clone() + &expected, line + &got))
            }
            _ => Ok(line + &got),
        }
    }

    fn outcome(&mut self, call: &Call) -> Result<Outcome, Failure> {
        match call.name.as_str() {
            "socket" if call.args.iter().any(|arg| arg == "SOCK_DGRAM") => {
                Ok(Ok(self.sockets.add(Socket::FreshDatagram)))
            }
            "socket" => Ok(Ok(self.sockets.add(Socket::Fresh { port: None, fast_open: 0 }))),
            name if self.is_datagram(call)? => self.datagram(name, call),
            "bind" => {
                let port = call.args.get(1).and_then(|address| port_in(address)).unwrap_or(PORTS.1);
                self.sockets.open.insert(fd(call)?, Socket::Fresh { port: Some(port), fast_open: 0 });
                Ok(Ok(0))
            }
            "listen" => self.listen(call),
            "accept" => self.accept(call),
            "connect" => self.connect(call),
            "sendto" if call.args.iter().any(|arg| arg == "MSG_FASTOPEN") => self.connect(call),
            "write" | "send" | "sendto" => self.write(call),
            "read" | "recv" | "recvfrom" => self.read(call),
            "close" => self.close(call),
            "shutdown" => self.shutdown(call),
            "fcntl" => Ok(Ok(0)),
            "setsockopt" => self.set_option(call),
            "getsockopt" => self.get_option(call),
            other => Err(Failure::new(format!(
                "{other} is no call here; valid: socket, bind, listen, accept, connect, write, send, read, \
                 recv, close, shutdown, fcntl, setsockopt, getsockopt"
            ))),
        }
    }

    fn listen(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let fd = fd(call)?;
        let Some(Socket::Fresh { port, fast_open }) = self.sockets.open.get(&fd) else {
            return Ok(Err("EINVAL"));
        };
        let backlog = number(call, 1)? as usize;
        let options = ListenOptions { backlog, fast_open: *fast_open, ..ListenOptions::default() };
        match self.stack.listen(port.unwrap_or(PORTS.1), options) {
            Ok(id) => {
                self.sockets.open.insert(fd, Socket::Listener(id));
                Ok(Ok(0))
            }
            Err(_) => Ok(Err("EADDRINUSE")),
        }
    }

    fn accept(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let Some(Socket::Listener(listener)) = self.sockets.open.get(&fd(call)?).copied() else {
            return Ok(Err("EINVAL"));
        };
        loop {
            if let Some(at) = self.sockets.waiting.iter().position(|(of, _)| *of == listener) {
                let (_, id) = self.sockets.waiting.remove(at).expect("index from position");
                self.sockets.latest = Some(id);
                return Ok(Ok(self.sockets.add(Socket::Stream(id))));
            }
            match self.stack.poll_event() {
                Some(event) => self.sockets.take_event(event),
                None => return Ok(Err("EAGAIN")),
            }
        }
    }

    fn connect(&mut self, call: &Call) -> Result<Outcome, Failure> {
        self.drain();
        let fd = fd(call)?;
        let port = match self.sockets.open.get(&fd) {
            Some(Socket::Fresh { port, .. }) => port.unwrap_or(PORTS.1),
            Some(Socket::Stream(id)) => {
                let connected = self.sockets.streams[id].connected;
                return Ok(if connected { Err("EISCONN") } else { Err("EALREADY") });
            }
            _ => return Ok(Err("EBADF")),
        };
        let remote_port = call.args.iter().find_map(|address| port_in(address)).unwrap_or(PORTS.0);
        let peer = self.peer();
        self.connects(remote_port, port);
        let fast = call.args.iter().any(|arg| arg == "MSG_FASTOPEN");
        let data = bytes(0, if fast { number(call, 2)? as u32 } else { 0 });
        let target = SocketAddr::new(peer, remote_port);
        let connected = if fast {
            self.stack.connect_with(self.now, target, Some(port), &data)
        } else {
            self.stack.connect(self.now, target, Some(port)).map(|id| (id, 0))
        };
        match connected {
            Ok((id, accepted)) => {
                self.sockets.open.insert(fd, Socket::Stream(id));
                self.sockets.streams.insert(id, Stream { written: accepted as u32, ..Stream::default() });
                self.sockets.latest = Some(id);
                Ok(if fast { Ok(accepted as i64) } else { Err("EINPROGRESS") })
            }
            Err(ConnectError::NoRoute) => Ok(Err("ENETUNREACH")),
            Err(ConnectError::TooMany) => Ok(Err("EMFILE")),
            Err(_) => Ok(Err("EADDRINUSE")),
        }
    }

    /// Address of the peer.
    pub(super) fn peer(&self) -> IpAddr {
        if self.v6 { IpAddr::from(PEER_V6) } else { IpAddr::from(PEER_V4) }
    }

    /// Connection of the call's file descriptor, and its state.
    pub(super) fn stream_of(&mut self, call: &Call) -> Result<Option<(ConnId, &mut Stream)>, Failure> {
        self.drain();
        let Some(Socket::Stream(id)) = self.sockets.open.get(&fd(call)?).copied() else { return Ok(None) };
        self.sockets.latest = Some(id);
        Ok(Some((id, self.sockets.streams.entry(id).or_default())))
    }

    fn write(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let len = number(call, 2)?;
        let Some((id, stream)) = self.stream_of(call)? else { return Ok(Err("ENOTCONN")) };
        let data = bytes(stream.written, len as u32);
        let now = self.now;
        match self.stack.send(now, id, &data) {
            Ok(0) if len > 0 => Ok(Err("EAGAIN")),
            Ok(accepted) => {
                self.sockets.streams.entry(id).or_default().written += accepted as u32;
                Ok(Ok(accepted as i64))
            }
            Err(_) => Ok(Err("EPIPE")),
        }
    }

    fn read(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let len = number(call, 2)? as usize;
        let Some((id, _)) = self.stream_of(call)? else { return Ok(Err("ENOTCONN")) };
        let unread = self.stack.received(id);
        let accepted = unread.len().min(len);
        let stream = self.sockets.streams.entry(id).or_default();
        if accepted > 0 {
            if unread[..accepted] != bytes(stream.read, accepted as u32) {
                return Err(Failure::new("the bytes read are not those that the peer sent there"));
            }
            stream.read += accepted as u32;
            self.stack.consume(self.now, id, accepted);
            return Ok(Ok(accepted as i64));
        }
        match stream.closed {
            Some(reason) if !stream.reported && errno(reason).is_some() => {
                stream.reported = true;
                Ok(Err(errno(reason).unwrap_or_default()))
            }
            None if !stream.peer_closed => Ok(Err("EAGAIN")),
            _ => Ok(Ok(0)),
        }
    }

    fn close(&mut self, call: &Call) -> Result<Outcome, Failure> {
        let fd = fd(call)?;
        let found = self.stream_of(call)?.map(|(id, stream)| (id, stream.abrupt));
        if self.sockets.open.remove(&fd).is_none() {
            return Ok(Err("EBADF"));
        }
        match found {
            Some((id, true)) => self.stack.abort(self.now, id),
            Some((id, false)) => self.stack.close(self.now, id),
            None => {}
        }
        Ok(Ok(0))
    }

    fn shutdown(&mut self, call: &Call) -> Result<Outcome, Failure> {
        if call.args.get(1).is_none_or(|how| how != "SHUT_WR") {
            return Err(Failure::new("only our own half can be closed; valid: SHUT_WR"));
        }
        let Some((id, stream)) = self.stream_of(call)? else { return Ok(Err("ENOTCONN")) };
        if stream.closed.is_some() {
            return Ok(Err("ENOTCONN"));
        }
        self.stack.close(self.now, id);
        Ok(Ok(0))
    }
}

/// Error that a read returns after a connection ended for `reason`.
pub(super) fn errno(reason: CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::Finished => None,
        CloseReason::Reset => Some("ECONNRESET"),
        CloseReason::TimedOut => Some("ETIMEDOUT"),
        CloseReason::Aborted => Some("ECONNABORTED"),
        CloseReason::Unreachable(Unreachable::Port) => Some("ECONNREFUSED"),
        CloseReason::Unreachable(Unreachable::Network) => Some("ENETUNREACH"),
        CloseReason::Unreachable(_) => Some("EHOSTUNREACH"),
    }
}

pub(super) fn fd(call: &Call) -> Result<i64, Failure> {
    number(call, 0)
}

pub(super) fn number(call: &Call, at: usize) -> Result<i64, Failure> {
    let arg = call.args.get(at).and_then(|arg| arg.parse().ok());
    arg.ok_or_else(|| Failure::new(format!("argument {} of {} is no number", at + 1, call.name)))
}

/// Port in `… htons(443) …`.
pub(super) fn port_in(address: &str) -> Option<u16> {
    address.split_once("htons(")?.1.split_once(')')?.0.trim().parse().ok()
}
