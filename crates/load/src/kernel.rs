//! Open-loop load client on the Linux kernel's sockets, for any server.
//!
//! One thread, non-blocking sockets, edge-triggered readiness. It spins for the last two
//! milliseconds before a due time, since a sleep could be late. Requests are pipelined on busy
//! connections, as by the client on greenwave's stack.

mod error;
mod response_parser;

use std::collections::VecDeque;
use std::io::{self, Read as _, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use queueing::{Clock, Span, Time};

pub use error::KernelError;
use response_parser::{Read, ResponseParser};

use crate::client::Progress;
use crate::in_flight::InFlightTable;
use crate::plan::Plan;
use crate::protocol::{http, memcached};
use crate::report::Report;
use crate::request_encoder::RequestEncoder;

/// Application protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppProtocol {
    /// Synthetic protocol.
    Synthetic,
    /// Synthetic protocol with request bodies from a text, for servers that use the bodies.
    Texts {
        /// The text, repeated.
        text: Vec<u8>,
    },
    /// memcached's text protocol; a class's kind is an operation of [`memcached`].
    Memcached {
        /// Number of keys, 1 or more.
        keys: u32,
    },
    /// HTTP/1.1; classes differ in name and share only.
    Http(http::HttpRequest),
}

/// Maximum number of concurrent handshakes.
const OPENING_MAX: usize = 128;
/// Delay before a failed connection is opened again.
const RETRY_AFTER: Span = Span::from_millis(10);
/// Time limit for opening all connections.
const OPEN_WITHIN: Span = Span::from_secs(30);
/// Waits shorter than this spin, since the kernel's timer is too coarse.
const SPIN: Span = Span::from_millis(2);
/// Maximum sleep, which bounds the reaction time to the stop flag.
const SLEEP_MAX: Span = Span::from_millis(100);
/// Number of file descriptors in addition to the connections.
const FILES_OTHER: u64 = 64;

/// Runs `plan` against `target`.
///
/// Calls `progress` about ten times a second. Setting `stop` ends the run; requests in flight
/// count as never sent or unanswered.
///
/// # Errors
/// If the run could not start; later failures are in the report.
pub fn run(
    plan: &Plan,
    target: SocketAddr,
    protocol: &AppProtocol,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Report, KernelError> {
    plan.validate()?;
    if let AppProtocol::Http(request) = protocol {
        request.validate()?;
    }
    raise_file_limit(plan.connections)?;
    let mut run = Run::new(plan, target, protocol, clock)?;
    let mut last_progress = clock.now();
    run.open(stop)?;
    run.start = clock.now();
    while !run.in_flight.is_done() {
        if stop.load(Ordering::Relaxed) {
            run.in_flight.abandon();
            break;
        }
        run.poll_once()?;
        let now = clock.now();
        if now.since(last_progress) >= SLEEP_MAX {
            last_progress = now;
            progress(run.progress());
        }
    }
    progress(run.progress());
    Ok(Report {
        world: "kernel".to_owned(),
        seed: plan.seed,
        machine: None,
        reconnects: run.reconnects,
        garbled: run.garbled,
        classes: run.in_flight.report(),
        pace: run.in_flight.pace(),
    })
}

/// Raises the soft limit on open files to the number that `connections` need.
fn raise_file_limit(connections: u32) -> Result<(), KernelError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let needed = u64::from(connections) + FILES_OTHER;
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let max = limit.maximum.unwrap_or(u64::MAX);
    if needed > max {
        return Err(KernelError::Files { connections, max: max.saturating_sub(FILES_OTHER) });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| KernelError::Io(error.into()))
}

/// State of a connection.
enum Socket {
    Closed,
    Opening(TcpStream),
    Open(TcpStream, ResponseParser),
}

