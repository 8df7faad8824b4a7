//! connect(2): connections that a program opens.
//!
//! The socket server decides by the target address whether the stack opens the connection. The
//! connection's end of a socket pair then replaces the program's descriptor. It is not writable
//! before the handshake is complete, so `poll` and `epoll_wait` report what they would report for
//! TCP.

use std::ffi::{c_int, c_ulong, c_void};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{pollfd, sigset_t, sockaddr, socklen_t, ssize_t, time_t, timespec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::getsockname;
use rustix::net::sockopt::{self, Timeout, socket_error, socket_timeout};
use shim::socket_name::SocketKind;
use shim::{Answer, Name, Request, ShimClient};

use crate::real_fn::next;
use crate::{
    borrow, errors, fail, fd_replace, kernel_socket, low_water, ours, shim_client, socket_kind, udp_socket,
};

/// connect(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    // SAFETY: the program's arguments.
    let (Some(shim_client), Some(to)) = (shim_client(), unsafe { crate::socket_address::read(addr, len) })
    else {
        // SAFETY: as above.
        let is_unspecified = unsafe { udp_socket::is_unspec(addr, len) };
        return match (shim_client(), ours(fd)) {
            (Some(shim_client), Some(name)) if is_unspecified => {
                disconnect(&shim_client, fd, &name).map_or_else(fail, |()| 0)
            }
            _ => next!(connect(fd, addr, len) as Real),
        };
    };
    let name = ours(fd);
    // SAFETY: as above.
    let family = unsafe { crate::socket_address::family(addr, len) }.map(c_int::from);
    let opened = match (unopened(fd, to, name.as_ref()), name) {
        (Some((six, from)), _) => match other_family(six, family, len) {
            // The socket server returns this for any other address.
            Some(_) if from != 0 && listens(fd) => Err(Errno::ISCONN),
            Some(errno) => Err(errno),
            None => open(&shim_client, fd, to, six, from),
        },
        (None, Some(name))
            if name.kind == SocketKind::Datagrams && !name.six && family == Some(libc::AF_INET6) =>
        {
            Err(Errno::AFNOSUPPORT)
        }
        (None, Some(name)) if name.kind == SocketKind::Datagrams => {
            udp_socket::connect(&shim_client, &name, Some(to)).map(|()| true).map_err(|errno| match family {
                // The kernel tells an IPv4 address from a mapped one.
                Some(libc::AF_INET6) if errno == Errno::AFNOSUPPORT && to.is_ipv4() => Errno::NETUNREACH,
                _ => errno,
            })
        }
        (None, Some(name)) => match (already(&shim_client, fd, &name), other_family(name.six, family, len)) {
            (Some(outcome), _) => outcome.map(|()| true),
            (None, Some(errno)) => Err(errno),
            (None, None) => open(&shim_client, fd, to, name.six, 0).and_then(|ours| match ours {
                true => Ok(true),
                // The descriptor is no kernel socket any more.
                false => Err(Errno::NETUNREACH),
            }),
        },
        (None, None) => udp_socket::adopt(fd, to, family, true),
    };
    match opened {
        Ok(true) => 0,
        Ok(false) => next!(connect(fd, addr, len) as Real),
        Err(errno) => fail(errno),
    }
}

/// Error of connecting a stream socket (IPv6 if `six`) to an address of another `family`, of `len`
/// bytes (Linux, `tcp_v4_connect` and `tcp_v6_connect`).
fn other_family(six: bool, family: Option<c_int>, len: socklen_t) -> Option<Errno> {
    const WITHOUT_SCOPE: socklen_t = 24;
    match family? {
        libc::AF_INET6 if !six => Some(Errno::AFNOSUPPORT),
        libc::AF_INET if six && len < WITHOUT_SCOPE => Some(Errno::INVAL),
        libc::AF_INET if six => Some(Errno::AFNOSUPPORT),
        _ => None,
    }
}

/// Disconnects socket `name` (connect(2) with `AF_UNSPEC`). A connection is reset, and its
/// descriptor becomes a kernel socket again.
pub(crate) fn disconnect(shim_client: &ShimClient, fd: c_int, name: &Name) -> Result<(), Errno> {
    match name.kind {
        SocketKind::Datagrams => udp_socket::connect(shim_client, name, None),
        // A bound socket keeps its address; a listener keeps listening.
        SocketKind::Listener => Ok(()),
        SocketKind::Connection | SocketKind::Opened => {
            let kernel = kernel_socket::new(name)?;
            let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
            shim_client.ask(&Request::Option { id: name.id, level, name: option, value: [1, 0] })?;
            fd_replace::replace(fd, &kernel)
        }
    }
}

