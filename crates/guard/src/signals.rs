//! Server signals, the input of policies, sampled several times a second.

use queueing::Span;

/// End of the measured wait of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitEnd {
    /// Accept, or read of the first bytes.
    #[default]
    Accept,
    /// First byte of the response: for servers whose threads accept at once and then share
    /// a core. The wait includes the service time.
    Answer,
}

/// Responses where waits end with them ([`ResponseWaits`](crate::ResponseWaits)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    /// Time to a response, service included.
    pub time: Span,
    /// Requests that have ended their wait since the last tick: they were served, or turned out to be
    /// long polls.
    pub ended: u64,
}

/// Counters since the last tick, and current state. Signals that cannot be measured keep their
/// default, which no policy treats as overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Requests (or connections) offered since the last tick.
    pub offered: u64,
    /// Offered requests that were admitted.
    pub admitted: u64,
    /// Requests dequeued for service since the last tick.
    pub served: u64,
    /// Requests waiting now.
    pub waiting: u64,
    /// Age of the oldest waiting request.
    pub delay: Span,
    /// Responses of late; `None` where waits end before the service.
    pub responses: Option<Responses>,
    /// True if requests may overtake the oldest one: its age can be large in a short queue.
    pub reordered: bool,
    /// Median of the time that waiting requests can afford to wait, if known (`deadline`).
    pub budget: Option<Span>,
    /// Mean time from arrival to response of requests answered since the last tick.
    pub latency: Option<Span>,
    /// Requests in the server, waiting or in service.
    pub present: u64,
    /// Kernel share of CPU time since the last tick, 0 to 1.
    pub kernel_share: f64,
    /// Number of sockets.
    pub sockets: u64,
    /// Share of memory in use, 0 to 1.
    pub memory_share: f64,
}
