//! What sort of socket the kernel's are: whether one may become ours.

use std::os::fd::BorrowedFd;

use rustix::net::{AddressFamily, Protocol, SocketType, ipproto, sockopt};

/// Of a socket of TCP: whether it speaks IPv6.
pub(crate) fn tcp(socket: BorrowedFd<'_>) -> Option<bool> {
    speaks(socket, SocketType::STREAM, ipproto::TCP)
}

/// Of a socket of UDP: whether it speaks IPv6.
pub(crate) fn udp(socket: BorrowedFd<'_>) -> Option<bool> {
    speaks(socket, SocketType::DGRAM, ipproto::UDP)
}

/// Of a socket of this kind and protocol: whether it speaks IPv6.
fn speaks(socket: BorrowedFd<'_>, kind: SocketType, protocol: Protocol) -> Option<bool> {
    let domain = sockopt::socket_domain(socket).ok()?;
    let six = domain == AddressFamily::INET6;
    let does = sockopt::socket_type(socket) == Ok(kind)
        && sockopt::socket_protocol(socket) == Ok(Some(protocol))
        && (six || domain == AddressFamily::INET);
    does.then_some(six)
}
