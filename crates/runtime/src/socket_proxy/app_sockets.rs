//! What [`SocketProxy`](super::Streams) needs of the programs' side.

use std::net::SocketAddr;

use net::classify::private::APPLICATION;
use net::classify::{FlowState, Private, TransportClassifier};
use net::stack::{CloseReason, ConnId, Datagram, HopLimits, Info, KeepAlive, Unreachable};
use net::wire::ip::TrafficClass;
use queueing::{Priority, Span};

use super::NotOpened;

/// The program's end of a connection.
pub trait AppStream {
    /// What is handed over next is as urgent as `level`; `private` is what
    /// the connection shares with its classifiers. For programs that look.
    fn tell(&mut self, _level: Priority, _private: &Private) {}
    /// What the connection has been like; likewise.
    fn flow(&mut self, _flow: &FlowState) {}
    /// Hands `bytes`, which are not none, to the program.
    fn write(&mut self, bytes: &[u8]) -> WriteResult;
    /// [`AppEvent::Pipe`] has told that there is something to read, an end if it `ends`. For
    /// pipes that have another place to look.
    fn arrived(&mut self, _ends: bool) {}
    /// Takes what the program has written into `bytes`. Less than they hold is
    /// all there is; [`AppEvent::Pipe`] or [`AppEvent::Written`] follows when there is more, or
    /// [`AppEvent::Shut`] has told that an end follows.
    fn read(&mut self, bytes: &mut [u8]) -> Read;
    /// True if the program has said that more follows what it wrote last (`MSG_MORE`); once.
    fn take_more(&mut self) -> bool {
        false
    }
    /// After what was handed over nothing comes.
    fn finish(&mut self);
    /// Whether [`AppEvent::Pipe`] is to tell when there is room again.
    fn want_room(&mut self, wanted: bool);
    /// Whether the program has yet to read some of what it was handed, as far
    /// as is known.
    fn is_unread(&self) -> bool {
        false
    }
}

/// What became of bytes for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It has the first so many.
    Some(usize),
    /// There is no room.
    Full,
    /// It reads no more.
    Gone,
}

/// What the program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes.
    Some(usize),
    /// Nothing now; [`AppEvent::Pipe`] follows when there is something.
    Nothing,
    /// And it writes no more.
    End,
    /// It closed its end with bytes unread.
    Reset,
}

/// The programs.
pub trait AppSockets {
    /// Their end of a connection.
    type Pipe: AppStream;
    /// Appends what happened on their side; whether anything did. Never blocks.
    fn poll(&mut self, into: &mut Vec<AppEvent>) -> bool;
    /// Appends what other stacks of the same programs have left for this one, such as who
    /// listens since; whether anything. Asked between taking frames in and telling
    /// whose they are.
    fn poll_left(&mut self, _into: &mut Vec<AppEvent>) -> bool {
        false
    }
    /// The stack is about to sleep until its device, or what it sleeps on together with that, ends the
    /// sleep; `false` where there is something to poll that would not.
    fn sleep(&mut self) -> bool {
        true
    }
    /// It is awake.
    fn wake(&mut self) {}
    /// Who is urgent among the connections to `port`, where whoever listens
    /// there says so itself.
    fn classifier(&self, _port: u16) -> Option<TransportClassifier> {
        None
    }
    /// Hands a new connection to whoever listens; `None` when nobody takes it.
    fn offer(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<Self::Pipe>;
    /// Answers [`AppEvent::Connect`]: a handshake is under way. `None` when the
    /// program cannot have it.
    fn opening(
        &mut self,
        call: u64,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<Self::Pipe>;
    /// Answers [`AppEvent::Connect`]: there is none.
    fn refuse(&mut self, call: u64, why: NotOpened);
    /// The handshake of `conn` is complete: its program may write.
    fn opened(&mut self, conn: ConnId, pipe: &mut Self::Pipe);
    /// The handshake of `conn` has failed; its pipe is dropped after this.
    fn failed(&mut self, conn: ConnId, why: NotOpened);
    /// Connection `conn`, which was open, has ended for the reason `why`; its pipe is dropped after this.
    /// `whole`: the peer had closed before, after all that it sent.
    fn ended(&mut self, _conn: ConnId, _why: CloseReason, _whole: bool) {}
    /// The program of `conn` has shut both sides down, or no process has its pipe, which is dropped after this.
    fn released(&mut self, _conn: ConnId) {}
    /// Answers [`AppEvent::Asked`]: what the connection is like, if there still is
    /// one, and how its peer is asked whether it lives, where it is.
    fn answer(&mut self, _call: u64, _info: Option<&Info>, _keep_alive: KeepAlive) {}
    /// Hands a datagram to the program that wants what comes to its address and `port`; or,
    /// where `segment` is not 0, datagrams of so many bytes each, of which the last may
    /// have less: only for a port that [merges](Self::merges).
    fn deliver(&mut self, _port: u16, _datagram: &Datagram, _segment: usize) -> DeliveryResult {
        DeliveryResult::Nobody
    }
    /// Whether a program that wants what comes to `port` takes several at once (UDP_GRO).
    fn merges(&mut self, _port: u16) -> bool {
        false
    }
    /// Takes what a program has sent from `socket` at once, as urgent as `level`, into
    /// `bytes`, which hold the most there is.
    fn letter(&mut self, _socket: u64, _level: Priority, _bytes: &mut [u8]) -> OutgoingDatagram {
        OutgoingDatagram::Nothing
    }
    /// What was sent to `remote` from `port` cannot get there.
    fn undelivered(&mut self, _port: u16, _remote: SocketAddr, _why: Unreachable) {}
}

/// What became of a datagram for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// This socket has it.
    To(u64),
    /// There is no room; [`AppEvent::Room`] follows when there is.
    Full,
    /// There is none, and others are not to wait for it: it is lost.
    Lost,
    /// Nobody wants it.
    Nobody,
}

/// What a program has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingDatagram {
    /// So many bytes.
    Out {
        /// From this address of ours, or any if it is none, and this port.
        from: SocketAddr,
        /// To whom.
        to: SocketAddr,
        /// Bytes.
        len: usize,
        /// Of each datagram that they are; the last may have less.
        segment: usize,
        /// What each carries; a DSCP of 0 leaves it to its label.
        marks: TrafficClass,
        /// None of them is to be cut on its way.
        whole: bool,
        /// Hops that each may take.
        hops: u8,
    },
    /// It was for another program, or made no sense.
    Settled(DeliveryResult),
    /// The kernel has it: the device does not lead there.
    Elsewhere,
    /// Nothing now; [`AppEvent::Mail`] follows when there is something.
    Nothing,
    /// And nothing follows: nobody has the socket any more.
    End {
        /// What it was bound to.
        port: u16,
        /// Nobody else wants datagrams for that.
        last: bool,
    },
}