/// Opens a connection to `addr` with `fd`, a kernel socket or a bound stack socket, if the stack
/// routes there. True if it did.
///
/// # Safety
/// `addr` points to `len` bytes.
pub(crate) unsafe fn opens(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Result<bool, Errno> {
    // SAFETY: the caller's address.
    match (shim_client(), unsafe { crate::socket_address::read(addr, len) }) {
        (Some(shim_client), Some(to)) => unopened(fd, to, ours(fd).as_ref())
            .map_or(Ok(false), |(six, from)| open(&shim_client, fd, to, six, from)),
        _ => Ok(false),
    }
}

/// Checks that `fd` (with stack name `name`, if any) can open its first connection, to `to`.
/// Returns true for IPv6, and the number of the listener to whose address it is bound, or 0.
fn unopened(fd: c_int, to: SocketAddr, name: Option<&Name>) -> Option<(bool, u64)> {
    match name {
        Some(name) if name.kind == SocketKind::Listener => Some((name.six, name.id)),
        Some(_) => None,
        None => free(fd, to).map(|six| (six, 0)),
    }
}

/// Checks that `fd` is a TCP socket of the kernel that may move to the stack to connect to `to`.
/// Returns true for IPv6.
fn free(fd: c_int, to: SocketAddr) -> Option<bool> {
    let ip = to.ip();
    if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return None;
    }
    let socket = borrow(fd)?;
    let six = socket_kind::tcp(socket)?;
    if six && to.is_ipv4() && sockopt::ipv6_v6only(socket) != Ok(false) {
        return None;
    }
    if shim_client().is_some_and(|shim_client| fd_replace::is_elsewhere(&shim_client, socket)) {
        return None;
    }
    // A program that bound an address of the kernel wants the kernel's TCP.
    let bound = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
    bound.ip().to_canonical().is_unspecified().then_some(six)
}

/// Opens a connection, from the address of listener `from` unless 0. True if the stack opened it.
fn open(shim_client: &ShimClient, fd: c_int, to: SocketAddr, six: bool, from: u64) -> Result<bool, Errno> {
    let socket = borrow(fd).ok_or(Errno::BADF)?;
    let waits = !fcntl_getfl(socket)?.contains(OFlags::NONBLOCK);
    let timeout = if waits { socket_timeout(socket, Timeout::Send)? } else { None };
    let (send_buffer, hops) = (fd_replace::send_buffer(fd), fd_replace::hop_limits(fd, to));
    let low_water = low_water::of(fd).map_or(1, i32::cast_unsigned);
    let asked = shim_client.ask(&Request::Connect { to, six, waits, from, send_buffer, low_water, hops })?;
    match asked.answer {
        Answer::Done => {}
        Answer::NotOurs => return Ok(false),
        Answer::No(errno) => return Err(Errno::from_raw_os_error(errno)),
    }
    let end = asked.brought.as_ref().ok_or(Errno::NETDOWN)?;
    let outcome = match waits {
        true => asked.outcome_by(timeout, receive),
        false => Err(Errno::INPROGRESS),
    };
    if let Ok(Answer::No(errno)) = outcome {
        // The socket stays as it was, and may try another address.
        return Err(Errno::from_raw_os_error(errno));
    }
    fd_replace::replace_fd(shim_client, fd, end)?;
    match outcome {
        Ok(_) => Ok(true),
        // The handshake goes on, as in the kernel.
        Err(Errno::AGAIN) => Err(Errno::INPROGRESS),
        Err(errno) => Err(errno),
    }
}

/// recv(2) of the C library: a cancellation point, as connect(2) is.
fn receive(end: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, usize, c_int) -> ssize_t;
    let got = next!(recv(end.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) as Real);
    usize::try_from(got).map_err(|_| crate::errno())
}

