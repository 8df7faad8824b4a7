//! What a server looks like from outside, some times a second.

use queueing::Span;

/// Until when a connection waits for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitEnd {
    /// Until the server takes it up: accepts it, or reads its first bytes.
    #[default]
    Accept,
    /// Until it is sent its first byte: for servers whose threads accept at once and
    /// wait for a core together. What serving takes is a part of that wait.
    Answer,
}

/// What happened since the last look, and what is now. What a place cannot
/// see stays as it is by default, which no policy takes for overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Requests (connections, where those are what comes) since the last look.
    pub offered: u64,
    /// Of these, those let in.
    pub admitted: u64,
    /// Requests whose service began since then: taken off the queue.
    pub served: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// Whether others may go before that one: then it may wait for long in a short queue.
    pub reordered: bool,
    /// What half of the requests that wait can spare at most, where they say
    /// so (`deadline`).
    pub budget: Option<Span>,
    /// Mean time from arrival to answer of those answered since the last look.
    pub latency: Option<Span>,
    /// Requests in the server, served ones included.
    pub present: u64,
    /// The kernel's share of processor time since then, 0 to 1.
    pub kernel_share: f64,
    /// Sockets there are.
    pub sockets: u64,
    /// The share of memory in use, 0 to 1.
    pub memory_share: f64,
}
