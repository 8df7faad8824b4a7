//! The program: one thread, and pipes of a bounded size to the stack.
//!
//! It does one thing at a time: works on a request, or writes what there is
//! room for. It waits by a level-triggered `epoll`, of which `libgreenwave.so`
//! gives it what [`batch`] says once its connections differ in urgency (ADR 0030),
//! and it serves such a batch before it asks for the next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use net::ConnId;
use net::classify::Private;
use queueing::event_order::{self, Rank, ReorderResult, arrange};
use queueing::{Priority, PrioritySet, Span, Time};
use runtime::streams::{Happened, NotOpened, Pipe, Programs, Read, Wrote};

use super::{REQUEST, slot};

/// What a pipe holds in each direction: a socket pair's default.
const ROOM: usize = 208 * 1024;
/// What a write costs, besides what it costs per byte.
const WRITE: Span = Span::from_micros(1);
/// Bytes that are copied in a nanosecond.
const COPIED: u64 = 10;

/// One of its connections.
#[derive(Clone, Debug, Default)]
struct Page {
    conn: Option<ConnId>,
    level: Priority,
    /// Bytes of requests that it has not looked at.
    asked: usize,
    /// Bytes of the page under way that are not written, and that wait in the pipe.
    unwritten: usize,
    piped: usize,
    /// How far the stack has read the page.
    read: usize,
    /// Stands among the ready.
    is_ready: bool,
}

struct State {
    pages: Vec<Page>,
    /// Those that can do something, as the kernel has them: who became ready
    /// last, or was returned last, comes last.
    ready: VecDeque<usize>,
    /// Those that it serves before it asks again.
    batch: VecDeque<usize>,
    /// Batches in a row in which who is less urgent had no turn.
    left: u8,
    /// The levels that connections have had.
    levels: PrioritySet,
    happened: Vec<Happened>,
    /// Head and body, as they are sent.
    page: Vec<u8>,
    backend: Span,
    /// What it does now: for whom, and how much is written when that is done.
    doing: Option<(usize, usize)>,
    busy: Span,
}

/// The program.
pub(super) struct Program(Rc<RefCell<State>>);

/// Its side as the stack sees it.
pub(super) struct WebServer(Rc<RefCell<State>>);

/// A connection's pipe.
pub(super) struct ServerConnection(Rc<RefCell<State>>, usize);

impl Program {
    /// Works for `backend` on each request and answers it with `bytes`.
    pub(super) fn new(bytes: usize, backend: Span) -> Self {
        let mut page = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        page.resize(page.len() + bytes, b'x');
        Self(Rc::new(RefCell::new(State {
            pages: Vec::new(),
            ready: VecDeque::new(),
            batch: VecDeque::new(),
            left: 0,
            levels: PrioritySet::NONE,
            happened: Vec::new(),
            page,
            backend,
            doing: None,
            busy: Span::ZERO,
        })))
    }

    /// It listens on `port`.
    pub(super) fn site(&self, port: u16) -> WebServer {
        self.0.borrow_mut().happened.push(Happened::Listen { port, fast_open: 0 });
        WebServer(Rc::clone(&self.0))
    }

    /// Whether the stack has something to hear.
    pub(super) fn has_news(&self) -> bool {
        !self.0.borrow().happened.is_empty()
    }

    /// How long it has worked.
    pub(super) fn busy(&self) -> Span {
        self.0.borrow().busy
    }

    /// Begins the next that it can do, if it does nothing; when that will be done.
    pub(super) fn begin(&mut self, now: Time) -> Option<Time> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        if state.doing.is_some() {
            return None;
        }
        loop {
            let at = state.next()?;
            let page = &mut state.pages[at];
            page.is_ready = false;
            let mut cost = WRITE;
            if page.unwritten == 0 && page.asked >= REQUEST.len() {
                page.asked -= REQUEST.len();
                page.unwritten = state.page.len();
                cost += state.backend;
            }
            let written = page.unwritten.min(ROOM - page.piped);
            if written == 0 {
                continue;
            }
            cost += Span::from_nanos(written as u64 / COPIED);
            state.doing = Some((at, written));
            state.busy += cost;
            return Some(now + cost);
        }
    }

    /// What it did is done.
    pub(super) fn end(&mut self) {
        let mut state = self.0.borrow_mut();
        let Some((at, written)) = state.doing.take() else { return };
        let page = &mut state.pages[at];
        page.unwritten -= written;
        page.piped += written;
        if let Some(conn) = page.conn {
            state.happened.push(Happened::Pipe { conn, readable: true, writable: false, gone: false });
        }
        state.make_ready(at);
    }
}

