//! Family, type and protocol of a kernel socket, which decide if it may move to the stack.

use std::os::fd::BorrowedFd;

use rustix::net::{AddressFamily, Protocol, SocketType, ipproto, sockopt};

/// True for IPv6, false for IPv4, if `socket` is a TCP socket.
pub(crate) fn tcp(socket: BorrowedFd<'_>) -> Option<bool> {
    speaks(socket, SocketType::STREAM, ipproto::TCP)
}

/// True for IPv6, false for IPv4, if `socket` is a UDP socket.
pub(crate) fn udp(socket: BorrowedFd<'_>) -> Option<bool> {
    speaks(socket, SocketType::DGRAM, ipproto::UDP)
}

/// True for IPv6, false for IPv4, if `socket` has this type and protocol.
fn speaks(socket: BorrowedFd<'_>, kind: SocketType, protocol: Protocol) -> Option<bool> {
    let domain = sockopt::socket_domain(socket).ok()?;
    let six = domain == AddressFamily::INET6;
    let does = sockopt::socket_type(socket) == Ok(kind)
        && sockopt::socket_protocol(socket) == Ok(Some(protocol))
        && (six || domain == AddressFamily::INET);
    does.then_some(six)
}