/// Result of connecting a connection again; `None` if the handshake failed and the program has read
/// the error, so that it may try again. A blocking call waits for a pending handshake (a signal had
/// interrupted the earlier wait).
fn already(shim_client: &ShimClient, fd: c_int, name: &Name) -> Option<Result<(), Errno>> {
    let errno = match handshake_state(shim_client, name) {
        Answer::No(errno) if errno != Errno::NOTCONN.raw_os_error() => Errno::from_raw_os_error(errno),
        _ => Errno::ISCONN,
    };
    if errno == Errno::ALREADY {
        return Some(waited(fd).and_then(|()| match handshake_state(shim_client, name) {
            Answer::No(errno) => {
                // Clears the error, which is reported now.
                let _ = borrow(fd).map(socket_error);
                Err(Errno::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }));
    }
    // Reading SO_ERROR clears it, as a read does.
    let knows = || borrow(fd).is_none_or(|socket| socket_error(socket) == Ok(Ok(())));
    let failed = errno != Errno::ISCONN;
    (!failed || !knows()).then_some(Err(errno))
}

/// Waits until the handshake of `fd` is over, unless `fd` is non-blocking. The wait is in the C
/// library's ppoll(2), a cancellation point as [`receive`] is.
fn waited(fd: c_int) -> Result<(), Errno> {
    type Real = unsafe extern "C-unwind" fn(*mut pollfd, c_ulong, *const timespec, *const sigset_t) -> c_int;
    let socket = borrow(fd).ok_or(Errno::BADF)?;
    if fcntl_getfl(socket)?.contains(OFlags::NONBLOCK) {
        return Err(Errno::ALREADY);
    }
    let timeout = socket_timeout(socket, Timeout::Send)?
        .map(|all| timespec { tv_sec: all.as_secs() as time_t, tv_nsec: all.subsec_nanos().into() });
    let timeout_ptr = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut fds = pollfd { fd, events: libc::POLLOUT, revents: 0 };
    match next!(ppoll(&raw mut fds, 1, timeout_ptr, std::ptr::null()) as Real) {
        0 => Err(Errno::ALREADY),
        1.. => Ok(()),
        _ => Err(crate::errno()),
    }
}

/// Handshake state of a connection: `Done`, `EALREADY` while it is pending, or the error that ended
/// it.
pub(crate) fn handshake_state(shim_client: &ShimClient, name: &Name) -> Answer {
    match name.kind {
        SocketKind::Opened | SocketKind::Connection => {
            let asked = shim_client.ask(&Request::Opening { id: name.id });
            asked.map_or_else(|errno| Answer::No(errno.raw_os_error()), |asked| asked.answer)
        }
        SocketKind::Listener | SocketKind::Datagrams => Answer::Done,
    }
}

/// True if the handshake of connection `name` is pending.
pub(crate) fn is_pending(shim_client: &ShimClient, name: &Name) -> bool {
    handshake_state(shim_client, name) == Answer::No(Errno::ALREADY.raw_os_error())
}

/// True if the bound socket `fd` listens.
pub(crate) fn listens(fd: c_int) -> bool {
    let asked = || shim_client()?.option(ours(fd)?.id, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).ok();
    asked().is_some_and(|value| value == 1_i32.to_ne_bytes())
}

/// True if connection `fd` has a peer.
pub(crate) fn has_peer(shim_client: &ShimClient, fd: c_int, name: &Name) -> bool {
    match name.kind {
        SocketKind::Listener | SocketKind::Datagrams => return false,
        SocketKind::Connection => {
            return !errors::is_hung_up(fd) || handshake_state(shim_client, name) == Answer::Done;
        }
        SocketKind::Opened => {}
    }
    let Some(socket) = borrow(fd) else { return false };
    // A writable connection needs no request.
    let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let open = poll(&mut fds, Some(&now)) == Ok(1) && fds[0].revents() == PollFlags::OUT;
    open || handshake_state(shim_client, name) == Answer::Done
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::pthread_cancel;

    #[test]
    fn a_thread_that_waits_for_a_handshake_can_be_cancelled() {
        let (near, _far) = UnixStream::pair().unwrap();
        let wait = |fd| assert!(receive(borrow(fd).unwrap(), &mut [0; 8]).is_err());
        pthread_cancel::check(wait, near.as_raw_fd());
        let (full, _other) = pthread_cancel::full();
        pthread_cancel::check(|fd| assert!(waited(fd).is_err()), full.as_raw_fd());
    }

    #[test]
    fn only_free_sockets_of_tcp_are_asked_about() {
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let tcp = |domain| {
            let of_tcp = Some(rustix::net::ipproto::TCP);
            rustix::net::socket(domain, rustix::net::SocketType::STREAM, of_tcp).unwrap()
        };
        let four = tcp(rustix::net::AddressFamily::INET);
        assert_eq!(free(four.as_raw_fd(), far), Some(false));
        let six = tcp(rustix::net::AddressFamily::INET6);
        assert_eq!(free(six.as_raw_fd(), far), Some(true));
        for never in ["127.0.0.1:80", "0.0.0.0:80", "[::1]:80", "224.0.0.1:80"] {
            assert_eq!(free(four.as_raw_fd(), never.parse().unwrap()), None, "{never}");
        }
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(free(bound.as_raw_fd(), far), None, "bound to a kernel address");
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        assert_eq!(free(udp.as_raw_fd(), far), None, "no TCP socket");
        assert_eq!(free(-1, far), None);
    }
}
