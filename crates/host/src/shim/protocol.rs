//! What the library in a program asks of `greenwave run`; as bytes, in `bytes`.
//!
//! A request is one datagram to the desk's socket, with a key that the desk
//! gave to its programs alone and one end of a socket pair: the answer comes
//! back over that pair. For [`Request::Bind`] the pair is, from then on, the
//! listener itself, and [`KernelSocketInfo`] is the first that is said on it, if anything is;
//! the answer to [`Request::Connect`] brings the connection's descriptor, and a
//! second one says how its handshake ended, where that is waited for. For [`Request::Datagrams`] the pair is the socket itself.

use std::net::SocketAddr;

use net::stack::HopLimits;

use super::label_table::PRIVATE;
use super::udp_sockopt::DatagramOptions;
use super::udp_table::Reuse;

mod codec;

/// What only the programs of one `greenwave run` know.
pub type Key = [u8; 16];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A stream socket wants this address.
    Bind {
        /// The address; port 0 asks for any.
        addr: SocketAddr,
        /// The socket speaks IPv6.
        six: bool,
        /// And nothing else.
        v6_only: bool,
        /// Others may have the same address if they say so, too.
        reuse_port: bool,
    },
    /// A stream socket wants a connection.
    Connect {
        /// To whom.
        to: SocketAddr,
        /// The socket speaks IPv6.
        six: bool,
        /// The program waits for the outcome.
        waits: bool,
        /// The number of the socket's end, where it is bound to an address of
        /// ours; otherwise 0.
        from: u64,
        /// What the program wants for `SO_SNDBUF`; 0: nothing.
        send_buffer: u32,
        /// Hop limits of the program's socket, in the family of `to`.
        hops: HopLimits,
    },
    /// A socket for datagrams wants an address.
    Datagrams {
        /// The address; port 0 asks for any.
        addr: SocketAddr,
        /// The socket speaks IPv6.
        six: bool,
        /// And nothing else.
        v6_only: bool,
        /// Others may have the same address if they say so, too.
        reuse: Reuse,
        /// What it has been told so far.
        options: DatagramOptions,
        /// To whom the first datagram is to go, where that is to say whose the
        /// socket is; then `addr` has no address, and its port is a wish.
        to: Option<SocketAddr>,
        /// And it is connected with whom that is.
        connects: bool,
    },
    /// Socket `id` is connected with `to` from now on, or with nobody.
    Aim {
        /// Its number.
        id: u64,
        /// The peer.
        to: Option<SocketAddr>,
    },
    /// The addresses of socket `id`, ours and the peer's: two envelopes follow
    /// the answer as one message.
    Ends {
        /// Its number.
        id: u64,
    },
    /// How the handshake of connection `id`, which a program opened, stands:
    /// done, `EALREADY`, or why there is none.
    Opening {
        /// Its number.
        id: u64,
    },
    /// The error with which connection `id` ended (`SO_ERROR`), if no call has read it yet.
    Error {
        /// Its number.
        id: u64,
        /// The call that asks.
        by: ErrorUse,
    },
    /// The listener `id` takes connections, so many of which may wait.
    Listen {
        /// Its number.
        id: u64,
        /// Connections that wait at the most.
        backlog: u32,
    },
    /// Listener `id`, which does not listen yet, gives its connections rules
    /// of its own: their text waits in the pair, and behind the answer comes
    /// why they are none.
    Rules {
        /// Its number.
        id: u64,
    },
    /// The kernel's socket `cookie` (SO_COOKIE) has become one that is bound here; or a program that still has
    /// the kernel's wants to listen or accept by it: refused where another process has bound it, which that does
    /// not know.
    Cookie {
        /// Its number.
        cookie: u64,
        /// It is bound here now.
        bound: bool,
    },
    /// `setsockopt` on connection `id` (or on a listener).
    Option {
        /// The connection's number.
        id: u64,
        /// As in `setsockopt`.
        level: i32,
        /// As in `setsockopt`.
        name: i32,
        /// Its value; for a linger time whether there is one, and the seconds.
        value: [i32; 2],
    },
    /// `getsockopt` of an option of socket `id` that TCP answers for: its value
    /// follows the answer as a message of its own.
    GetOption {
        /// The socket's number.
        id: u64,
        /// As in `getsockopt`.
        level: i32,
        /// As in `getsockopt`.
        name: i32,
    },
    /// The private bytes of connection `id` that are the program's.
    Private {
        /// The connection's number.
        id: u64,
        /// All of them.
        bytes: [u8; PRIVATE],
    },
    /// The file with the labels of connections: it follows the answer as a
    /// message of its own.
    Labels,
    /// The file of [`ShmSendBuffers`](super::Outboxes), which follows the answer.
    Outboxes,
    /// The stack's addresses: an [`Interface`](super::Interface) follows the answer as a
    /// message of its own.
    Interface,
}

/// A call that is told the error of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorUse {
    /// `poll`, which leaves it.
    Poll,
    /// A call that receives, and takes it. Where the peer had closed, it reads the end instead.
    Read,
    /// A call that sends, or `SO_ERROR`, and takes it.
    Take,
}

impl ErrorUse {
    /// All of them, by number.
    pub(super) const ALL: [Self; 3] = [Self::Poll, Self::Read, Self::Take];
}

/// What a program's end of a listener on all addresses says of the kernel's
/// addresses, before anybody else has that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSocketInfo {
    /// The socket that comes with this has the same port there.
    Here,
    /// It could not be had.
    None {
        /// Why, as in errno(3).
        errno: i32,
    },
}

impl KernelSocketInfo {
    /// Bytes that it takes.
    pub const BYTES: usize = 4;

    /// As it is sent.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        match self {
            Self::Here => 0,
            Self::None { errno } => errno,
        }
        .to_be_bytes()
    }

    /// What `bytes` say; `None` when that is nothing.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match i32::from_be_bytes(bytes.try_into().ok()?) {
            0 => Some(Self::Here),
            errno => Some(Self::None { errno }),
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; a handshake is under way.
    Done,
    /// The address is not one of ours: the kernel is to be asked.
    NotOurs,
    /// No, for this reason (errno(3)).
    No(i32),
}

/// Bytes that a request takes at the most.
pub const REQUEST_BYTES_MAX: usize = 96;
/// Bytes of a program's rules.
pub const RULES_BYTES_MAX: usize = 32 << 10;
/// Bytes of an option's value at the most.
pub const OPTION_BYTES_MAX: usize = 256;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 4;
