//! Port to the application side of the [`SocketProxy`](super::SocketProxy).

use std::net::SocketAddr;

use classify::private::APPLICATION;
use classify::{FlowState, Private, TransportClassifier};
use net::stack::{CloseReason, ConnId, HopLimits, Info, KeepAlive, UdpDatagram, Unreachable};
use queueing::{Priority, Span};
use wire::ip::TrafficClass;

use super::ConnectFailure;

/// Application end of a connection.
pub trait AppStream {
    /// Publishes the level of the next bytes and the connection's shared bytes, for programs that
    /// read them.
    fn publish(&mut self, _level: Priority, _private: &Private) {}
    /// Publishes the connection's flow state, likewise.
    fn flow(&mut self, _flow: &FlowState) {}
    /// Writes `bytes`, which are not empty, to the program.
    fn write(&mut self, bytes: &[u8]) -> WriteResult;
    /// Called after [`AppEvent::Pipe`] has reported input, or its end if `ends`; for pipes that
    /// keep such state themselves.
    fn arrived(&mut self, _ends: bool) {}
    /// Reads the program's output into `bytes`. A short read drains it; [`AppEvent::Pipe`] or
    /// [`AppEvent::Written`] reports more, and [`AppEvent::Shut`] reported any end that follows.
    fn read(&mut self, bytes: &mut [u8]) -> ReadResult;
    /// True once after the program announced that more follows its last write (`MSG_MORE`).
    fn take_more(&mut self) -> bool {
        false
    }
    /// Ends the input after the bytes written so far.
    fn finish(&mut self);
    /// Sets whether [`AppEvent::Pipe`] reports new space.
    fn want_space(&mut self, wanted: bool);
    /// True if, as far as is known, the program has not read all of its input.
    fn is_unread(&self) -> bool {
        false
    }
}

/// Result of a write to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// Number of leading bytes written.
    Some(usize),
    /// The pipe is full.
    Full,
    /// The program has ended reading.
    Closed,
}

/// Result of a read of the program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// Number of bytes.
    Some(usize),
    /// Nothing now; [`AppEvent::Pipe`] reports new output.
    Nothing,
    /// Nothing, and the program has ended writing.
    End,
    /// The program closed with bytes unread.
    Reset,
}

/// Application side of a proxy.
pub trait AppSockets {
    /// Application end of a connection.
    type Pipe: AppStream;
    /// Appends the applications' events; true if there were any. Never blocks.
    fn poll(&mut self, into: &mut Vec<AppEvent>) -> bool;
    /// Appends events from other stacks of the same applications, such as new listeners; true if
    /// there were any. Called after frames were received and before they go through TCP.
    fn poll_other_stacks(&mut self, _into: &mut Vec<AppEvent>) -> bool {
        false
    }
    /// Called before the stack sleeps on its device and further descriptors; `false` if events are
    /// pending that would not end the sleep.
    fn sleep(&mut self) -> bool {
        true
    }
    /// Called after a sleep.
    fn wake(&mut self) {}
    /// Classifier of connections to `port`, if the listener supplies its own.
    fn classifier(&self, _port: u16) -> Option<TransportClassifier> {
        None
    }
    /// Offers a new connection to the listener; `None` if it is not accepted.
    fn offer(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<Self::Pipe>;
    /// Answers [`AppEvent::Connect`]: the handshake has begun. `None` if the program cannot have
    /// the connection.
    fn opening(
        &mut self,
        call: u64,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<Self::Pipe>;
    /// Appends the options that the connection just made by [`offer`](Self::offer) or
    /// [`opening`](Self::opening) has from its listener or from the socket that connects.
    fn inherited(&mut self, _into: &mut Vec<SocketOption>) {}
    /// Answers [`AppEvent::Connect`]: the connection failed to start.
    fn refuse(&mut self, call: u64, why: ConnectFailure);
    /// The handshake of `conn` is complete: its program may write.
    fn opened(&mut self, conn: ConnId, pipe: &mut Self::Pipe);
    /// The handshake of `conn` has failed; its pipe is dropped after this.
    fn failed(&mut self, conn: ConnId, why: ConnectFailure);
    /// The open connection `conn` has ended for the reason `why`; its pipe is dropped after this.
    /// `is_complete`: the peer's FIN and all bytes before it had arrived.
    fn ended(&mut self, _conn: ConnId, _why: CloseReason, _is_complete: bool) {}
    /// The program of `conn` has shut down both sides or closed its last descriptor; its pipe is
    /// dropped after this.
    fn released(&mut self, _conn: ConnId) {}
    /// Answers [`AppEvent::GetInfo`]: the connection's state, if it still exists, and its keep-alive
    /// settings.
    fn answer(&mut self, _call: u64, _info: Option<&Info>, _keep_alive: KeepAlive) {}
    /// Delivers a datagram to a program's socket on its address and `port`. If `segment` is not 0,
    /// it holds datagrams of this length, the last possibly shorter; only for a port that
    /// [merges](Self::merges).
    fn deliver(&mut self, _port: u16, _datagram: &UdpDatagram, _segment: usize) -> DeliveryResult {
        DeliveryResult::NoSocket
    }
    /// True if a program's socket on `port` receives several datagrams at once (UDP_GRO).
    fn merges(&mut self, _port: u16) -> bool {
        false
    }
    /// Reads one send call of `socket` into `bytes`, which fit the largest. `level`: priority of a
    /// datagram for another program here.
    fn next_datagram(&mut self, _socket: u64, _level: Priority, _bytes: &mut [u8]) -> OutgoingDatagram {
        OutgoingDatagram::Nothing
    }
    /// Reports that a datagram from `port` to `remote` is undeliverable.
    fn undelivered(&mut self, _port: u16, _remote: SocketAddr, _why: Unreachable) {}
}

/// Result of delivering a datagram to an application socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// Delivered to this socket.
    Delivered(u64),
    /// The socket's buffer is full; [`AppEvent::DatagramWritable`] reports new space.
    Full,
    /// The socket's buffer is full and other sockets share the port: the datagram is dropped.
    Dropped,
    /// No socket receives it.
    NoSocket,
}

/// One send call of an application socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingDatagram {
    /// Datagrams to send.
    Out {
        /// Source address, or unspecified for any of ours, and source port.
        from: SocketAddr,
        /// Destination.
        to: SocketAddr,
        /// Total length in bytes.
        len: usize,
        /// Length of each datagram in bytes; the last may be shorter.
        segment: usize,
        /// DSCP and ECN of each; a DSCP of 0 leaves it to the label.
        marks: TrafficClass,
        /// True if no datagram may be fragmented.
        dont_fragment: bool,
        /// Hop limit of each.
        hops: u8,
    },
    /// The datagram was for another program here, or invalid.
    Settled(DeliveryResult),
    /// Left to the kernel: the device has no route there.
    Elsewhere,
    /// Nothing now; [`AppEvent::DatagramReadable`] reports new output.
    Nothing,
    /// Nothing, and the socket is closed by all processes.
    End {
        /// Port to which the socket was bound.
        port: u16,
        /// True if no other socket is bound to the same address.
        last: bool,
    },
}

