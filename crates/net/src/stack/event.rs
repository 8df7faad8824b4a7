//! What a stack tells its owner, and the names it uses.

use queueing::{Label, Time};

use crate::wire::icmp::Cause;

/// Names a connection for as long as it lives; a reused slot has a new
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Slot; small and dense, so that it can index tables.
    pub index: u32,
    /// How often the slot was used before.
    pub generation: u32,
}

/// Names a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Something happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where.
    pub conn: ConnId,
    /// What.
    pub kind: EventKind,
    /// The label of the packet that caused it (M6).
    pub label: Label,
    /// When the device received that packet.
    pub received: Time,
}

/// What can happen on a connection.
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
    /// The send buffer has room again after `send` took less than it was given.
    Writable,
    /// The peer has closed its half: after the bytes already there, nothing comes.
    PeerClosed,
    /// The connection is gone; its id is invalid from now on.
    Closed(CloseReason),
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides closed.
    Finished,
    /// The peer reset it, or refused `connect`.
    Reset,
    /// Nothing came back for too long.
    TimedOut,
    /// We aborted it.
    Aborted,
    /// The peer cannot be reached, as someone on the way said (ICMP) while it was connected to, or before nothing
    /// came back for too long; or it does not answer who it is.
    Unreachable(Unreachable),
}

/// Why a peer cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no way to its network.
    Network,
    /// Its host is not there.
    Host,
    /// Its host does not speak the protocol.
    Protocol,
    /// Nobody has the port.
    Port,
    /// Someone forbids it; over IPv6, or over IPv4.
    Prohibited {
        /// Over which.
        v6: bool,
    },
}

impl Unreachable {
    /// What an error of `cause` says of a peer, over IPv6 or IPv4; `None` where it may be reached.
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

/// Why `listen` failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener has the port.
    PortInUse(u16),
    /// Port 0 cannot be listened on.
    PortZero,
    /// 65,536 listeners are there, or closed and still needed by their connections.
    TooMany,
}

/// Why `connect` failed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The port is taken, or belongs to another shard; or all 28,232 ephemeral
    /// ports to this peer are.
    NoPort,
    /// `connections_max` connections exist.
    TooMany,
    /// The peer is outside the subnet and there is no gateway.
    NoRoute,
}

/// The connection is gone or the direction is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOpen;

/// Names a UDP socket: its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UdpId(pub u16);

/// Why a datagram was not taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such socket.
    NotOpen,
    /// There is no way to the peer.
    NoRoute,
    /// Longer than a datagram can be: 65,507 bytes over IPv4, 65,527 over IPv6.
    TooLong,
    /// Too many wait already: send what is due first.
    Full,
}
