//! What may come in until the next look.

/// A bound on what comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Limit {
    /// Everybody.
    #[default]
    Open,
    /// So many per second, evenly.
    Rate {
        /// Requests per second, more than zero.
        per_s: f64,
    },
    /// Whoever finds fewer than so many in the server.
    Concurrency {
        /// Requests in the server, one and more.
        max: u64,
    },
    /// Nobody.
    Closed,
}