struct Run<'a> {
    target: SocketAddr,
    protocol: &'a AppProtocol,
    clock: &'a dyn Clock,
    poll: Poll,
    events: Events,
    start: Time,
    running: bool,
    in_flight: InFlightTable,
    sockets: Vec<Socket>,
    reconnect_queue: VecDeque<(Time, u32)>,
    opening: usize,
    open: u32,
    reconnects: u64,
    garbled: u64,
    last_error: String,
    encoder: RequestEncoder,
    /// The HTTP request, or the last memcached request.
    text: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(
        plan: &Plan,
        target: SocketAddr,
        protocol: &'a AppProtocol,
        clock: &'a dyn Clock,
    ) -> io::Result<Self> {
        let mut text = Vec::new();
        if let AppProtocol::Http(request) = protocol {
            request.write(&target.to_string(), &mut text);
        }
        let mut encoder = RequestEncoder::new(plan);
        if let AppProtocol::Texts { text } = protocol {
            encoder.fill(text);
        }
        Ok(Self {
            target,
            protocol,
            clock,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            start: Time::ZERO,
            running: false,
            in_flight: InFlightTable::new(plan),
            sockets: (0..plan.connections).map(|_| Socket::Closed).collect(),
            reconnect_queue: (0..plan.connections).map(|conn| (Time::ZERO, conn)).collect(),
            opening: 0,
            open: 0,
            reconnects: 0,
            garbled: 0,
            last_error: "no answer".to_owned(),
            encoder,
            text,
            buffer: vec![0; 64 * 1024],
        })
    }

    fn progress(&mut self) -> Progress {
        let (due, settled) = self.in_flight.progress();
        let tail = self.in_flight.take_p999();
        Progress { open: self.open, connections: self.sockets.len() as u32, due, settled, tail }
    }

    /// Opens all connections before the first request is due.
    fn open(&mut self, stop: &AtomicBool) -> Result<(), KernelError> {
        let end = self.clock.now() + OPEN_WITHIN;
        while (self.open as usize) < self.sockets.len() {
            let now = self.clock.now();
            if now >= end || stop.load(Ordering::Relaxed) {
                let (open, connections) = (self.open, self.sockets.len() as u32);
                let why = std::mem::take(&mut self.last_error);
                return Err(KernelError::Opening { target: self.target, open, connections, why });
            }
            self.open_more(now);
            self.wait(RETRY_AFTER)?;
        }
        self.running = true;
        Ok(())
    }

    /// One iteration: sends due requests, waits, and reads responses.
    fn poll_once(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.open_more(now);
        let since = self.since_start();
        self.in_flight.expire(since);
        while let Some(conn) = self.in_flight.enqueue_due(since) {
            self.send(conn);
        }
        let next = self.in_flight.next_due().into_iter().chain(self.in_flight.next_expiry()).min();
        let until = next.map_or(SLEEP_MAX, |t| t.since(self.since_start()));
        let retry = self.reconnect_queue.front().map_or(SLEEP_MAX, |(due, _)| due.since(now));
        self.wait(until.min(retry).min(SLEEP_MAX))
    }

    fn since_start(&self) -> Time {
        Time::ZERO + self.clock.now().since(self.start)
    }

    /// Polls for at most `span` and handles readiness.
    fn wait(&mut self, span: Span) -> io::Result<()> {
        let ms = span.saturating_sub(SPIN).as_nanos() / 1_000_000;
        match self.poll.poll(&mut self.events, Some(Duration::from_millis(ms))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let ready: Vec<(u32, bool, bool)> = self
            .events
            .iter()
            .map(|e| (e.token().0 as u32, e.is_readable() || e.is_error(), e.is_writable()))
            .collect();
        for (conn, readable, writable) in ready {
            if matches!(self.sockets[conn as usize], Socket::Opening(_)) {
                self.on_opening(conn);
            } else if writable {
                self.send(conn);
            }
            if readable {
                self.read(conn);
            }
        }
        Ok(())
    }

    fn open_more(&mut self, now: Time) {
        while self.opening < OPENING_MAX
            && let Some(&(due, conn)) = self.reconnect_queue.front()
            && due <= now
        {
            self.reconnect_queue.pop_front();
            let opened = TcpStream::connect(self.target).and_then(|mut stream| {
                let both = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, Token(conn as usize), both)?;
                Ok(stream)
            });
            match opened {
                Ok(stream) => {
                    self.sockets[conn as usize] = Socket::Opening(stream);
                    self.opening += 1;
                }
                Err(error) => {
                    self.last_error = error.to_string();
                    self.reconnect_queue.push_back((now + RETRY_AFTER, conn));
                }
            }
        }
    }

    fn on_opening(&mut self, conn: u32) {
        let slot = &mut self.sockets[conn as usize];
        let Socket::Opening(stream) = std::mem::replace(slot, Socket::Closed) else { return };
        let failure = match stream.take_error() {
            Ok(None) => match stream.peer_addr() {
                Ok(_) => stream.set_nodelay(true).err(),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    *slot = Socket::Opening(stream);
                    return;
                }
                Err(error) => Some(error),
            },
            Ok(error) => error,
            Err(error) => Some(error),
        };
        self.opening -= 1;
        if let Some(error) = failure {
            return self.closed(conn, error.to_string());
        }
        *slot = Socket::Open(stream, ResponseParser::new(self.protocol));
        self.open += 1;
        self.send(conn);
    }

    /// Sends queued requests on `conn` until the socket buffer is full.
    fn send(&mut self, conn: u32) {
        if !self.running {
            return;
        }
        while let Some((request, offset)) = self.in_flight.unsent(conn) {
            let Socket::Open(stream, _) = &mut self.sockets[conn as usize] else { return };
            let bytes = match self.protocol {
                AppProtocol::Synthetic | AppProtocol::Texts { .. } => self.encoder.write(request),
                AppProtocol::Http(_) => &self.text,
                AppProtocol::Memcached { keys } => {
                    self.text.clear();
                    memcached::write(self.encoder.kind(request), request.id, *keys, &mut self.text);
                    &self.text
                }
            };
            let len = bytes.len();
            match stream.write(&bytes[offset..]) {
                Ok(sent) => {
                    let at = self.since_start();
                    self.in_flight.sent(conn, at, sent, len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lost(conn, error.to_string()),
            }
        }
    }

    fn read(&mut self, conn: u32) {
        loop {
            let Socket::Open(stream, parser) = &mut self.sockets[conn as usize] else { return };
            let n = match stream.read(&mut self.buffer) {
                Ok(0) => return self.lost(conn, "the server closed the connection".to_owned()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lost(conn, error.to_string()),
            };
            let at = Time::ZERO + self.clock.now().since(self.start);
            let read = parser.push(&self.buffer[..n], |id, stages, is_error| {
                if is_error {
                    self.in_flight.response_is_error(conn);
                }
                self.in_flight.answered(conn, id, at, stages).is_ok()
            });
            match read {
                Read::Answers => {}
                Read::Last => return self.lost(conn, "the server closed the connection".to_owned()),
                Read::Garbled => {
                    self.garbled += 1;
                    return self.lost(conn, "the server sent a malformed response".to_owned());
                }
            }
        }
    }

    /// Handles the loss of an open connection.
    fn lost(&mut self, conn: u32, why: String) {
        self.open -= 1;
        self.reconnects += u64::from(self.running);
        self.closed(conn, why);
    }

    fn closed(&mut self, conn: u32, why: String) {
        self.last_error = why;
        self.sockets[conn as usize] = Socket::Closed;
        self.in_flight.on_disconnect(conn);
        self.reconnect_queue.push_back((self.clock.now() + RETRY_AFTER, conn));
    }
}

#[cfg(test)]
mod tests;
