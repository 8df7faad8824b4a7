//! Which requests of programs' connections were slow: read beside the streams,
//! as no program says when it takes a request up or is done with it.
//!
//! On a connection that came the peer asks ([`Requests`]), on one that a program
//! opened the program does ([`ClientRequests`]). What is spoken, the first bytes of who
//! asks tell, and of messages of an operator's own a rule for the port that was
//! connected to. Nothing is read where nothing is kept.

mod client;
mod outstanding;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use net::classify::l7::{Notes, Protocol, StreamParser};
use net::classify::rules::PortProtocols;
use queueing::{Priority, Time};

use crate::shard::{Limits, Slowest};
use client::ClientRequests;
use server::Requests;

/// What all connections have in common.
#[derive(Debug, Default)]
pub(super) struct TrackerState {
    pub(super) slowest: Slowest,
    notes: Arc<Notes>,
    /// Requests that are not kept, as they waited together.
    pub(super) together: u64,
    /// What rules say of what is spoken.
    pub(super) spoken: PortProtocols,
}

impl TrackerState {
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.slowest = Slowest::new(limits);
    }

    /// For a connection that has just come to `port`, if anything is kept.
    pub(super) fn came(&self, port: u16) -> Option<Box<RequestTracker>> {
        self.slowest.is_on().then(|| Box::new(RequestTracker::Requests(Requests::new(self.reads(port)))))
    }

    /// For one that a program opens to `peer`, if anything is kept.
    pub(super) fn opened(&self, peer: SocketAddr) -> Option<Box<RequestTracker>> {
        self.slowest
            .is_on()
            .then(|| Box::new(RequestTracker::Calls(ClientRequests::new(peer, self.reads(peer.port())))))
    }

    fn reads(&self, port: u16) -> Reads {
        match self.spoken.on(port) {
            Some(message @ Protocol::Message(_)) => {
                Reads::Of(StreamParser::new(message.clone(), Arc::clone(&self.notes), 0))
            }
            _ => Reads::NotYet,
        }
    }
}

/// What is followed of one connection.
pub(super) enum RequestTracker {
    /// It came.
    Requests(Requests),
    /// A program opened it.
    Calls(ClientRequests),
}

impl RequestTracker {
    /// `fresh` bytes became readable at `now`, which the device stamped and a
    /// receive buffer gave then.
    pub(super) fn arrived(&mut self, now: Time, fresh: u32, received: Time, popped: Time) {
        match self {
            Self::Requests(requests) => requests.arrived(now, fresh, received, popped),
            Self::Calls(calls) => calls.arrived(now, received, popped),
        }
    }

    /// The program was handed `piece`, which is as urgent as `level`.
    pub(super) fn handed(&mut self, now: Time, level: Priority, piece: &[u8], ledger: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.handed(now, level, piece, ledger),
            Self::Calls(calls) => calls.handed(now, piece.len(), ledger),
        }
    }

    /// The program wrote `piece`, which is as urgent as `level`.
    pub(super) fn wrote(&mut self, now: Time, level: Priority, piece: &[u8], ledger: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.answered(now, piece.len(), ledger),
            Self::Calls(calls) => calls.wrote(now, level, piece, ledger),
        }
    }

    /// TCP has all that the program wrote.
    pub(super) fn sent(&mut self, now: Time, ledger: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.sent(now, ledger),
            Self::Calls(calls) => calls.sent(now),
        }
    }

    /// The connection is gone.
    pub(super) fn gone(&mut self, now: Time, ledger: &mut TrackerState) {
        match self {
            Self::Requests(requests) => requests.gone(now, ledger),
            Self::Calls(calls) => calls.gone(now, ledger),
        }
    }
}

/// What is known of a connection's language.
#[derive(Default)]
enum Reads {
    /// Nothing was read.
    #[default]
    NotYet,
    Of(StreamParser),
    /// It is none that we read.
    Nothing,
}

impl Reads {
    /// Who reads `part`, which begins at `place` of the stream.
    fn reader(&mut self, place: u64, part: &[u8], ledger: &TrackerState) -> Option<&mut StreamParser> {
        if let Self::NotYet = self {
            *self = Protocol::of_first(part).map_or(Self::Nothing, |protocol| {
                Self::Of(StreamParser::new(protocol, Arc::clone(&ledger.notes), place))
            });
        }
        match self {
            Self::Of(reader) => Some(reader),
            _ => None,
        }
    }
}

/// A segment.
#[derive(Clone, Copy)]
struct Mark {
    /// Position in the stream of the byte after it.
    end: u64,
    /// Stamped by the device; taken from the receive buffer; readable.
    received: Time,
    popped: Time,
    readable: Time,
}
