//! Application interface of a server.

use queueing::{Clock, Label, Span};
pub use sched::dispatch::RequestType;

mod body;
mod echo;
pub(crate) mod http;
mod registration;
mod trace_attributes;

pub use body::{Body, Rest};
pub use echo::Echo;
pub use http::Http;
pub use registration::Registration;
pub use trace_attributes::{PATH_MAX, Parent, RequestAttributes};

/// Framing of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The request is not complete yet.
    Incomplete,
    /// The first `len` bytes are one request.
    Complete {
        /// Length in bytes.
        len: usize,
    },
    /// Bytes that never become a request: the connection is closed.
    Invalid,
}

/// Fate of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFate {
    /// Keep it open.
    Keep,
    /// Close it once the response is sent.
    Close,
}

/// Waiting time of a request by stage, until a worker took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// NIC queue: from the device's timestamp to the transport layer.
    pub nic: Span,
    /// TCP: from the start of the packet's processing to the event.
    pub tcp: Span,
    /// Event queue: until a worker took it.
    pub event: Span,
}

/// Inputs and means of a handler while it serves one request.
pub struct Context<'a> {
    /// The request's label.
    pub label: Label,
    /// Waiting time by stage.
    pub stages: Stages,
    /// The connection's 64 shared bytes (M5); written back when the handler returns.
    pub private: &'a mut classify::Private,
    /// Changes to the connection's classifier and memory (M3, M5).
    pub registration: &'a mut Registration,
    /// Rest of a long response.
    pub body: &'a mut Option<Box<dyn Body>>,
    /// Clock, which also simulates computing time.
    pub clock: &'a dyn Clock,
}

/// A server application: framing and service of requests.
pub trait App: Send + Sync + 'static {
    /// Framing of `received` (never empty).
    fn frame(&self, received: &[u8]) -> Framing;

    /// True if the datagram `payload`, which may be empty, is a request. Otherwise it is dropped.
    fn takes(&self, payload: &[u8]) -> bool {
        !payload.is_empty() && self.frame(payload) == Framing::Complete { len: payload.len() }
    }

    /// Type of the request that starts at `segment`, if these bytes show it (DARC's analyser;
    /// called only for policies that need it).
    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        let _ = segment;
        None
    }

    /// Remaining budget that `request` carries, if any. `request` may be incomplete; it is never
    /// empty on a connection. Called only for policies that order by deadline, a guard that uses
    /// it, and statistics.
    fn budget(&self, request: &[u8]) -> Option<Span> {
        let _ = request;
        None
    }

    /// Attributes of `request` for tracing (called only where slow requests are recorded in full,
    /// see [`Slow`](crate::shard::Slow)).
    fn attributes(&self, request: &[u8]) -> RequestAttributes {
        let _ = request;
        RequestAttributes::default()
    }

    /// Serves `request` and appends the response. Bytes beyond the send buffer's space wait in
    /// memory. When memory is full, the connection whose response has made no progress for the
    /// longest time is reset. Use [`Context::body`] for a long response: only as much as fits is
    /// ever in memory.
    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate;
}
