//! What a connection remembers in one bit each.

/// Yes or no about a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// The application closed its half: FIN follows the last byte.
    pub(crate) fin_queued: bool,
    /// FIN was sent at least once.
    pub(crate) fin_sent: bool,
    /// The application knows the connection: it asked for it, or heard `Accepted`.
    pub(crate) announced: bool,
    /// `send` took less than it was given; `Writable` is owed.
    pub(crate) blocked: bool,
    /// Both sides send timestamps (RFC 7323).
    pub(crate) timestamps: bool,
    /// Both sides understand SACK.
    pub(crate) sack: bool,
    /// Both sides scale windows.
    pub(crate) scaling: bool,
    /// The next retransmission ignores the congestion window.
    pub(crate) retransmit_now: bool,
    /// A probe for life or window is due.
    pub(crate) probe_due: bool,
    /// What is to be sent waits for the pacer.
    pub(crate) paced: bool,
    /// A tail loss probe is due.
    pub(crate) tail_due: bool,
    /// An acknowledgement of data waits for company, until a timer fires.
    pub(crate) ack_delayed: bool,
    /// An acknowledgement of data waits for company, until the owner is idle
    /// or has sent once; the stack's list knows.
    pub(crate) ack_waits: bool,
    pub(crate) ack_listed: bool,
    /// Small segments wait for what is in flight (Nagle's algorithm).
    pub(crate) nagle: bool,
    /// Small segments wait until there is more (tcp(7), TCP_CORK).
    pub(crate) cork: bool,
    /// A good cookie opened it: data may flow before the handshake is complete.
    pub(crate) fast_open: bool,
    /// Our answer to the SYN brings a Fast Open cookie.
    pub(crate) gives_cookie: bool,
    /// `send` found no memory; the pool knows.
    pub(crate) starved: bool,
    /// The connection waits for a neighbour's hardware address.
    pub(crate) parked: bool,
    /// The flow table knows the connection.
    pub(crate) linked: bool,
    /// TIME-WAIT has begun and was noted.
    pub(crate) aging: bool,
    /// `Closed` was pushed.
    pub(crate) closed_pushed: bool,
    /// `Closed` was polled, or the application let go: the id is invalid, the
    /// slot lives on until the connection ends.
    pub(crate) detached: bool,
}
