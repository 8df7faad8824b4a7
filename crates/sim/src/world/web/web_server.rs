//! Model of the web server: one thread, and bounded pipes to the stack.
//!
//! The thread works on a request, or writes as much as the pipe holds. It waits with a
//! level-triggered `epoll`; `libgreenwave.so` reorders the result as [`reorder`] does once its
//! connections differ in priority (ADR 0030). The thread serves a whole batch before its next
//! wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use classify::Private;
use net::ConnId;
use queueing::event_order::{self, Rank, ReorderResult, reorder};
use queueing::{Priority, PrioritySet, Span, Time};
use runtime::socket_proxy::{AppEvent, AppSockets, AppStream, ConnectFailure, ReadResult, WriteResult};

use super::{REQUEST, slot};

/// Capacity of a pipe per direction: a socket pair's default.
const ROOM: usize = 208 * 1024;
/// Fixed cost of a write.
const WRITE: Span = Span::from_micros(1);
/// Bytes copied per nanosecond.
const COPIED: u64 = 10;

/// State of one connection.
#[derive(Clone, Debug, Default)]
struct Connection {
    conn: Option<ConnId>,
    level: Priority,
    /// Bytes of unread requests.
    unread: usize,
    /// Bytes of the current page: not yet written, and waiting in the pipe.
    unwritten: usize,
    piped: usize,
    /// Bytes of the page that the stack has read.
    read: usize,
    /// True while in the ready list.
    is_ready: bool,
}

struct State {
    connections: Vec<Connection>,
    /// Ready list in the kernel's order: the connection that became ready or was returned last
    /// is last.
    ready: VecDeque<usize>,
    /// Current batch.
    batch: VecDeque<usize>,
    /// Consecutive batches without a low-priority connection.
    skipped: u8,
    /// Levels of all connections so far.
    levels: PrioritySet,
    events: Vec<AppEvent>,
    /// Response head and body.
    page: Vec<u8>,
    service_time: Span,
    /// Current connection, and bytes written on completion.
    current: Option<(usize, usize)>,
    busy: Span,
}

/// Web server process.
pub(super) struct Program(Rc<RefCell<State>>);

/// The process as seen by the stack.
pub(super) struct WebServer(Rc<RefCell<State>>);

/// Pipe of a connection.
pub(super) struct ServerConnection(Rc<RefCell<State>>, usize);

impl Program {
    /// Works for `service_time` on each request and answers with `bytes`.
    pub(super) fn new(bytes: usize, service_time: Span) -> Self {
        let mut page = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        page.resize(page.len() + bytes, b'x');
        Self(Rc::new(RefCell::new(State {
            connections: Vec::new(),
            ready: VecDeque::new(),
            batch: VecDeque::new(),
            skipped: 0,
            levels: PrioritySet::NONE,
            events: Vec::new(),
            page,
            service_time,
            current: None,
            busy: Span::ZERO,
        })))
    }

    /// Listens on `port`.
    pub(super) fn listen(&self, port: u16) -> WebServer {
        self.0.borrow_mut().events.push(AppEvent::Listen { port, fast_open: 0, hops: Default::default() });
        WebServer(Rc::clone(&self.0))
    }

    /// True if the stack has events to process.
    pub(super) fn has_events(&self) -> bool {
        !self.0.borrow().events.is_empty()
    }

    /// Busy time.
    pub(super) fn busy(&self) -> Span {
        self.0.borrow().busy
    }

    /// Starts the next piece of work if idle; returns its end.
    pub(super) fn begin(&mut self, now: Time) -> Option<Time> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        if state.current.is_some() {
            return None;
        }
        loop {
            let at = state.next()?;
            let page = &mut state.connections[at];
            page.is_ready = false;
            let mut cost = WRITE;
            if page.unwritten == 0 && page.unread >= REQUEST.len() {
                page.unread -= REQUEST.len();
                page.unwritten = state.page.len();
                cost += state.service_time;
            }
            let written = page.unwritten.min(ROOM - page.piped);
            if written == 0 {
                continue;
            }
            cost += Span::from_nanos(written as u64 / COPIED);
            state.current = Some((at, written));
            state.busy += cost;
            return Some(now + cost);
        }
    }

    /// Completes the current piece of work.
    pub(super) fn end(&mut self) {
        let mut state = self.0.borrow_mut();
        let Some((at, written)) = state.current.take() else { return };
        let page = &mut state.connections[at];
        page.unwritten -= written;
        page.piped += written;
        if let Some(conn) = page.conn {
            state.events.push(AppEvent::Pipe { conn, readable: true, writable: false, gone: false });
        }
        state.make_ready(at);
    }
}

