//! Adapter of [`shim`]'s server side to the stack's socket interface.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use classify::{FlowState, Private, TransportClassifier, private};
use net::stack::{CloseReason, ConnId, ConnectError, Info, KeepAlive, UdpDatagram, Unreachable};
use net::steer::FlowSteering;
use queueing::{Priority, Span};
use runtime::socket_proxy::{
    AppEvent, AppSockets, AppStream, ConnectFailure, DeliveryResult, OutgoingDatagram, ReadResult,
    SocketOption, WriteResult,
};
use rustix::io::Errno;
use shim::{self, AcceptError, ConnectionEnd, RefusalKind, Routes, SocketInfo, StackHandle};
use wire::ip::TrafficClass;

use crate::Error;
use crate::error::plain;

/// The shim's server side, for one stack.
pub(super) struct SocketAdapter {
    window: StackHandle,
    events: Vec<shim::SocketEvent>,
    /// Connections refused: no listener, queue full, no descriptor left.
    pub(super) untaken: [u64; 3],
}

/// A program's connection.
pub(super) struct StreamAdapter(shim::ConnPair);

impl SocketAdapter {
    /// One adapter for each stack of `steering`; programs connect to the same shim server.
    ///
    /// # Errors
    /// The kernel has no descriptor, or no abstract sockets.
    pub(super) fn open(key: shim::AccessKey, steering: FlowSteering) -> Result<Vec<Self>, Error> {
        let windows = StackHandle::open(key, steering).map_err(|e| no_desk(&e))?;
        Ok(windows.into_iter().map(|window| Self { window, events: Vec::new(), untaken: [0; 3] }).collect())
    }

    /// A descriptor that is readable while programs have sent something.
    ///
    /// # Errors
    /// The kernel has no descriptor.
    pub(super) fn readiness(&self) -> Result<OwnedFd, Error> {
        self.window.readiness().map_err(|e| no_desk(&e))
    }

    /// Sets the stacks' addresses, for all of them.
    pub(super) fn set_routes(&self, routes: Routes) {
        self.window.set_routes(routes);
    }

    /// The environment variable for programs.
    pub(super) fn variable(&self) -> String {
        self.window.variable()
    }

    /// Requests that any program was refused, a line each.
    pub(super) fn refused(&self) -> impl Iterator<Item = String> {
        self.window.refused().into_iter().map(|(refusal, count)| {
            let what = match refusal {
                RefusalKind::Half { port, errno } => {
                    let why = std::io::Error::from_raw_os_error(errno);
                    format!("port {port} of the kernel's addresses: {}", plain(&why.to_string()))
                }
                RefusalKind::KernelSocketOverflow { port } => {
                    format!("datagrams for port {port} of the kernel's addresses: the program is too slow")
                }
                RefusalKind::Connect => {
                    "connect from a greenwave address to a host that is not behind the device".to_owned()
                }
                RefusalKind::Cookie => {
                    "listen or accept by a socket that another process has bound (fork, SCM_RIGHTS): \
                     only that process's descriptors are the stack's"
                        .to_owned()
                }
                RefusalKind::SetOption { level, name } => format!("setsockopt level {level} option {name}"),
                RefusalKind::Malformed => "malformed requests from the preloaded library".to_owned(),
            };
            format!("refused: {what}, {count}×")
        })
    }
}

fn no_desk(e: &std::io::Error) -> Error {
    Error::new(format!("cannot open the socket for the preloaded library: {e}"))
        .advice("a larger limit: ulimit -n")
}

impl SocketAdapter {
    /// A shim event as the stack's event.
    fn poll_events(
        &mut self,
        into: &mut Vec<AppEvent>,
        poll: impl FnOnce(&mut StackHandle, &mut Vec<shim::SocketEvent>) -> bool,
    ) -> bool {
        let Self { window, events, .. } = self;
        let some = poll(window, events);
        let conn = |id| window.conn(id);
        into.extend(events.drain(..).map(|what| match what {
            shim::SocketEvent::Pipe { id, readable, writable, gone } => {
                AppEvent::Pipe { conn: conn(id), readable, writable, gone }
            }
            shim::SocketEvent::Written(id) => AppEvent::Written(conn(id)),
            shim::SocketEvent::Shut(id) => AppEvent::Shut(conn(id)),
            shim::SocketEvent::Listen { port, fast_open, hops } => AppEvent::Listen { port, fast_open, hops },
            shim::SocketEvent::Unlisten(port) => AppEvent::Unlisten(port),
            shim::SocketEvent::Connect { call, to, port, hops } => AppEvent::Connect { call, to, port, hops },
            shim::SocketEvent::Set { id, setting } => AppEvent::Set(conn(id), translated(setting)),
            shim::SocketEvent::Asked { call, id } => AppEvent::GetInfo { call, conn: conn(id) },
            shim::SocketEvent::Bound(port) => AppEvent::Bound(port),
            shim::SocketEvent::Closed { socket, port, last } => AppEvent::SocketClosed { socket, port, last },
            shim::SocketEvent::DatagramReadable(socket) => AppEvent::DatagramReadable(socket),
            shim::SocketEvent::DatagramWritable(port) => AppEvent::DatagramWritable(port),
        }));
        some
    }
}

