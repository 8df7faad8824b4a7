//! Request tracker of programs' connections: finds slow requests by parsing the byte streams.
//!
//! Programs do not report the start or end of a request. On an accepted connection the peer sends
//! requests ([`Requests`]), on an opened one the program does ([`ClientRequests`]). The first
//! request bytes show the protocol; for an operator's own messages, a rule for the destination port
//! does. Nothing is parsed where nothing is recorded.

mod client;
mod outstanding;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use classify::l7::{L7Protocol, Notes, StreamParser};
use classify::rules::PortProtocols;
use queueing::{Priority, Time};

use crate::shard::{SlowRequestLimits, Slowest};
use client::ClientRequests;
use server::Requests;

/// State shared by all connections.
#[derive(Debug, Default)]
pub(super) struct TrackerState {
    pub(super) slowest: Slowest,
    notes: Arc<Notes>,
    /// Requests not recorded, as they waited together.
    pub(super) together: u64,
    /// Protocols by port, from rules.
    pub(super) spoken: PortProtocols,
}

impl TrackerState {
    pub(super) fn set_limits(&mut self, limits: SlowRequestLimits) {
        self.slowest = Slowest::new(limits);
    }

    /// Tracker of a connection accepted on `port`, if recording is on.
    pub(super) fn accepted(&self, port: u16) -> Option<Box<RequestTracker>> {
        self.slowest.is_on().then(|| Box::new(RequestTracker::Requests(Requests::new(self.parser(port)))))
    }

    /// Tracker of a connection that a program opens to `peer`, if recording is on.
    pub(super) fn opened(&self, peer: SocketAddr) -> Option<Box<RequestTracker>> {
        self.slowest
            .is_on()
            .then(|| Box::new(RequestTracker::Calls(ClientRequests::new(peer, self.parser(peer.port())))))
    }

    fn parser(&self, port: u16) -> ParserState {
        match self.spoken.on(port) {
            Some(message @ L7Protocol::Message(_)) => {
                ParserState::Of(StreamParser::new(message.clone(), Arc::clone(&self.notes), 0))
            }
            _ => ParserState::NoBytes,
        }
    }
}

/// Tracker of one connection.
pub(super) enum RequestTracker {
    /// Tracker of an accepted connection.
    Requests(Requests),
    /// Tracker of a connection that a program opened.
    Calls(ClientRequests),
}

impl RequestTracker {
    /// Records `fresh` bytes readable at `now`, with device timestamp and time of leaving the
    /// receive buffer.
    pub(super) fn arrived(&mut self, now: Time, fresh: u32, received: Time, popped: Time) {
        match self {
            Self::Requests(requests) => requests.arrived(now, fresh, received, popped),
            Self::Calls(calls) => calls.arrived(now, received, popped),
        }
    }

    /// Records the delivery of `piece`, of this `level`, to the program.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        level: Priority,
        piece: &[u8],
        tracker_state: &mut TrackerState,
    ) {
        match self {
            Self::Requests(requests) => requests.delivered(now, level, piece, tracker_state),
            Self::Calls(calls) => calls.delivered(now, piece.len(), tracker_state),
        }
    }

    /// Records the program's output `piece`, of this `level`.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        level: Priority,
        piece: &[u8],
        tracker_state: &mut TrackerState,
    ) {
        match self {
            Self::Requests(requests) => requests.answered(now, piece.len(), tracker_state),
            Self::Calls(calls) => calls.wrote(now, level, piece, tracker_state),
        }
    }

    /// Records that TCP has all of the program's output.
    pub(super) fn sent(&mut self, now: Time, tracker_state: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.sent(now, tracker_state),
            Self::Calls(calls) => calls.sent(now),
        }
    }

    /// Records the end of the connection.
    pub(super) fn gone(&mut self, now: Time, tracker_state: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.gone(now, tracker_state),
            Self::Calls(calls) => calls.gone(now, tracker_state),
        }
    }
}

/// Parser of a connection, once its protocol is known.
#[derive(Default)]
enum ParserState {
    /// No bytes were read yet.
    #[default]
    NoBytes,
    Of(StreamParser),
    /// The protocol is unknown.
    Nothing,
}

impl ParserState {
    /// Parser of `part`, which begins at `offset` of the stream.
    fn reader(
        &mut self,
        offset: u64,
        part: &[u8],
        tracker_state: &TrackerState,
    ) -> Option<&mut StreamParser> {
        if let Self::NoBytes = self {
            *self = L7Protocol::of_first(part).map_or(Self::Nothing, |protocol| {
                Self::Of(StreamParser::new(protocol, Arc::clone(&tracker_state.notes), offset))
            });
        }
        match self {
            Self::Of(reader) => Some(reader),
            _ => None,
        }
    }
}

/// Boundary of a segment.
#[derive(Clone, Copy)]
struct Mark {
    /// Stream position after its last byte.
    end: u64,
    /// Device timestamp; time of leaving the receive buffer; time of becoming readable.
    received: Time,
    popped: Time,
    readable: Time,
}