impl State {
    /// Next connection to serve.
    fn next(&mut self) -> Option<usize> {
        if self.batch.is_empty() {
            self.wait();
        }
        self.batch.pop_front()
    }

    /// Takes the result of `epoll_wait` as the next batch. Connections passed over remain
    /// ready, after those not yet returned.
    fn wait(&mut self) {
        let mut batch: Vec<usize> = self.ready.drain(..self.ready.len().min(event_order::BATCH)).collect();
        if self.levels.first() != self.levels.last() {
            let rank = |&at: &usize| Some(Rank { level: self.connections[at].level.level(), can_wait: true });
            let returned = batch.clone();
            let ReorderResult { retained, left } = reorder(&mut batch, rank, self.skipped);
            self.skipped = left;
            batch.truncate(retained);
            self.ready.extend(returned.into_iter().filter(|at| !batch.contains(at)));
        }
        self.batch.extend(batch);
    }

    /// Adds `at` to the ready list if it can make progress.
    fn make_ready(&mut self, at: usize) {
        let page = &mut self.connections[at];
        let can_write = page.unwritten > 0 && page.piped < ROOM;
        let can_begin = page.unwritten == 0 && page.unread >= REQUEST.len();
        if (can_write || can_begin) && !std::mem::replace(&mut page.is_ready, true) {
            self.ready.push_back(at);
        }
    }
}

impl AppSockets for WebServer {
    type Pipe = ServerConnection;

    fn poll(&mut self, into: &mut Vec<AppEvent>) -> bool {
        into.append(&mut self.0.borrow_mut().events);
        !into.is_empty()
    }

    fn offer(&mut self, conn: ConnId, _: SocketAddr, _: SocketAddr) -> Option<ServerConnection> {
        let mut state = self.0.borrow_mut();
        let at = slot(conn);
        if state.connections.len() <= at {
            state.connections.resize(at + 1, Connection::default());
        }
        state.connections[at] = Connection { conn: Some(conn), ..Connection::default() };
        Some(ServerConnection(Rc::clone(&self.0), at))
    }

    // The server opens no connections.
    fn opening(&mut self, _: u64, _: ConnId, _: SocketAddr, _: SocketAddr) -> Option<ServerConnection> {
        None
    }

    fn refuse(&mut self, _: u64, _: ConnectFailure) {}

    fn opened(&mut self, _: ConnId, _: &mut ServerConnection) {}

    fn failed(&mut self, _: ConnId, _: ConnectFailure) {}
}

impl AppStream for ServerConnection {
    fn publish(&mut self, level: Priority, _: &Private) {
        let mut state = self.0.borrow_mut();
        state.levels = state.levels.with(level);
        state.connections[self.1].level = level;
    }

    fn write(&mut self, bytes: &[u8]) -> WriteResult {
        let mut state = self.0.borrow_mut();
        state.connections[self.1].unread += bytes.len();
        state.make_ready(self.1);
        WriteResult::Some(bytes.len())
    }

    fn read(&mut self, bytes: &mut [u8]) -> ReadResult {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let page = &mut state.connections[self.1];
        let page_len = state.page.len();
        let len = bytes.len().min(page.piped).min(page_len - page.read);
        if len == 0 {
            return ReadResult::Nothing;
        }
        bytes[..len].copy_from_slice(&state.page[page.read..page.read + len]);
        page.piped -= len;
        page.read = (page.read + len) % page_len;
        state.make_ready(self.1);
        ReadResult::Some(len)
    }

    fn finish(&mut self) {}

    fn want_space(&mut self, _: bool) {}
}
