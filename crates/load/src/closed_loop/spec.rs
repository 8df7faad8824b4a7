//! What is exchanged, and what was measured of it.

use queueing::{Arrivals, Histogram, Span};

/// What is sent, and how long.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Kinds of requests, 1 or more.
    pub kinds: Vec<Kind>,
    /// From the last handshake to the first request that is measured.
    pub warmup: Span,
    /// How long is measured.
    pub duration: Span,
}

/// Requests of one kind: what is sent, where answers end, and how fast.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Connections, 1 or more; requests take them in turn.
    pub connections: u32,
    /// The bytes of every request, at least one.
    pub request: Vec<u8>,
    /// What comes back.
    pub answer: Answer,
    /// When requests are sent.
    pub pace: Pace,
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is the request.
    Echo,
    /// It is an HTTP response.
    Http,
    /// It has so many bytes, whatever they are.
    Bytes(u64),
    /// There is none: requests follow each other as fast as they are taken.
    Nothing,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection keeps so many under way.
    Closed {
        /// Requests under way on each connection, 1 or more.
        outstanding: u32,
    },
    /// At instants of their own, whatever the server does.
    Open {
        /// When requests are due, over all connections of the kind.
        arrivals: Arrivals,
        /// Replays the instants.
        seed: u64,
    },
}

impl Pace {
    /// At random instants (Poisson), so many a second.
    #[must_use]
    pub const fn poisson(rate_per_s: f64, seed: u64) -> Self {
        Self::Open { arrivals: Arrivals::Poisson { rate_per_s }, seed }
    }

    /// Each of so many connections asks once in every `period`, all of them at once;
    /// without one, for the next when the last is answered.
    #[must_use]
    pub fn periodic(connections: u32, period: Option<Span>) -> Self {
        let Some(period) = period else { return Self::Closed { outstanding: 1 } };
        let arrivals = Arrivals::Burst { size: connections.into(), period, spacing: Span::ZERO };
        Self::Open { arrivals, seed: 0 }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The measured time.
    pub span: Span,
    /// Of each kind.
    pub kinds: Vec<Tally>,
}

/// What was measured of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Answers that came in the measured time; with [`Answer::Nothing`],
    /// requests that were taken.
    pub answers: u64,
    /// Bytes of payload sent and received in that time.
    pub bytes: u64,
    /// From when a request was due (open) or sent (closed) to its answer's end.
    pub latency: Histogram,
    /// Connections that the server ended, or whose answer was wrong.
    pub broken: u64,
    /// Requests without an answer at the end. In a closed loop these are those
    /// under way.
    pub unanswered: u64,
}