/// What happened on the programs' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// On a connection; one that is gone meanwhile is nobody's.
    Pipe {
        /// Which.
        conn: ConnId,
        /// There may be something to read, or its end.
        readable: bool,
        /// There may be room again.
        writable: bool,
        /// Nobody has the other end any more.
        gone: bool,
    },
    /// There is something to read on a connection, of which the pipe knows without being
    /// [told](Pipe::arrived).
    Written(ConnId),
    /// The program writes nothing more: what it wrote is to be read to the end.
    Shut(ConnId),
    /// Somebody listens on this port; perhaps not the first, or not for the first time.
    Listen {
        /// Which.
        port: u16,
        /// As [`ListenOptions::fast_open`](net::stack::ListenOptions::fast_open).
        fast_open: usize,
        /// As [`ListenOptions::hops`](net::stack::ListenOptions::hops).
        hops: [HopLimits; 2],
    },
    /// Nobody does any more.
    Unlisten(u16),
    /// A program wants a connection; [`AppSockets::opening`] or
    /// [`AppSockets::refuse`] follows.
    Connect {
        /// How the question is called.
        call: u64,
        /// To whom.
        to: SocketAddr,
        /// From this port of ours, if it says so.
        port: Option<u16>,
        /// With these hop limits.
        hops: HopLimits,
    },
    /// A program wants something of TCP for one of its connections.
    Set(ConnId, Setting),
    /// A program asks what one of its connections is like; [`AppSockets::answer`] follows.
    Asked {
        /// How the question is called.
        call: u64,
        /// Which.
        conn: ConnId,
    },
    /// A program wants the datagrams for this port; perhaps not the first.
    Bound(u16),
    /// What [`OutgoingDatagram::End`] has told another stack of the same programs.
    Left {
        /// Which socket nobody has any more.
        socket: u64,
        /// What it was bound to.
        port: u16,
        /// Nobody else wants datagrams for that.
        last: bool,
    },
    /// A program has sent datagrams from this socket, or let go of it.
    Mail(u64),
    /// Where a datagram for this port found no room there may be some.
    Room(u16),
}

/// What a program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Whether a silent peer is asked if it lives.
    KeepAlive(bool),
    /// After how long.
    KeepIdle(Span),
    /// How often then.
    KeepInterval(Span),
    /// How many times.
    KeepCount(u8),
    /// How long data may wait for its acknowledgement.
    UserTimeout(Option<Span>),
    /// Closing resets.
    ResetOnClose(bool),
    /// Small segments wait for more, 200 ms at the most (TCP_CORK).
    Cork(bool),
    /// How urgent is what it sends, until something comes.
    Level(Priority),
    /// The code point of its packets, whatever their level; 0: that of their level.
    Dscp(u8),
    /// Hops that its packets may take, if it is of IPv6, or of IPv4.
    Hops {
        /// Of which version.
        six: bool,
        /// So many.
        hops: u8,
    },
    /// Hops that packets for it must have left, likewise.
    HopsMin {
        /// Of which version.
        six: bool,
        /// So many.
        hops: u8,
    },
    /// The application's private bytes (ADPS M5).
    Private([u8; 64 - APPLICATION]),
}
