//! What the desk tells the stack, and why it takes something from nobody.

use std::net::SocketAddr;

use net::stack::HopLimits;

use crate::shim::tcp_sockopt::TcpSockopt;

/// What happened at the programs' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// On connection `id`.
    Pipe {
        /// The number it was offered under.
        id: u64,
        /// There may be something to read, or its end.
        readable: bool,
        /// There may be room again.
        writable: bool,
        /// No process has the other end any more.
        gone: bool,
    },
    /// The program has left something in the outbox of connection `id`.
    Written(u64),
    /// The program writes nothing more on this connection; [`SocketEvent::Pipe`]
    /// follows. Without it, or `gone`, what is read short is all there is now.
    Shut(u64),
    /// A program listens on this port of the stack; perhaps not the first, or not for the
    /// first time.
    Listen {
        /// Which.
        port: u16,
        /// Connections that may have brought data with their SYN: as few as any that listens
        /// there has asked for.
        fast_open: usize,
        /// Hop limits of connections of IPv4 and of IPv6: the defaults where those that listen
        /// there differ, since each connection is told its listener's.
        hops: [HopLimits; 2],
    },
    /// Nobody listens on this port any more.
    Unlisten(u16),
    /// A program wants a connection to `to`: [`opening`](super::SocketServer::opening) or
    /// [`refuse_opening`](super::SocketServer::refuse_opening) is to follow.
    Connect {
        /// How the question is called.
        call: u64,
        /// To whom.
        to: SocketAddr,
        /// The port of ours that the program wants.
        port: Option<u16>,
        /// Its hop limits.
        hops: HopLimits,
    },
    /// A program sets an option of connection `id`.
    Set {
        /// The number it was offered under.
        id: u64,
        /// What it wants.
        setting: TcpSockopt,
    },
    /// A program asks what connection `id` is like: [`answer`](super::SocketServer::answer) is to follow.
    Asked {
        /// How the question is called.
        call: u64,
        /// The number it was offered under.
        id: u64,
    },
    /// A program wants the datagrams for this port; perhaps not the first.
    Bound(u16),
    /// What [`QueuedDatagram::End`](super::Letter::End) has told another stack.
    Closed {
        /// Which socket nobody has any more.
        socket: u64,
        /// What it was bound to.
        port: u16,
        /// Nobody else is.
        last: bool,
    },
    /// A program has sent datagrams from this socket, or nobody has it any
    /// more: [`letter`](super::SocketServer::letter) tells.
    DatagramReadable(u64),
    /// Where [`Full`](super::Delivered::Full) was said of this port there may be room.
    DatagramWritable(u16),
}

/// Why nobody takes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptError {
    /// Nobody listens there.
    NoListener,
    /// As many wait as the program wants to wait.
    Full,
    /// This process has no descriptor left.
    NoDescriptor,
}

/// What was refused to programs, for the account at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// What comes to this port of the kernel's addresses, where a program has it on all.
    Half {
        /// The port.
        port: u16,
        /// Why, as in errno(3).
        errno: i32,
    },
    /// A datagram that came to this port of the kernel's addresses, where the program is too slow.
    KernelSocketOverflow {
        /// The port.
        port: u16,
    },
    /// `connect` of a socket that is bound to our address, to one that is not ours to reach.
    Connect,
    /// `listen` or `accept` by the kernel's socket that another process had bound.
    Cookie,
    /// `setsockopt` of an option, or of a value.
    SetOption {
        /// As in `setsockopt`.
        level: i32,
        /// As in `setsockopt`.
        name: i32,
    },
    /// Something that was no request, or without the key.
    Malformed,
}
