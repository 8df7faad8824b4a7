//! Responses on their way to TCP.
//!
//! The send buffer takes what it has room for. Of a [`Body`](crate::app::Body) the rest does not
//! exist until there is room again; bytes that the application has appended wait
//! here, where they count towards the stack's memory
//! ([`memory_max`](net::stack::Config::memory_max)). When that is full, the
//! connection that has taken nothing of its response for the longest time is
//! reset: a peer that reads makes room by itself.

use std::collections::BTreeSet;

use net::Device;
use net::stack::{ConnId, NotOpen};
use queueing::Time;

use super::Shard;
use super::connections::{State, aged};
use super::slow_requests::{End, ServedRequest};
use crate::app::{App, RequestAttributes, Rest};

/// The part of a response that TCP does not have yet.
#[derive(Debug, Default)]
pub(super) struct Response {
    bytes: Vec<u8>,
    /// So many of them are sent.
    sent: usize,
    /// What follows them.
    rest: Option<Rest>,
    /// Bytes of memory that are counted as held by the stack.
    held: usize,
    /// When TCP last took some, while the rest waits.
    moved: Time,
}

impl Response {
    pub(super) fn new(bytes: Vec<u8>, rest: Option<Rest>) -> Self {
        Self { bytes, rest, ..Self::default() }
    }

    /// Gives memory back, once what is left takes up less than half of it.
    fn shrink(&mut self) {
        let (left, capacity) = (self.bytes.len() - self.sent, self.bytes.capacity());
        if capacity >= SHRINK_MIN && 2 * left <= capacity {
            self.bytes.drain(..std::mem::take(&mut self.sent));
            self.bytes.shrink_to_fit();
        }
    }
}

/// Connections with bytes that wait for room, the one that has moved least
/// recently first.
#[derive(Debug, Default)]
pub(super) struct SlowReaders(BTreeSet<(Time, ConnId)>);

/// Bytes of a body that are generated at once.
const PIECE: usize = 64 * 1024;
/// Buffers that are smaller keep their size.
const SHRINK_MIN: usize = 64 * 1024;

/// Why a response does not go on.
enum Stop {
    /// TCP has no room.
    Full,
    /// The connection takes no more.
    Closed,
    /// The application's body panicked, or wrote another number of bytes.
    Failed,
}

impl From<NotOpen> for Stop {
    fn from(_: NotOpen) -> Self {
        Self::Closed
    }
}

impl<D: Device, A: App> Shard<D, A> {
    /// Goes on with a response that waited for room.
    pub(super) fn flush_rest(&mut self, now: Time, id: ConnId) {
        let passed = self.conns.get(id).and_then(|conn| conn.passed.take());
        let end = self.flush(now, id);
        match (passed, end) {
            (Some(passed), Some(end)) => self.on_end(now, *passed, end),
            (passed, _) => {
                if let Some(conn) = self.conns.get(id) {
                    conn.passed = passed;
                }
            }
        }
    }

    /// Keeps a request that is over, if it is slow.
    pub(super) fn on_end(&mut self, now: Time, (passed, told): (ServedRequest, RequestAttributes), end: End) {
        self.stats.slow.offer(passed.level(), passed.total(now), || passed.until(now, end, told));
    }

    /// Sends as much of the response as TCP takes; the rest when it is
    /// writable. As [`Shard::answer`].
    pub(super) fn flush(&mut self, now: Time, id: ConnId) -> Option<End> {
        match self.send_response(now, id)? {
            Ok(()) => {}
            Err(Stop::Full) => return self.keep_rest(now, id),
            Err(Stop::Closed) => {
                self.stats.counters.late += 1;
                self.abort(now, id);
                return Some(End::Gone);
            }
            Err(Stop::Failed) => {
                self.stats.counters.panics += 1;
                self.abort(now, id);
                return Some(End::Failed);
            }
        }
        let conn = self.conns.get(id)?;
        let response = std::mem::take(&mut conn.response);
        conn.state = State::Quiet;
        let (close, peer_closed) = (conn.close, conn.peer_closed);
        let next = conn.most_urgent().copied();
        self.drop_response(id, response);
        self.stats.counters.responses += 1;
        match next {
            _ if close => self.close(now, id),
            Some(mark) => self.enter(now, id, aged(&mark, now), mark.kind),
            None if peer_closed => self.close(now, id),
            None => {}
        }
        Some(End::Answered)
    }

    /// Hands TCP what it takes; `None` where there is no such connection.
    fn send_response(&mut self, now: Time, id: ConnId) -> Option<Result<(), Stop>> {
        let Self { conns, stack, buffers, .. } = self;
        let Response { bytes, sent, rest, .. } = &mut conns.get(id)?.response;
        let mut send = || {
            while *sent < bytes.len() {
                match stack.send(now, id, &bytes[*sent..])? {
                    0 => return Err(Stop::Full),
                    taken => *sent += taken,
                }
            }
            while let Some(rest) = rest.as_mut().filter(|rest| rest.left() > 0) {
                let room = stack.send_room(now, id, rest.left().min(PIECE))?;
                if room == 0 {
                    return Err(Stop::Full);
                }
                let mut piece = buffers.take(room);
                let sent = match rest.write(room, &mut piece) {
                    true => stack.send(now, id, &piece),
                    false => Ok(0),
                };
                buffers.give(piece);
                if sent? < room {
                    return Err(Stop::Failed);
                }
            }
            Ok(())
        };
        Some(send())
    }

    /// Lets the rest of a response wait for room, within the stack's memory.
    fn keep_rest(&mut self, now: Time, id: ConnId) -> Option<End> {
        let response = &mut self.conns.get(id)?.response;
        self.slow_readers.0.remove(&(response.moved, id));
        if response.sent == response.bytes.len() {
            // What waits is not generated yet.
            let bytes = std::mem::take(&mut response.bytes);
            (response.sent, response.moved) = (0, now);
            let held = std::mem::take(&mut response.held);
            self.buffers.give(bytes);
            let _ = self.stack.hold(held, 0);
            return None;
        }
        response.shrink();
        let (before, after) = (response.held, response.bytes.capacity());
        while !self.stack.hold(before, after) {
            self.stats.counters.unread += 1;
            let Some(&(_, slowest)) = self.slow_readers.0.first() else {
                self.abort(now, id);
                return Some(End::Failed);
            };
            self.abort(now, slowest);
        }
        let response = &mut self.conns.get(id)?.response;
        (response.held, response.moved) = (after, now);
        self.slow_readers.0.insert((now, id));
        None
    }

    /// The response of `id` is out, or will never be.
    pub(super) fn drop_response(&mut self, id: ConnId, response: Response) {
        if response.held > 0 {
            self.slow_readers.0.remove(&(response.moved, id));
            let _ = self.stack.hold(response.held, 0);
        }
        self.buffers.give(response.bytes);
    }
}