impl AppSockets for SocketAdapter {
    type Pipe = StreamAdapter;

    fn poll(&mut self, into: &mut Vec<AppEvent>) -> bool {
        self.poll_events(into, StackHandle::poll)
    }

    fn poll_other_stacks(&mut self, into: &mut Vec<AppEvent>) -> bool {
        self.poll_events(into, |window, into| window.poll_posted(into))
    }

    fn sleep(&mut self) -> bool {
        self.window.sleep()
    }

    fn wake(&mut self) {
        self.window.wake();
    }

    fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        self.window.classifier(port)
    }

    fn offer(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<StreamAdapter> {
        match self.window.offer(conn, local, remote) {
            Ok(pipe) => Some(StreamAdapter(pipe)),
            Err(why) => {
                let kind = match why {
                    AcceptError::NoListener => 0,
                    AcceptError::Full => 1,
                    AcceptError::NoDescriptor => 2,
                };
                self.untaken[kind] += 1;
                None
            }
        }
    }

    fn opening(
        &mut self,
        call: u64,
        conn: ConnId,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<StreamAdapter> {
        self.window.opening(call, conn, local, remote).map(StreamAdapter)
    }

    fn inherited(&mut self, into: &mut Vec<SocketOption>) {
        into.extend(self.window.take_inherited().into_iter().map(translated));
    }

    fn refuse(&mut self, call: u64, why: ConnectFailure) {
        self.window.refuse_opening(call, errno(why));
    }

    fn opened(&mut self, conn: ConnId, pipe: &mut StreamAdapter) {
        self.window.opened(conn, &mut pipe.0);
    }

    fn failed(&mut self, conn: ConnId, why: ConnectFailure) {
        self.window.failed(conn, errno(why));
    }

    fn ended(&mut self, conn: ConnId, why: CloseReason, is_complete: bool) {
        self.window
            .ended(conn, ConnectionEnd { error: end_errno(why, is_complete), is_complete, released: false });
    }

    fn released(&mut self, conn: ConnId) {
        self.window.ended(conn, ConnectionEnd { error: None, is_complete: true, released: true });
    }

    fn answer(&mut self, call: u64, info: Option<&Info>, keep_alive: KeepAlive) {
        let figures = info.map_or(SocketInfo::gone(), |info| SocketInfo::of(info, keep_alive));
        self.window.answer(call, &figures);
    }

    fn merges(&mut self, port: u16) -> bool {
        self.window.merges(port)
    }

    fn deliver(&mut self, port: u16, datagram: &UdpDatagram, segment: usize) -> DeliveryResult {
        let UdpDatagram { remote, local, marks, hops, ref payload, label, .. } = *datagram;
        let local = SocketAddr::new(local, port);
        let arrived = shim::Arrived { local, remote, class: marks.byte(), hops };
        delivered(self.window.deliver(arrived, label.priority.level(), payload, segment))
    }

    fn next_datagram(&mut self, socket: u64, level: Priority, bytes: &mut [u8]) -> OutgoingDatagram {
        match self.window.next_datagram(socket, level.level(), bytes) {
            shim::QueuedDatagram::Out { from, to, len, segment, class, dont_fragment, hops } => {
                OutgoingDatagram::Out {
                    from,
                    to,
                    len,
                    segment,
                    marks: TrafficClass::of(class),
                    dont_fragment,
                    hops,
                }
            }
            shim::QueuedDatagram::Settled(what) => OutgoingDatagram::Settled(delivered(what)),
            shim::QueuedDatagram::Elsewhere => OutgoingDatagram::Elsewhere,
            shim::QueuedDatagram::Nothing => OutgoingDatagram::Nothing,
            shim::QueuedDatagram::End { port, last } => OutgoingDatagram::End { port, last },
        }
    }

    fn undelivered(&mut self, port: u16, remote: SocketAddr, why: Unreachable) {
        self.window.undelivered(port, remote, unreachable(why));
    }
}

fn delivered(what: shim::Delivered) -> DeliveryResult {
    match what {
        shim::Delivered::To(socket) => DeliveryResult::Delivered(socket),
        shim::Delivered::Full => DeliveryResult::Full,
        shim::Delivered::Lost => DeliveryResult::Dropped,
        shim::Delivered::NoSocket => DeliveryResult::NoSocket,
    }
}

/// The errno of connect(2) for the failure `why`.
fn errno(why: ConnectFailure) -> Errno {
    match why {
        ConnectFailure::Local(ConnectError::NoPort) => Errno::ADDRNOTAVAIL,
        ConnectFailure::Local(ConnectError::TooMany) => Errno::NOBUFS,
        ConnectFailure::Local(ConnectError::NoRoute) => Errno::NETUNREACH,
        ConnectFailure::Remote(CloseReason::Reset) => Errno::CONNREFUSED,
        ConnectFailure::Remote(CloseReason::TimedOut) => Errno::TIMEDOUT,
        ConnectFailure::Remote(CloseReason::Unreachable(why)) => unreachable(why),
        ConnectFailure::Remote(CloseReason::Finished | CloseReason::Aborted) => Errno::CONNABORTED,
    }
}

/// Error for an unreachable peer (Linux, `icmp_err_convert` and `icmpv6_err_convert`).
fn unreachable(why: Unreachable) -> Errno {
    match why {
        Unreachable::Network => Errno::NETUNREACH,
        Unreachable::Host | Unreachable::Prohibited { v6: false } => Errno::HOSTUNREACH,
        Unreachable::Protocol => Errno::NOPROTOOPT,
        Unreachable::Port => Errno::CONNREFUSED,
        Unreachable::Prohibited { v6: true } => Errno::ACCESS,
    }
}

/// Error of a connection that ended for the reason `why`; `is_complete`: after the peer had closed (Linux, `tcp_reset`).
fn end_errno(why: CloseReason, is_complete: bool) -> Option<Errno> {
    Some(match why {
        CloseReason::Finished => return None,
        CloseReason::Reset if is_complete => Errno::PIPE,
        CloseReason::Reset => Errno::CONNRESET,
        CloseReason::TimedOut => Errno::TIMEDOUT,
        CloseReason::Unreachable(why) => unreachable(why),
        CloseReason::Aborted => Errno::CONNABORTED,
    })
}

fn translated(setting: shim::TcpSockopt) -> SocketOption {
    match setting {
        shim::TcpSockopt::KeepAlive(on) => SocketOption::KeepAlive(on),
        shim::TcpSockopt::KeepIdle(span) => SocketOption::KeepIdle(span),
        shim::TcpSockopt::KeepInterval(span) => SocketOption::KeepInterval(span),
        shim::TcpSockopt::KeepCount(count) => SocketOption::KeepCount(count),
        shim::TcpSockopt::UserTimeout(timeout) => SocketOption::UserTimeout(timeout),
        shim::TcpSockopt::Cork(cork) => SocketOption::Cork(cork),
        shim::TcpSockopt::LowWater(bytes) => SocketOption::LowWater(bytes),
        shim::TcpSockopt::Withheld(bytes) => SocketOption::Withheld(bytes),
        shim::TcpSockopt::ResetOnClose(reset) => SocketOption::ResetOnClose(reset),
        shim::TcpSockopt::Dscp(dscp) => SocketOption::Dscp(dscp),
        shim::TcpSockopt::Ttl(hops) => SocketOption::Hops { six: false, hops },
        shim::TcpSockopt::HopLimit(hops) => SocketOption::Hops { six: true, hops },
        shim::TcpSockopt::TtlMin(hops) => SocketOption::HopsMin { six: false, hops },
        shim::TcpSockopt::HopLimitMin(hops) => SocketOption::HopsMin { six: true, hops },
        shim::TcpSockopt::Priority(level) => SocketOption::Level(level),
        shim::TcpSockopt::Private(bytes) => SocketOption::Private(bytes),
    }
}

impl AppStream for StreamAdapter {
    fn publish(&mut self, level: Priority, private: &Private) {
        self.0.tell(level.level(), private::application(private).try_into().expect("48 of its 64 bytes"));
    }

    fn flow(&mut self, flow: &FlowState) {
        let FlowState { srtt, loss, received, sent, .. } = *flow;
        let rtt_ns = srtt.map_or(0, Span::as_nanos);
        self.0.flow(&shim::label_table::FlowStats {
            rtt_ns,
            received: received.get(),
            sent: sent.get(),
            loss,
        });
    }

    fn write(&mut self, bytes: &[u8]) -> WriteResult {
        match self.0.write(bytes) {
            shim::Wrote::Some(taken) => WriteResult::Some(taken),
            shim::Wrote::Full => WriteResult::Full,
            shim::Wrote::Gone => WriteResult::Closed,
        }
    }

    fn arrived(&mut self, ends: bool) {
        self.0.arrived(ends);
    }

    fn read(&mut self, bytes: &mut [u8]) -> ReadResult {
        match self.0.read(bytes) {
            shim::ProgramRead::Some(taken) => ReadResult::Some(taken),
            shim::ProgramRead::Nothing => ReadResult::Nothing,
            shim::ProgramRead::End => ReadResult::End,
            shim::ProgramRead::Reset => ReadResult::Reset,
        }
    }

    fn take_more(&mut self) -> bool {
        self.0.take_more()
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn want_space(&mut self, wanted: bool) {
        self.0.want_room(wanted);
    }

    fn is_unread(&self) -> bool {
        self.0.is_unread()
    }
}
