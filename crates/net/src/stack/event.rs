//! Events that a stack reports to its owner, and handles of connections and sockets.

use queueing::{Label, Time};
use wire::icmp::Cause;

/// Handle of a connection for its lifetime; a reused slot has a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Slot number; small and dense, so that it can index tables.
    pub index: u32,
    /// Number of earlier uses of the slot.
    pub generation: u32,
}

/// Handle of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Event on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Connection of the event.
    pub conn: ConnId,
    /// Kind of the event.
    pub kind: EventKind,
    /// Label of the packet that caused it (ADPS M6).
    pub label: Label,
    /// Time at which the device received that packet.
    pub received: Time,
}

/// Kinds of events on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `connect` succeeded.
    Connected,
    /// A listener's handshake completed.
    Accepted(ListenerId),
    /// `fresh` more bytes can be read: the tail of [`Stack::received`](super::Stack::received).
    Readable {
        /// Bytes that this segment made readable.
        fresh: u32,
    },
    /// The send buffer has space again after a `send` that was shortened.
    Writable,
    /// The peer closed its side: no bytes follow those already received.
    PeerClosed,
    /// The connection has ended; its id is invalid from now on.
    Closed(CloseReason),
}

/// Reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides closed.
    Finished,
    /// The peer reset the connection or refused `connect`.
    Reset,
    /// The peer did not respond in time.
    TimedOut,
    /// This side aborted it.
    Aborted,
    /// The peer is unreachable: an ICMP error reported it during `connect` or before a timeout, or
    /// the next hop did not answer address resolution.
    Unreachable(Unreachable),
}

/// Reason why a peer is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to its network.
    Network,
    /// The host is unreachable.
    Host,
    /// The host does not support the protocol.
    Protocol,
    /// The port is closed.
    Port,
    /// Administratively prohibited.
    Prohibited {
        /// True for IPv6, false for IPv4.
        v6: bool,
    },
}

impl Unreachable {
    /// Reason that an ICMP error of `cause` reports, over IPv6 or IPv4; `None` if the peer may be
    /// reachable.
    #[must_use]
    pub fn of(cause: Cause, v6: bool) -> Option<Self> {
        match cause {
            Cause::Network => Some(Self::Network),
            Cause::Unreachable | Cause::Hops => Some(Self::Host),
            Cause::Protocol => Some(Self::Protocol),
            Cause::Port => Some(Self::Port),
            Cause::Prohibited => Some(Self::Prohibited { v6 }),
            Cause::TooBig { .. } | Cause::Reassembly | Cause::Parameter => None,
        }
    }
}

/// Error of `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener uses the port.
    PortInUse(u16),
    /// Port 0 cannot be listened on.
    PortZero,
    /// 65,536 listeners exist, or are closed with connections left.
    TooMany,
}

/// Immediate error of `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The port is in use or belongs to another shard, or all 28,232 ephemeral ports to this peer
    /// do.
    NoPort,
    /// `connections_max` connections exist.
    TooMany,
    /// The peer is outside the subnet and there is no gateway.
    NoRoute,
}

/// Error: the connection has ended or the direction is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOpen;

/// Handle of a UDP socket: its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UdpId(pub u16);

/// Error of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The socket does not exist.
    NotOpen,
    /// No route to the peer.
    NoRoute,
    /// Longer than a datagram can be: 65,507 bytes over IPv4, 65,527 over IPv6.
    TooLong,
    /// The send queue is full: call egress first.
    Full,
}
