//! Errors of connections that ended abnormally, until a program has read them.
//!
//! The kernel's TCP keeps such an error with the socket (`SO_ERROR`), and one call clears it. A
//! socket pair reports a clean end, so the library requests the error
//! ([`Request::Error`](super::super::Request::Error)). A connection that is neither open nor
//! recorded here counts as reset, so that a truncated response is never taken as complete. Source:
//! tcp(7), `tcp_reset` of Linux (net/ipv4/tcp_input.c).

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rustix::io::Errno;

use super::reply::refused;
use super::{Answer, SocketServer};
use crate::label_table::MAILBOX_FIRST;
use crate::protocol::ErrorUse;
use crate::socket_name::BETWEEN;

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// Error not reported yet; `None` after a clean end, or once reported.
    pub error: Option<Errno>,
    /// The peer had closed before: its data is complete, and reads return end of stream without an
    /// error.
    pub is_complete: bool,
    /// The program had shut down both sides, or closed: TCP finishes the connection alone.
    pub released: bool,
}

impl ConnectionEnd {
    /// An abnormal end.
    pub(super) fn error(error: Errno) -> Self {
        Self { error: Some(error), is_complete: false, released: false }
    }
}

/// Ends of connections, by number.
#[derive(Default)]
pub(super) struct Ended {
    ends: BTreeMap<u64, ConnectionEnd>,
    /// Numbers, oldest first.
    order: VecDeque<u64>,
}

/// Maximum number of ends kept. Older ones count as resets.
const ENDED_MAX: usize = 1 << 16;

impl Ended {
    fn insert(&mut self, id: u64, end: ConnectionEnd) {
        if self.ends.insert(id, end).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
    }
}

impl SocketServer {
    /// Records the end of connection `id`; the caller then drops the pair's end.
    pub fn ended(&mut self, id: u64, end: ConnectionEnd) {
        self.ports.close(Instant::now(), id);
        self.ended.insert(id, end);
    }

    /// True if connection `id` is open, or has no TCP: UDP sockets, and connections between
    /// programs.
    fn is_open(&self, id: u64) -> bool {
        id >> 32 >= MAILBOX_FIRST || id >= BETWEEN || self.shared.label_table.is_open(id)
    }

    /// State of connection `id`: open, handshake pending (`EALREADY`), failed, or ended
    /// (`ENOTCONN`).
    pub(super) fn stands(&self, id: u64) -> Answer {
        match self.openings.stands(id) {
            Answer::Done if self.is_open(id) => Answer::Done,
            Answer::Done if self.ended.ends.get(&id).is_some_and(|end| end.released) => Answer::Done,
            Answer::Done => refused(Errno::NOTCONN),
            stands => stands,
        }
    }

    /// Error of connection `id` for a call of kind `by`.
    pub(super) fn error(&mut self, id: u64, by: ErrorUse) -> Answer {
        if !self.ended.ends.contains_key(&id) {
            if self.is_open(id) {
                return Answer::Done;
            }
            self.ended.insert(id, ConnectionEnd::error(Errno::CONNRESET));
        }
        let Some(end) = self.ended.ends.get_mut(&id) else { return Answer::Done };
        let outcome = match by {
            ErrorUse::Read if end.is_complete => None,
            ErrorUse::Poll => end.error,
            ErrorUse::Read | ErrorUse::Take => end.error.take(),
        };
        outcome.map_or(Answer::Done, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorUse::{Poll, Read, Take};
    use super::*;

    const CLEAN: ConnectionEnd = ConnectionEnd { error: None, is_complete: true, released: false };

    //~ programs: a connection that ended in an error reports it once, and never as a complete response
    #[test]
    fn an_error_is_reported_once() {
        let mut socket_server = SocketServer::open([9; 16]).expect("descriptors are left");
        for by in [Read, Take] {
            socket_server.ended(1 << 32, ConnectionEnd::error(Errno::TIMEDOUT));
            assert_eq!(socket_server.error(1 << 32, Poll), refused(Errno::TIMEDOUT));
            assert_eq!(socket_server.error(1 << 32, by), refused(Errno::TIMEDOUT));
            assert_eq!([Poll, Read, Take].map(|by| socket_server.error(1 << 32, by)), [Answer::Done; 3]);
        }
        socket_server.ended(2 << 32, CLEAN);
        assert_eq!(
            (socket_server.error(2 << 32, Read), socket_server.stands(2 << 32)),
            (Answer::Done, refused(Errno::NOTCONN))
        );
        socket_server.ended(3 << 32, ConnectionEnd { released: true, ..CLEAN });
        assert_eq!(
            (socket_server.error(3 << 32, Read), socket_server.stands(3 << 32)),
            (Answer::Done, Answer::Done)
        );
    }

    #[test]
    fn what_a_peer_sent_before_it_closed_is_whole() {
        let mut socket_server = SocketServer::open([11; 16]).expect("descriptors are left");
        socket_server.ended(1 << 32, ConnectionEnd { error: Some(Errno::PIPE), ..CLEAN });
        assert_eq!(socket_server.error(1 << 32, Read), Answer::Done);
        assert_eq!(socket_server.error(1 << 32, Poll), refused(Errno::PIPE));
        assert_eq!(
            [Take, Take].map(|by| socket_server.error(1 << 32, by)),
            [refused(Errno::PIPE), Answer::Done]
        );
    }

    //~ programs: a connection that ended in an error reports it once, and never as a complete response
    #[test]
    fn a_connection_of_which_nothing_is_known_counts_as_reset() {
        let mut socket_server = SocketServer::open([10; 16]).expect("descriptors are left");
        let id = 3 << 32 | 1;
        socket_server.shared.label_table.begin(id);
        assert_eq!(
            (socket_server.error(id, Read), socket_server.stands(id)),
            (Answer::Done, Answer::Done),
            "still open"
        );
        socket_server.shared.label_table.end(id);
        assert_eq!(
            (socket_server.error(id, Read), socket_server.stands(id)),
            (refused(Errno::CONNRESET), refused(Errno::NOTCONN))
        );
        assert_eq!(socket_server.error(id, Take), Answer::Done, "reported already");
        for id in 0..=ENDED_MAX as u64 {
            socket_server.ended(id << 13, CLEAN);
        }
        assert_eq!(socket_server.ended.ends.len(), ENDED_MAX);
        assert_eq!(socket_server.error(0, Read), refused(Errno::CONNRESET), "the oldest end is dropped");
        assert_eq!(socket_server.error(BETWEEN | 7, Read), Answer::Done);
    }
}
