//! UDP sockets: move to the stack, connect and disconnect.
//!
//! A UDP socket moves to the stack when it binds to one of the stack's addresses, or when it is
//! unbound and connects or sends to a destination that the stack routes. It then stays there. Its
//! descriptor is the end of a socket pair whose messages carry a header (`datagram_io`), so every
//! send and receive call checks for it ([`udp_fds`](crate::udp_fds)).

use std::ffi::c_int;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;
use rustix::net::{getsockname, sockopt};
use shim::{Answer, DatagramOptions, Name, Request, Reuse, ShimClient};

use crate::{borrow, fd_replace, shim_client, socket_address, socket_kind};

/// Request that `bind` of a UDP socket sends to the socket server.
pub(crate) fn wanted(socket: BorrowedFd<'_>, addr: SocketAddr) -> Option<Request> {
    request(socket, addr, None, false)
}

fn request(
    socket: BorrowedFd<'_>,
    addr: SocketAddr,
    to: Option<SocketAddr>,
    connects: bool,
) -> Option<Request> {
    let six = socket_kind::udp(socket)?;
    if shim_client().is_some_and(|shim_client| fd_replace::is_elsewhere(&shim_client, socket)) {
        return None;
    }
    let v6_only = six && sockopt::ipv6_v6only(socket).unwrap_or(false);
    let reuse = Reuse {
        addr: sockopt::socket_reuseaddr(socket).unwrap_or(false),
        port: sockopt::socket_reuseport(socket).unwrap_or(false),
    };
    Some(Request::Datagrams { addr, six, v6_only, reuse, options: options(socket), to, connects })
}

/// Options that the program has set on the kernel socket `socket`.
fn options(socket: BorrowedFd<'_>) -> DatagramOptions {
    let mut options = DatagramOptions::default();
    for (level, name) in DatagramOptions::NAMES {
        // An IPv4 socket has no IPv6 options.
        if let Some(value) = fd_replace::int(socket.as_raw_fd(), level, name).filter(|value| *value != 0) {
            // The kernel has accepted the value, so it is in range.
            let _ = options.set(level, name, value);
        }
    }
    options
}

/// Moves `fd` to the stack if it is an unbound UDP socket whose first datagram goes to `to`, and
/// the stack routes there. True if it did. `family` is that of the program's address, `AF_INET6` for
/// a mapped one.
pub(crate) fn adopt(fd: c_int, to: SocketAddr, family: Option<c_int>, connects: bool) -> Result<bool, Errno> {
    let ip = to.ip();
    if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return Ok(false);
    }
    let (Some(shim_client), Some(socket)) = (shim_client(), borrow(fd)) else { return Ok(false) };
    let bound = getsockname(socket).ok().and_then(|addr| SocketAddr::try_from(addr).ok());
    let Some(bound) = bound.filter(|addr| addr.ip().to_canonical().is_unspecified()) else {
        return Ok(false);
    };
    // A socket that has sent, or has a port, stays with the kernel.
    // For an address of the other family the kernel returns its error.
    let speaks = match bound {
        SocketAddr::V4(_) => family != Some(libc::AF_INET6),
        SocketAddr::V6(_) => to.is_ipv6() || sockopt::ipv6_v6only(socket) == Ok(false),
    };
    let is_free = (connects || bound.port() == 0) && speaks;
    let request = if is_free { request(socket, bound, Some(to), connects) } else { None };
    let Some(request) = request else { return Ok(false) };
    let asked = shim_client.ask(&request)?;
    match asked.answer {
        Answer::Done => fd_replace::replace_fd(&shim_client, fd, &asked.end).map(|()| true),
        Answer::NotOurs => Ok(false),
        Answer::No(errno) => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Connects socket `name` to `to`; `None` disconnects it.
///
/// # Errors
/// `EAFNOSUPPORT`: the socket, or its own address, is of the other family.
pub(crate) fn connect(shim_client: &ShimClient, name: &Name, to: Option<SocketAddr>) -> Result<(), Errno> {
    if to.is_some_and(|to| to.is_ipv6() && !name.six) {
        return Err(Errno::AFNOSUPPORT);
    }
    match shim_client.ask(&Request::Aim { id: name.id, to })?.answer {
        Answer::No(errno) => Err(Errno::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

/// True if `addr` has the family AF_UNSPEC, which disconnects a socket.
///
/// # Safety
/// `addr` and `len` are the program's arguments to connect(2).
pub(crate) unsafe fn is_unspec(addr: *const sockaddr, len: socklen_t) -> bool {
    // SAFETY: the caller's address.
    unsafe { socket_address::family(addr, len) }.is_some_and(|family| c_int::from(family) == libc::AF_UNSPEC)
}

/// Local address of socket `name`.
pub(crate) fn local(shim_client: &ShimClient, name: &Name) -> SocketAddr {
    // Connecting changes the local address only of a socket bound to all addresses.
    let is_any = name.local.ip().is_unspecified();
    let asked = if is_any { shim_client.ends(name.id).ok() } else { None };
    asked.map_or(name.local, |(local, _)| local)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_udp_socket_requests_with_its_own_options() {
        let addr = "10.0.0.1:53".parse().unwrap();
        let socket = UdpSocket::bind("[::]:0").unwrap();
        sockopt::set_socket_reuseport(&socket, true).unwrap();
        let Some(Request::Datagrams { six, reuse, to, connects, .. }) = wanted(socket.as_fd(), addr) else {
            panic!("a UDP socket")
        };
        assert_eq!((six, reuse, to, connects), (true, Reuse { addr: false, port: true }, None, false));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(wanted(tcp.as_fd(), addr).is_none());
    }

    #[test]
    fn no_socket_has_a_family_of_its_own() {
        let (none, four) = ([0_u8; 16], [2_u8, 0, 0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let is = |bytes: &[u8], len: u32| {
            // SAFETY: the buffers have 16 bytes.
            unsafe { is_unspec(bytes.as_ptr().cast(), len) }
        };
        assert!(is(&none, 16) && is(&none, 2));
        assert!(!is(&none, 1) && !is(&four, 16));
        // SAFETY: null is allowed.
        assert!(!unsafe { is_unspec(std::ptr::null(), 16) });
    }
}
