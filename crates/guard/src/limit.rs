//! Limit on admission until the next tick of the policy.

/// Limit on arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Limit {
    /// No limit.
    #[default]
    Open,
    /// Token bucket: a constant rate, and bursts of at most this size.
    Rate {
        /// Requests per second, more than zero.
        per_s: f64,
        /// Requests admitted at once after a pause, 1 or more; reserved ones of important classes come on top.
        burst: f64,
    },
    /// Concurrency limit: admits while fewer requests are in the server.
    Concurrency {
        /// Requests in the server, 1 or more.
        max: u64,
    },
    /// Sheds every arrival.
    Closed,
}
