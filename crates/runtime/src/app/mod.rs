//! The small typed API that a server implements.

use queueing::{Clock, Label, Span};
pub use sched::dispatch::RequestType;

mod body;
mod echo;
mod http;
mod registration;
mod trace_attributes;

pub use body::{Body, Rest};
pub use echo::Echo;
pub use http::Http;
pub use registration::Registration;
pub use trace_attributes::{PATH_MAX, Parent, RequestAttributes};

/// What stands at the head of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The request is not complete yet.
    Incomplete,
    /// The first `len` bytes are one request.
    Complete {
        /// Its length in bytes.
        len: usize,
    },
    /// These bytes will never become a request: the connection is closed.
    Invalid,
}

/// What to do with the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Keep it open.
    Keep,
    /// Close it once the response is out.
    Close,
}

/// Where a request has waited, up to the moment a worker took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// From the device's stamp to the transport layer: NIC queue.
    pub nic: Span,
    /// In TCP: from the transport's start on the packet to the event.
    pub tcp: Span,
    /// In the event queue, until a worker took it.
    pub event: Span,
}

/// What a handler may know and use while it serves one request.
pub struct Context<'a> {
    /// The request's label.
    pub label: Label,
    /// Where it has waited.
    pub stages: Stages,
    /// The connection's 64 shared bytes (M5); written back when the handler returns.
    pub private: &'a mut net::classify::Private,
    /// Its connection's classifier and memory, to change (M3, M5).
    pub registration: &'a mut Registration,
    /// The rest of the response, where that is long.
    pub body: &'a mut Option<Box<dyn Body>>,
    /// Time, and the means to use it up.
    pub clock: &'a dyn Clock,
}

/// A server: how requests are framed and what they do.
pub trait App: Send + Sync + 'static {
    /// What stands at the head of `received` (never empty).
    fn frame(&self, received: &[u8]) -> Framing;

    /// Whether the datagram `payload`, which may be empty, is a request.
    /// Otherwise it is dropped.
    fn takes(&self, payload: &[u8]) -> bool {
        !payload.is_empty() && self.frame(payload) == Framing::Complete { len: payload.len() }
    }

    /// The type of the request that starts at `segment`, if these bytes tell
    /// (DARC's analyser; called only for policies that need it).
    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        let _ = segment;
        None
    }

    /// What `request` says that it can spare, if it says so (asked only where
    /// a guard wants to know).
    fn budget(&self, request: &[u8]) -> Option<Span> {
        let _ = request;
        None
    }

    /// What `request` says of itself (asked only where a slow request is kept
    /// whole, see [`Slow`](crate::shard::Slow)).
    fn told(&self, request: &[u8]) -> RequestAttributes {
        let _ = request;
        RequestAttributes::default()
    }

    /// Serves `request` and appends the response. What is appended and finds no
    /// room in the send buffer waits in memory; when memory is full, the
    /// connection that has taken nothing of its response for the longest time is
    /// reset. A long response is better left to [`Context::body`], of which
    /// only what there is room for is ever in memory.
    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> Outcome;
}
