//! Boolean state of a connection.

/// Boolean properties of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// The application closed its half: FIN follows the last byte.
    pub(crate) fin_queued: bool,
    /// FIN was sent at least once.
    pub(crate) fin_sent: bool,
    /// The application knows the connection: it opened it, or received `Accepted`.
    pub(crate) announced: bool,
    /// `send` accepted less than offered; a `Writable` event is owed.
    pub(crate) blocked: bool,
    /// Both sides send timestamps (RFC 7323).
    pub(crate) timestamps: bool,
    /// Both sides support SACK.
    pub(crate) sack: bool,
    /// Both sides use window scaling.
    pub(crate) scaling: bool,
    /// The next retransmission ignores the congestion window.
    pub(crate) retransmit_now: bool,
    /// A keep-alive or window probe is due.
    pub(crate) probe_due: bool,
    /// Data waits for the pacer.
    pub(crate) paced: bool,
    /// A tail loss probe is due.
    pub(crate) tlp_due: bool,
    /// An ACK of data waits for a segment to piggyback on, until a timer fires.
    pub(crate) ack_delayed: bool,
    /// An ACK of data waits for a segment to piggyback on, until the owner is idle or has sent
    /// once.
    pub(crate) ack_waits: bool,
    pub(crate) ack_listed: bool,
    /// Reasons to hold back segments smaller than the MSS.
    pub(crate) hold: Hold,
    /// A valid Fast Open cookie opened it: data may be sent before the handshake is complete.
    pub(crate) fast_open: bool,
    /// Our SYN-ACK carries a Fast Open cookie.
    pub(crate) sends_cookie: bool,
    /// `send` was refused memory; the pool lists the connection.
    pub(crate) starved: bool,
    /// The connection waits for the resolution of a neighbour's hardware address.
    pub(crate) parked: bool,
    /// The connection is in the flow table.
    pub(crate) linked: bool,
    /// TIME-WAIT has begun and was recorded.
    pub(crate) aging: bool,
    /// `Closed` was pushed.
    pub(crate) closed_pushed: bool,
    /// `Closed` was polled, or the application detached: the id is invalid, and the slot lives on
    /// until the connection ends.
    pub(crate) detached: bool,
}

/// Reasons to hold back segments smaller than the MSS, as a bit set that keeps the connection small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold(u8);

impl Hold {
    /// Nagle's algorithm (RFC 9293 §3.7.4): until everything sent is acknowledged.
    pub(crate) const NAGLE: u8 = 1;
    /// TCP_CORK (tcp(7)): until there is a full segment or the option is cleared.
    pub(crate) const CORK: u8 = 2;

    pub(crate) fn set(&mut self, reason: u8, is_set: bool) {
        self.0 = if is_set { self.0 | reason } else { self.0 & !reason };
    }

    pub(crate) const fn has(self, reason: u8) -> bool {
        self.0 & reason != 0
    }
}
