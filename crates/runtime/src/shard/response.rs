//! Unsent parts of responses.
//!
//! The send buffer takes as much as fits. The rest of a [`Body`](crate::app::Body) is generated
//! only when there is space again. Bytes that the application has appended wait here and count
//! towards the stack's memory ([`memory_max`](net::stack::Config::memory_max)). When that is full,
//! the connection whose response has made no progress for the longest time is reset; a peer that
//! reads frees memory itself.

use std::collections::BTreeSet;

use net::Device;
use net::stack::{ConnId, NotOpen};
use queueing::Time;

use super::Shard;
use super::connections::State;
use super::slow_requests::{RequestEnd, ServedRequest};
use crate::app::{App, RequestAttributes, Rest};

/// Part of a response that TCP does not have yet.
#[derive(Debug, Default)]
pub(super) struct Response {
    bytes: Vec<u8>,
    /// Number of `bytes` sent.
    sent: usize,
    /// Body that follows `bytes`.
    rest: Option<Rest>,
    /// Bytes counted in the stack's memory.
    held: usize,
    /// Time of the last progress, while bytes wait.
    moved: Time,
}

impl Response {
    pub(super) fn new(bytes: Vec<u8>, rest: Option<Rest>) -> Self {
        Self { bytes, rest, ..Self::default() }
    }

    /// Frees memory once less than half of it is in use.
    fn shrink(&mut self) {
        let (left, capacity) = (self.bytes.len() - self.sent, self.bytes.capacity());
        if capacity >= SHRINK_MIN && 2 * left <= capacity {
            self.bytes.drain(..std::mem::take(&mut self.sent));
            self.bytes.shrink_to_fit();
        }
    }
}

/// Connections with waiting bytes, the one with the oldest progress first.
#[derive(Debug, Default)]
pub(super) struct SlowReaders(BTreeSet<(Time, ConnId)>);

/// Bytes of a body generated at a time.
const PIECE: usize = 64 * 1024;
/// Smallest buffer that is shrunk.
const SHRINK_MIN: usize = 64 * 1024;

/// Reason why a response stops.
enum Stop {
    /// The send buffer is full.
    Full,
    /// The connection is closed for sending.
    Closed,
    /// The application's body panicked, or wrote a wrong number of bytes.
    Failed,
}

impl From<NotOpen> for Stop {
    fn from(_: NotOpen) -> Self {
        Self::Closed
    }
}

impl<D: Device, A: App> Shard<D, A> {
    /// Continues a response that waited for space.
    pub(super) fn flush_rest(&mut self, now: Time, id: ConnId) {
        let served_request = self.conns.get(id).and_then(|conn| conn.served_request.take());
        let end = self.flush(now, id);
        match (served_request, end) {
            (Some(served_request), Some(end)) => self.on_end(now, *served_request, end),
            (served_request, _) => {
                if let Some(conn) = self.conns.get(id) {
                    conn.served_request = served_request;
                }
            }
        }
    }

    /// Records a finished request, if it is slow.
    pub(super) fn on_end(
        &mut self,
        now: Time,
        (served_request, attributes): (ServedRequest, RequestAttributes),
        end: RequestEnd,
    ) {
        self.stats.slow.offer(served_request.level(), served_request.total(now), || {
            served_request.until(now, end, attributes)
        });
    }

    /// Sends as much of the response as TCP takes; the rest when it is writable. Returns as
    /// [`Shard::answer`].
    pub(super) fn flush(&mut self, now: Time, id: ConnId) -> Option<RequestEnd> {
        match self.send_response(now, id)? {
            Ok(()) => {}
            Err(Stop::Full) => return self.keep_rest(now, id),
            Err(Stop::Closed) => {
                self.stats.counters.late += 1;
                self.abort(now, id);
                return Some(RequestEnd::Gone);
            }
            Err(Stop::Failed) => {
                self.stats.counters.panics += 1;
                self.abort(now, id);
                return Some(RequestEnd::Failed);
            }
        }
        let conn = self.conns.get(id)?;
        let response = std::mem::take(&mut conn.response);
        conn.state = State::Quiet;
        let (close, peer_closed) = (conn.close, conn.peer_closed);
        let next = conn.next_request(now);
        self.drop_response(id, response);
        self.stats.counters.responses += 1;
        match next {
            _ if close => self.close(now, id),
            Some((label, kind)) => self.enter(now, id, label, kind),
            None if peer_closed => self.close(now, id),
            None => {}
        }
        Some(RequestEnd::Answered)
    }

    /// Passes bytes to TCP; `None` if there is no such connection.
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

    /// Keeps the rest of a response, within the stack's memory.
    fn keep_rest(&mut self, now: Time, id: ConnId) -> Option<RequestEnd> {
        let response = &mut self.conns.get(id)?.response;
        self.slow_readers.0.remove(&(response.moved, id));
        if response.sent == response.bytes.len() {
            // The rest is not generated yet.
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
                return Some(RequestEnd::Failed);
            };
            self.abort(now, slowest);
        }
        let response = &mut self.conns.get(id)?.response;
        (response.held, response.moved) = (after, now);
        self.slow_readers.0.insert((now, id));
        None
    }

    /// Frees the response of `id`, sent or not.
    pub(super) fn drop_response(&mut self, id: ConnId, response: Response) {
        if response.held > 0 {
            self.slow_readers.0.remove(&(response.moved, id));
            let _ = self.stack.hold(response.held, 0);
        }
        self.buffers.give(response.bytes);
    }
}
