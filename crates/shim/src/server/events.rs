//! Events of the socket server for the stack, and its errors.

use std::net::SocketAddr;

use net::stack::HopLimits;

use crate::tcp_sockopt::TcpSockopt;

/// Event on a program's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// I/O on connection `id`.
    Pipe {
        /// Number under which the connection was offered.
        id: u64,
        /// There may be bytes to read, or the end of the stream.
        readable: bool,
        /// There may be space to write.
        writable: bool,
        /// No process has the program's end any more.
        gone: bool,
    },
    /// The program has written to the shared-memory send buffer of connection `id`.
    Written(u64),
    /// The program has shut down its write side; [`SocketEvent::Pipe`] follows. Without this event
    /// or `gone`, a short read means that the pair is empty.
    Shut(u64),
    /// A program listens on this port; others may already.
    Listen {
        /// Port.
        port: u16,
        /// Maximum number of connections with data in their SYN: the minimum of all listeners on
        /// the port.
        fast_open: usize,
        /// Hop limits for IPv4 and for IPv6: the defaults if listeners differ, because each
        /// connection also inherits those of its own listener.
        hops: [HopLimits; 2],
    },
    /// The last listener on this port is gone.
    Unlisten(u16),
    /// A program requests a connection; [`opening`](super::SocketServer::opening) or
    /// [`refuse_opening`](super::SocketServer::refuse_opening) answers it.
    Connect {
        /// Number of the request.
        call: u64,
        /// Destination.
        to: SocketAddr,
        /// Local port, if the program is bound to one.
        port: Option<u16>,
        /// Hop limits.
        hops: HopLimits,
    },
    /// A program sets an option of connection `id`.
    Set {
        /// Number under which the connection was offered.
        id: u64,
        /// The option and its value.
        setting: TcpSockopt,
    },
    /// A program requests information on connection `id`; [`answer`](super::SocketServer::answer)
    /// answers it.
    Asked {
        /// Number of the request.
        call: u64,
        /// Number under which the connection was offered.
        id: u64,
    },
    /// A UDP socket is bound to this port; others may be already.
    Bound(u16),
    /// Another stack received [`QueuedDatagram::End`](super::QueuedDatagram::End) for a UDP socket.
    Closed {
        /// Number of the socket.
        socket: u64,
        /// Port of the socket.
        port: u16,
        /// No other socket is bound to the port.
        last: bool,
    },
    /// A UDP socket has datagrams to send, or is closed: read it by
    /// [`next_datagram`](super::SocketServer::next_datagram).
    DatagramReadable(u64),
    /// A socket of this port that was [`Full`](super::Delivered::Full) may have space again.
    DatagramWritable(u16),
}

/// Reason why a connection is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptError {
    /// No socket listens there.
    NoListener,
    /// The accept queue is full.
    Full,
    /// This process has no descriptor left.
    NoDescriptor,
}

/// Kind of refusal, for the summary at exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// The kernel refused the port of a socket bound to all addresses.
    Half {
        /// Port.
        port: u16,
        /// Error, as in errno(3).
        errno: i32,
    },
    /// A datagram to this port of the kernel's addresses was dropped, because the program reads too
    /// slowly.
    KernelSocketOverflow {
        /// Port.
        port: u16,
    },
    /// `connect` of a socket bound to a stack address, to a destination that the stack does not
    /// route.
    Connect,
    /// `listen` or `accept` by a kernel socket that another process had bound at the stack.
    Cookie,
    /// `setsockopt` of an option or value that the stack does not implement.
    SetOption {
        /// As in `setsockopt`.
        level: i32,
        /// As in `setsockopt`.
        name: i32,
    },
    /// A malformed request, or one without the key.
    Malformed,
}
