//! Requests of the library in a program to the socket server; their encoding is in `codec`.
//!
//! A request is one datagram to the server's socket, with a key that only the server's programs
//! have, and one end of a socket pair, over which the answer returns. For [`Request::Bind`] the
//! pair becomes the listener, and [`KernelSocketInfo`], if sent, is its first message. The answer
//! to [`Request::Connect`] carries the connection's descriptor, and a second answer reports the
//! result of the handshake, if requested. For [`Request::Datagrams`] the pair becomes the socket.

use std::net::SocketAddr;

use net::stack::HopLimits;

use super::label_table::PRIVATE;
use super::udp_sockopt::DatagramOptions;
use super::udp_table::Reuse;

mod codec;

/// Secret of the programs of one `greenwave run`.
pub type AccessKey = [u8; 16];

/// Request to the socket server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Binds a stream socket.
    Bind {
        /// Address; port 0 means any.
        addr: SocketAddr,
        /// IPv6 socket.
        six: bool,
        /// IPv6 only.
        v6_only: bool,
        /// SO_REUSEPORT.
        reuse_port: bool,
    },
    /// Connects a stream socket.
    Connect {
        /// Destination.
        to: SocketAddr,
        /// IPv6 socket.
        six: bool,
        /// The program waits for the result.
        waits: bool,
        /// Number of the socket, if it is bound to a stack address; otherwise 0.
        from: u64,
        /// `SO_SNDBUF`; 0: not set.
        send_buffer: u32,
        /// `SO_RCVLOWAT`.
        low_water: u32,
        /// Hop limits of the program's socket, in the family of `to`.
        hops: HopLimits,
    },
    /// Binds a UDP socket.
    Datagrams {
        /// Address; port 0 means any.
        addr: SocketAddr,
        /// IPv6 socket.
        six: bool,
        /// IPv6 only.
        v6_only: bool,
        /// SO_REUSEADDR and SO_REUSEPORT.
        reuse: Reuse,
        /// Options set so far.
        options: DatagramOptions,
        /// Destination of the first datagram, if it decides whether the stack takes the socket;
        /// `addr` is then unspecified, and its port is a preference.
        to: Option<SocketAddr>,
        /// The socket is connected to `to`.
        connects: bool,
    },
    /// Connects UDP socket `id` to `to`; `None` disconnects it.
    Aim {
        /// Number of the socket.
        id: u64,
        /// The peer.
        to: Option<SocketAddr>,
    },
    /// Local and peer address of socket `id`: two datagram headers follow the answer in one
    /// message.
    Ends {
        /// Number of the socket.
        id: u64,
    },
    /// Handshake state of connection `id`: done, `EALREADY`, or its error.
    Opening {
        /// Number of the connection.
        id: u64,
    },
    /// The error with which connection `id` ended (`SO_ERROR`), if no call has read it yet.
    Error {
        /// Number of the connection.
        id: u64,
        /// Kind of the requesting call.
        by: ErrorUse,
    },
    /// Data received on connection `id` after the program has shut down reading: it follows the
    /// answer in a message, empty if there is none.
    Late {
        /// Number of the connection.
        id: u64,
        /// Bytes wanted, at most [`LATE_BYTES_MAX`].
        len: u32,
        /// `MSG_PEEK`: the data stays.
        peek: bool,
    },
    /// Makes socket `id` listen.
    Listen {
        /// Number of the socket.
        id: u64,
        /// Maximum length of the accept queue.
        backlog: u32,
    },
    /// Sets classifier rules for the connections of bound socket `id`, before it listens. Their
    /// text is queued in the pair; a message after the answer has the error, if any.
    Rules {
        /// Number of the socket.
        id: u64,
    },
    /// Reports that the kernel socket `cookie` (SO_COOKIE) is now bound at the stack. Otherwise a
    /// program is about to listen or accept with the kernel socket: refused if another process has
    /// bound it at the stack.
    Cookie {
        /// Cookie of the socket.
        cookie: u64,
        /// True if the socket is now bound at the stack.
        bound: bool,
    },
    /// setsockopt(2) on socket `id`.
    Option {
        /// Number of the socket.
        id: u64,
        /// As in `setsockopt`.
        level: i32,
        /// As in `setsockopt`.
        name: i32,
        /// Value; for SO_LINGER: on or off, and seconds.
        value: [i32; 2],
    },
    /// getsockopt(2) of an option of socket `id` that the stack implements: its value follows the
    /// answer in a message.
    GetOption {
        /// Number of the socket.
        id: u64,
        /// As in `getsockopt`.
        level: i32,
        /// As in `getsockopt`.
        name: i32,
    },
    /// Sets the program's private bytes of connection `id`.
    Private {
        /// Number of the connection.
        id: u64,
        /// All private bytes.
        bytes: [u8; PRIVATE],
    },
    /// File of the label table: it follows the answer in a message.
    Labels,
    /// File of [`ShmSendBuffers`](super::ShmSendBuffers): it follows the answer in a message.
    Outboxes,
    /// Addresses of the stack: an [`Interface`](super::Interface) follows the answer in a message.
    Interface,
}

/// Kind of call that requests the error of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorUse {
    /// `poll`, which does not clear it.
    Poll,
    /// A receive call, which clears it. After the peer's FIN it reads end of stream instead.
    Read,
    /// A send call or `SO_ERROR`, which clears it.
    Take,
}

impl ErrorUse {
    /// All variants, by number.
    pub(super) const ALL: [Self; 3] = [Self::Poll, Self::Read, Self::Take];
}

/// First message of a program on a listener bound to all addresses: its socket on the kernel's
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSocketInfo {
    /// The accompanying descriptor is bound to the same port there.
    Here,
    /// The kernel refused the port.
    None {
        /// Error, as in errno(3).
        errno: i32,
    },
}

impl KernelSocketInfo {
    /// Encoded length in bytes.
    pub const BYTES: usize = 4;

    /// Encoded form.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        match self {
            Self::Here => 0,
            Self::None { errno } => errno,
        }
        .to_be_bytes()
    }

    /// Decodes `bytes`; `None` if they are malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match i32::from_be_bytes(bytes.try_into().ok()?) {
            0 => Some(Self::Here),
            errno => Some(Self::None { errno }),
        }
    }
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success; a handshake may be pending.
    Done,
    /// The address is not the stack's: the kernel handles the call.
    NotOurs,
    /// Failure (errno(3)).
    No(i32),
}

/// Maximum length of a request in bytes.
pub const REQUEST_BYTES_MAX: usize = 96;
/// Maximum length of a program's rules in bytes.
pub const RULES_BYTES_MAX: usize = 32 << 10;
/// Maximum length of an option's value in bytes.
pub const OPTION_BYTES_MAX: usize = 256;
/// Maximum length of an answer's late data in bytes.
pub const LATE_BYTES_MAX: usize = 16 << 10;
/// Length of an answer in bytes.
pub const ANSWER_BYTES: usize = 4;