/// Event of the application side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// Readiness of a connection's pipe; ignored if the connection has ended.
    Pipe {
        /// Connection.
        conn: ConnId,
        /// True if there may be input, or its end.
        readable: bool,
        /// True if there may be space again.
        writable: bool,
        /// True if all processes have closed their end.
        gone: bool,
    },
    /// Output of a connection, known to its pipe without [`AppStream::arrived`].
    Written(ConnId),
    /// The program has ended writing; its output is still to be read to the end.
    Shut(ConnId),
    /// A program listens on this port; it may have other listeners on the port, or repeat the call.
    Listen {
        /// Port.
        port: u16,
        /// As [`ListenOptions::fast_open`](net::stack::ListenOptions::fast_open).
        fast_open: usize,
        /// As [`ListenOptions::hops`](net::stack::ListenOptions::hops).
        hops: [HopLimits; 2],
    },
    /// No program listens on this port any more.
    Unlisten(u16),
    /// A program opens a connection; [`AppSockets::opening`] or [`AppSockets::refuse`] follows.
    Connect {
        /// Number of the call.
        call: u64,
        /// Destination.
        to: SocketAddr,
        /// Source port, if the program chose one.
        port: Option<u16>,
        /// Hop limits.
        hops: HopLimits,
    },
    /// A program sets an option of one of its connections.
    Set(ConnId, SocketOption),
    /// A program queries one of its connections; [`AppSockets::answer`] follows.
    GetInfo {
        /// Number of the call.
        call: u64,
        /// Connection.
        conn: ConnId,
    },
    /// A program binds a UDP socket to this port, possibly one of several.
    Bound(u16),
    /// Effect of an [`OutgoingDatagram::End`] that another stack of the same programs received.
    SocketClosed {
        /// Closed socket.
        socket: u64,
        /// Port to which the socket was bound.
        port: u16,
        /// True if no other socket is bound to the same address.
        last: bool,
    },
    /// A program has sent datagrams from this socket, or closed it.
    DatagramReadable(u64),
    /// A socket of this port that was full may have space again.
    DatagramWritable(u16),
}

/// Connection option that a program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// Keep-alive probes on or off.
    KeepAlive(bool),
    /// Idle time before the first probe.
    KeepIdle(Span),
    /// Interval between probes.
    KeepInterval(Span),
    /// Number of probes.
    KeepCount(u8),
    /// Maximum time that data may remain unacknowledged; `None`: unlimited.
    UserTimeout(Option<Span>),
    /// True if closing resets the connection.
    ResetOnClose(bool),
    /// True if small segments are held, 200 ms at most (TCP_CORK).
    Cork(bool),
    /// Bytes that make the connection readable for the program (SO_RCVLOWAT).
    LowWater(u32),
    /// Bytes that the program reads now, even if less than its low water.
    Withheld(u32),
    /// Level of its output until the next input.
    Level(Priority),
    /// DSCP of its packets at any level; 0: that of the level.
    Dscp(u8),
    /// Hop limit of its packets, if the IP version matches.
    Hops {
        /// True for IPv6.
        six: bool,
        /// Hop limit.
        hops: u8,
    },
    /// Minimum hop limit of received packets, likewise.
    HopsMin {
        /// True for IPv6.
        six: bool,
        /// Hop limit.
        hops: u8,
    },
    /// The application's private bytes (ADPS M5).
    Private([u8; 64 - APPLICATION]),
}