impl State {
    /// Whom it serves next.
    fn next(&mut self) -> Option<usize> {
        if self.batch.is_empty() {
            self.wait();
        }
        self.batch.pop_front()
    }

    /// What `epoll_wait` returns now is the next batch. Who is passed over stays
    /// ready, behind those who are not looked at yet.
    fn wait(&mut self) {
        let mut batch: Vec<usize> = self.ready.drain(..self.ready.len().min(event_order::BATCH)).collect();
        if self.levels.first() != self.levels.last() {
            let rank = |&at: &usize| Some(Rank { level: self.pages[at].level.level(), can_wait: true });
            let returned = batch.clone();
            let ReorderResult { kept, left } = arrange(&mut batch, rank, self.left);
            self.left = left;
            batch.truncate(kept);
            self.ready.extend(returned.into_iter().filter(|at| !batch.contains(at)));
        }
        self.batch.extend(batch);
    }

    /// Puts `at` among the ready, if it can do something.
    fn make_ready(&mut self, at: usize) {
        let page = &mut self.pages[at];
        let can_write = page.unwritten > 0 && page.piped < ROOM;
        let can_begin = page.unwritten == 0 && page.asked >= REQUEST.len();
        if (can_write || can_begin) && !std::mem::replace(&mut page.is_ready, true) {
            self.ready.push_back(at);
        }
    }
}

impl Programs for WebServer {
    type Pipe = ServerConnection;

    fn poll(&mut self, into: &mut Vec<Happened>) -> bool {
        into.append(&mut self.0.borrow_mut().happened);
        !into.is_empty()
    }

    fn offer(&mut self, conn: ConnId, _: SocketAddr, _: SocketAddr) -> Option<ServerConnection> {
        let mut state = self.0.borrow_mut();
        let at = slot(conn);
        if state.pages.len() <= at {
            state.pages.resize(at + 1, Page::default());
        }
        state.pages[at] = Page { conn: Some(conn), ..Page::default() };
        Some(ServerConnection(Rc::clone(&self.0), at))
    }

    // A site opens no connections.
    fn opening(&mut self, _: u64, _: ConnId, _: SocketAddr, _: SocketAddr) -> Option<ServerConnection> {
        None
    }

    fn refuse(&mut self, _: u64, _: NotOpened) {}

    fn opened(&mut self, _: ConnId, _: &mut ServerConnection) {}

    fn failed(&mut self, _: ConnId, _: NotOpened) {}
}

impl Pipe for ServerConnection {
    fn tell(&mut self, level: Priority, _: &Private) {
        let mut state = self.0.borrow_mut();
        state.levels = state.levels.with(level);
        state.pages[self.1].level = level;
    }

    fn write(&mut self, bytes: &[u8]) -> Wrote {
        let mut state = self.0.borrow_mut();
        state.pages[self.1].asked += bytes.len();
        state.make_ready(self.1);
        Wrote::Some(bytes.len())
    }

    fn read(&mut self, bytes: &mut [u8]) -> Read {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let page = &mut state.pages[self.1];
        let whole = state.page.len();
        let len = bytes.len().min(page.piped).min(whole - page.read);
        if len == 0 {
            return Read::Nothing;
        }
        bytes[..len].copy_from_slice(&state.page[page.read..page.read + len]);
        page.piped -= len;
        page.read = (page.read + len) % whole;
        state.make_ready(self.1);
        Read::Some(len)
    }

    fn finish(&mut self) {}

    fn want_room(&mut self, _: bool) {}
}
