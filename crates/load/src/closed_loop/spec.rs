//! Settings and results of an exchange.

use queueing::{Arrivals, Histogram, Span};

/// Workload and its duration.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Kinds of requests, at least one.
    pub kinds: Vec<RequestStream>,
    /// Time from the last handshake to the first measured request.
    pub warmup: Span,
    /// Measured time.
    pub duration: Span,
}

/// Kind of requests: content, response framing, rate.
#[derive(Clone, Debug)]
pub struct RequestStream {
    /// Number of connections, at least one; requests use them round-robin.
    pub connections: u32,
    /// Bytes of each request, at least one.
    pub request: Vec<u8>,
    /// Expected response.
    pub answer: ExpectedResponse,
    /// Closed or open loop.
    pub pace: LoadModel,
}

/// Expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedResponse {
    /// The request itself.
    Echo,
    /// An HTTP response.
    Http,
    /// Any bytes, this many.
    Bytes(u64),
    /// None: requests follow each other as fast as the send buffer takes them.
    Nothing,
}

/// Closed or open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadModel {
    /// Closed loop: a fixed number of requests in flight per connection.
    Closed {
        /// Requests in flight per connection, at least one.
        outstanding: u32,
    },
    /// Open loop: arrivals independent of the server.
    Open {
        /// Arrival process over all connections of the kind.
        arrivals: Arrivals,
        /// Seed of the arrivals.
        seed: u64,
    },
}

impl LoadModel {
    /// Open loop with Poisson arrivals.
    #[must_use]
    pub const fn poisson(rate_per_s: f64, seed: u64) -> Self {
        Self::Open { arrivals: Arrivals::Poisson { rate_per_s }, seed }
    }

    /// One request per connection in every `period`, all at the same time; without a period, a
    /// closed loop with one request in flight per connection.
    #[must_use]
    pub fn periodic(connections: u32, period: Option<Span>) -> Self {
        let Some(period) = period else { return Self::Closed { outstanding: 1 } };
        let arrivals = Arrivals::Burst { size: connections.into(), period, spacing: Span::ZERO };
        Self::Open { arrivals, seed: 0 }
    }
}

/// Results of an exchange.
#[derive(Clone, Debug)]
pub struct ExchangeResults {
    /// Measured time.
    pub span: Span,
    /// Results by kind.
    pub kinds: Vec<KindResults>,
}

/// Results of one kind.
#[derive(Clone, Debug, Default)]
pub struct KindResults {
    /// Responses received in the measured time; with [`ExpectedResponse::Nothing`], requests sent.
    pub answers: u64,
    /// Payload bytes sent and received in the measured time.
    pub bytes: u64,
    /// Time from due (open loop) or enqueued (closed loop) to the end of the response.
    pub latency: Histogram,
    /// Connections lost, or closed because of a wrong response.
    pub broken: u64,
    /// Requests in flight at the end.
    pub unanswered: u64,
}
