//! The program: one thread, and pipes of a bounded size to the stack.
//!
//! It does one thing at a time: works on a request, or writes what there is
//! room for. It serves a batch of those that are ready before it asks for the
//! next, which is as `libgreenwave.so` makes it (ADR 0030): all of the most
//! urgent level, or where there is none [`AT_ONCE`] others, the most urgent first; equals in the
//! order in which they became ready. After [`LEFT_IN_A_ROW`] batches without others so many
//! of them come along.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use net::ConnId;
use net::classify::Private;
use queueing::{Discipline, Entry, Fifo, Label, Priority, Pushed, Span, Strict, Time};
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

/// A connection that is ready.
#[derive(Debug)]
struct Ready(usize, Priority);

impl Entry for Ready {
    fn label(&self) -> Label {
        Label::new(self.1)
    }
}

struct State {
    pages: Vec<Page>,
    ready: Strict<Fifo<Ready>>,
    /// Those that it serves before it asks again.
    batch: VecDeque<usize>,
    /// Batches in a row that passed over others.
    left: u8,
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
pub(super) struct Site(Rc<RefCell<State>>);

/// A connection's pipe.
pub(super) struct Way(Rc<RefCell<State>>, usize);

/// Connections of a batch, and those of them that are not of the most urgent level.
const BATCH: usize = 64;
const AT_ONCE: usize = 2;
/// Batches in a row that may pass over others.
const LEFT_IN_A_ROW: u8 = 8;
/// Connections that can be ready at once.
const READY_MAX: usize = 1 << 16;

impl Program {
    /// Works for `backend` on each request and answers it with `bytes`.
    pub(super) fn new(bytes: usize, backend: Span) -> Self {
        let mut page = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        page.resize(page.len() + bytes, b'x');
        let ready = Strict::new(READY_MAX, |_| Fifo::new(READY_MAX));
        let (pages, happened, doing, busy) = (Vec::new(), Vec::new(), None, Span::ZERO);
        let (batch, left) = (VecDeque::new(), 0);
        Self(Rc::new(RefCell::new(State { pages, ready, batch, left, happened, page, backend, doing, busy })))
    }

    /// It listens on `port`.
    pub(super) fn site(&self, port: u16) -> Site {
        self.0.borrow_mut().happened.push(Happened::Listen(port));
        Site(Rc::clone(&self.0))
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
            let at = state.next(now)?;
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
    pub(super) fn end(&mut self, now: Time) {
        let mut state = self.0.borrow_mut();
        let Some((at, written)) = state.doing.take() else { return };
        let page = &mut state.pages[at];
        page.unwritten -= written;
        page.piped += written;
        if let Some(conn) = page.conn {
            state.happened.push(Happened::Pipe { conn, readable: true, writable: false, gone: false });
        }
        state.make_ready(now, at);
    }
}

impl State {
    /// Whom it serves next.
    fn next(&mut self, now: Time) -> Option<usize> {
        if self.batch.is_empty() {
            let is_urgent = |state: &Self| state.ready.levels_used().contains(Priority::HIGHEST);
            let passes_over = is_urgent(self) && self.left < LEFT_IN_A_ROW;
            let mut others = 0;
            while self.batch.len() < BATCH {
                let is_urgent = is_urgent(self);
                if !is_urgent && (others == AT_ONCE || passes_over) {
                    break;
                }
                others += usize::from(!is_urgent);
                let Some(Ready(at, _)) = self.ready.pop(now) else { break };
                self.batch.push_back(at);
            }
            self.left = if passes_over && !self.ready.is_empty() { self.left + 1 } else { 0 };
        }
        self.batch.pop_front()
    }

    /// Puts `at` among the ready, if it can do something.
    fn make_ready(&mut self, now: Time, at: usize) {
        let page = &mut self.pages[at];
        let can_write = page.unwritten > 0 && page.piped < ROOM;
        let can_begin = page.unwritten == 0 && page.asked >= REQUEST.len();
        if (can_write || can_begin) && !std::mem::replace(&mut page.is_ready, true) {
            let pushed = self.ready.push(now, Ready(at, page.level));
            assert!(matches!(pushed, Pushed::Queued), "there is room for every connection");
        }
    }
}

impl Programs for Site {
    type Pipe = Way;

    fn poll(&mut self, into: &mut Vec<Happened>) -> bool {
        into.append(&mut self.0.borrow_mut().happened);
        !into.is_empty()
    }

    fn offer(&mut self, conn: ConnId, _: SocketAddr, _: SocketAddr) -> Option<Way> {
        let mut state = self.0.borrow_mut();
        let at = slot(conn);
        if state.pages.len() <= at {
            state.pages.resize(at + 1, Page::default());
        }
        state.pages[at] = Page { conn: Some(conn), ..Page::default() };
        Some(Way(Rc::clone(&self.0), at))
    }

    // A site opens no connections.
    fn opening(&mut self, _: u64, _: ConnId, _: SocketAddr, _: SocketAddr) -> Option<Way> {
        None
    }

    fn refuse(&mut self, _: u64, _: NotOpened) {}

    fn opened(&mut self, _: ConnId, _: &mut Way) {}

    fn failed(&mut self, _: ConnId, _: NotOpened) {}
}

impl Pipe for Way {
    fn tell(&mut self, level: Priority, _: &Private) {
        self.0.borrow_mut().pages[self.1].level = level;
    }

    fn write(&mut self, bytes: &[u8]) -> Wrote {
        let mut state = self.0.borrow_mut();
        state.pages[self.1].asked += bytes.len();
        state.make_ready(Time::ZERO, self.1);
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
        state.make_ready(Time::ZERO, self.1);
        Read::Some(len)
    }

    fn finish(&mut self) {}

    fn want_room(&mut self, _: bool) {}
}
