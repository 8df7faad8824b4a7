//! bind(2), listen(2), accept(2).
//!
//! A socket is the kernel's until `bind`, because the address decides whether the stack takes it.
//! The listener's end of a socket pair then replaces the descriptor (dup3), with its flags. accept
//! receives a descriptor by the C library's recvmsg(2), a cancellation point as accept(2) is.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libc::{msghdr, sockaddr, socklen_t, ssize_t};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, getsockname, send, sockopt};
use rustix::thread::CapabilitySet;
use shim::scm_rights::{self, ReceivedMessage};
use shim::socket_name::{LEN, SocketKind};
use shim::{Answer, KernelSocketInfo, Name, Request};

use crate::datagram_io::piece;
use crate::real_fn::next;
use crate::recv::received_fd;
use crate::{borrow, fail, fd_replace, ours, shim_client, shm_send, socket_address, socket_kind, udp_socket};

/// Request that `bind` sends to the socket server; `None` if the socket stays the kernel's.
///
/// # Safety
/// The same as for bind(2).
unsafe fn wanted(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Option<Request> {
    // SAFETY: the program's arguments.
    let family = unsafe { socket_address::family(addr, len) }.map(c_int::from)?;
    // SAFETY: as above.
    let addr = unsafe { socket_address::read(addr, len) }?;
    let socket = borrow(fd)?;
    // The kernel returns its error for an address of the other family.
    let is_for_six = sockopt::socket_domain(socket) == Ok(AddressFamily::INET6);
    if is_for_six != (family == libc::AF_INET6)
        || is_for_six && addr.is_ipv4() && sockopt::ipv6_v6only(socket) != Ok(false)
    {
        return None;
    }
    let Some(six) = socket_kind::tcp(socket) else { return udp_socket::wanted(socket, addr) };
    if shim_client().is_some_and(|shim_client| fd_replace::is_elsewhere(&shim_client, socket)) {
        return None;
    }
    let v6_only = six && sockopt::ipv6_v6only(socket).unwrap_or(false);
    let reuse_port = sockopt::socket_reuseport(socket).unwrap_or(false);
    Some(Request::Bind { addr, six, v6_only, reuse_port })
}

/// bind(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    // SAFETY: the program's arguments.
    if let Some(shim_client) = shim_client()
        && let Some(request) = unsafe { wanted(fd, addr, len) }
    {
        if is_privileged(&request) {
            return fail(Errno::ACCESS);
        }
        match shim_client.ask(&request).map(|asked| (asked.answer, asked.end)) {
            Ok((Answer::Done, end)) => {
                tell_cookie(fd, true);
                // SAFETY: the program's arguments.
                let half = if is_half(&request) { unsafe { bind_half(fd, addr, len) } } else { None };
                let ours = fd_replace::replace_fd(&shim_client, fd, &end);
                // Sent after the replacement, because it refers to the same file as `fd` did; the
                // socket server's end does not block.
                half.iter().for_each(|half| half.send(&end));
                return ours.map_or_else(fail, |()| 0);
            }
            Ok((Answer::No(errno), _)) => return fail(Errno::from_raw_os_error(errno)),
            Ok((Answer::NotOurs, _)) => {}
            Err(errno) => return fail(errno),
        }
    }
    next!(bind(fd, addr, len) as Real)
}

/// Reports the cookie of the kernel socket `fd` to the socket server. `bound`: the socket is now
/// bound at the stack. Otherwise returns the error if another process has bound it there.
fn tell_cookie(fd: c_int, bound: bool) -> Option<Errno> {
    let (socket, shim_client) = (borrow(fd)?, shim_client()?);
    socket_kind::tcp(socket)?;
    // A socket with a port in the kernel was not bound at the stack, so it needs no request.
    if !bound && SocketAddr::try_from(getsockname(socket).ok()?).ok()?.port() != 0 {
        return None;
    }
    let (cookie, 8) = fd_replace::get::<8>(fd, libc::SOL_SOCKET, libc::SO_COOKIE)? else { return None };
    match shim_client.ask(&Request::Cookie { cookie: u64::from_ne_bytes(cookie), bound }).ok()?.answer {
        Answer::No(errno) => Some(Errno::from_raw_os_error(errno)),
        _ => None,
    }
}

/// accept(2) by `call` on a socket that is not the stack's.
fn accept_elsewhere(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let got = call();
    if got == -1 && crate::errno() == Errno::INVAL && !shm_send::is_confined() {
        tell_cookie(fd, false);
        return fail(Errno::INVAL);
    }
    got
}

/// True if the port takes a privilege that this thread lacks, as in the kernel's bind(2) (ip(7)).
fn is_privileged(request: &Request) -> bool {
    let (Request::Bind { addr, .. } | Request::Datagrams { addr, .. }) = request else { return false };
    if addr.port() == 0 || addr.port() >= PRIVILEGED {
        return false;
    }
    let has = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_BIND_SERVICE));
    let first = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
    !has && addr.port() < first().and_then(|first| first.trim().parse().ok()).unwrap_or(PRIVILEGED)
}

/// Ports below this take a privilege, unless `ip_unprivileged_port_start` is set otherwise.
const PRIVILEGED: u16 = 1024;

/// True if the request is for all addresses, which include the kernel's.
fn is_half(request: &Request) -> bool {
    let (Request::Bind { addr, .. } | Request::Datagrams { addr, to: None, .. }) = request else {
        return false;
    };
    addr.ip().to_canonical().is_unspecified()
}

/// Duplicate of the kernel socket bound beside the stack's, or the error of its bind.
struct Bound(Result<OwnedFd, Errno>);

impl Bound {
    /// Sends it to the socket server by `end`, the socket pair's end that replaced it.
    fn send(&self, end: &OwnedFd) {
        // Sending fails only if the socket server is gone, which the program's own calls report.
        match &self.0 {
            Ok(socket) => {
                let _ = scm_rights::send(end, None, &KernelSocketInfo::Here.encode(), socket.as_fd());
            }
            Err(errno) => {
                let none = KernelSocketInfo::None { errno: errno.raw_os_error() };
                let _ = send(end, &none.encode(), SendFlags::NOSIGNAL);
            }
        }
    }
}

/// Binds the kernel socket `fd`; `None` if the kernel has no addresses of this family.
///
/// # Safety
/// The same as for bind(2).
unsafe fn bind_half(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Option<Bound> {
    type Real = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    let socket = borrow(fd)?;
    if next!(bind(fd, addr, len) as Real) == 0 {
        return Some(Bound(fcntl_dupfd_cloexec(socket, 0)));
    }
    let why = crate::errno();
    // The kernel has no addresses of this family.
    (why == Errno::ADDRINUSE || why == Errno::ACCESS).then_some(Bound(Err(why)))
}

/// listen(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    let (shim_client, id) = match (shim_client(), ours(fd)) {
        (Some(shim_client), Some(Name { kind: SocketKind::Listener, id, .. })) => (shim_client, id),
        (_, Some(Name { kind: SocketKind::Datagrams, .. })) => return fail(Errno::OPNOTSUPP),
        (_, Some(_)) => return fail(Errno::INVAL),
        _ => {
            return match tell_cookie(fd, false) {
                Some(errno) => fail(errno),
                None => next!(listen(fd, backlog) as Real),
            };
        }
    };
    let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
    shm_send::note_listener(fd);
    // Mapped now: the process may enter seccomp later, and accepted connections need their send
    // buffers.
    shm_send::all();
    match shim_client.ask(&Request::Listen { id, backlog }).map(|asked| asked.answer) {
        Ok(Answer::Done) => 0,
        Ok(Answer::No(errno)) => fail(Errno::from_raw_os_error(errno)),
        Ok(Answer::NotOurs) => fail(Errno::INVAL),
        Err(errno) => fail(errno),
    }
}

/// accept4(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    match ours(fd) {
        // SAFETY: the program's arguments.
        Some(name) => unsafe { take(fd, &name, addr, len, flags) }.unwrap_or_else(fail),
        None => accept_elsewhere(fd, || next!(accept4(fd, addr, len, flags) as Real)),
    }
}

/// accept(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    match ours(fd) {
        // SAFETY: the program's arguments.
        Some(name) => unsafe { take(fd, &name, addr, len, 0) }.unwrap_or_else(fail),
        None => accept_elsewhere(fd, || next!(accept(fd, addr, len) as Real)),
    }
}

/// Accepts the next connection of listener `fd`.
///
/// # Safety
/// The same as for accept4(2).
unsafe fn take(
    fd: c_int,
    name: &Name,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Result<c_int, Errno> {
    let listener = borrow(fd).ok_or(Errno::BADF)?;
    if name.kind == SocketKind::Datagrams {
        return Err(Errno::OPNOTSUPP);
    }
    if name.kind != SocketKind::Listener || flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    // Fails first if no descriptor is left: a connection received then would be lost.
    // Close-on-exec, so that no child inherits it.
    drop(fcntl_dupfd_cloexec(listener, 0)?);
    shm_send::note_listener(fd);
    let mut bytes = [0; LEN];
    let cloexec = if flags & libc::SOCK_CLOEXEC != 0 { libc::MSG_CMSG_CLOEXEC } else { 0 };
    let message = receive(fd, &mut bytes, cloexec)?;
    let connection = match message.fd {
        Some(connection) => connection,
        None if message.lost => return Err(Errno::MFILE),
        // The listener was shut down, or the stack is gone.
        None => return Err(Errno::INVAL),
    };
    let name = Name::decode(&bytes[..message.len]).ok_or(Errno::CONNABORTED)?;
    if flags & libc::SOCK_NONBLOCK != 0 {
        ioctl_fionbio(connection.as_fd(), true)?;
    }
    if ours(connection.as_raw_fd()).is_none() {
        // A connection of the kernel's, set to reset on close until now.
        let _ = sockopt::set_socket_linger(&connection, None);
    }
    if name.is_between() {
        // The mark of a connection that was not accepted.
        let _ = rustix::net::recv(&connection, &mut [0; 1], RecvFlags::DONTWAIT);
    }
    fd_replace::inherit(fd, connection.as_raw_fd());
    shm_send::accept(connection.as_raw_fd(), &name);
    // SAFETY: the program's arguments.
    unsafe { socket_address::write(name.remote, name.six, addr, len) }?;
    Ok(connection.into_raw_fd())
}

/// Closes the connections queued in the pair of `fd`, a listener that was shut down.
pub(crate) fn empty(fd: c_int) {
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    while receive(fd, &mut [0; LEN], flags).is_ok_and(|message| message.len > 0) {}
}

/// Receives a message of the pair `fd` with `flags`, and the descriptor in it, as
/// [`scm_rights::receive`] does.
fn receive(fd: c_int, bytes: &mut [u8], flags: c_int) -> Result<ReceivedMessage, Errno> {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    let mut pieces = piece(bytes.as_mut_ptr().cast(), bytes.len());
    // One header and one descriptor, aligned as a header.
    let mut room = [0_u64; 3];
    // SAFETY: a zeroed header is an empty message.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut pieces;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&room);
    let got = next!(recvmsg(fd, &raw mut message, flags) as Real);
    let len = usize::try_from(got).map_err(|_| crate::errno())?;
    // SAFETY: the kernel has filled it.
    let received = unsafe { received_fd(&raw const message) };
    // SAFETY: the kernel has just made it; no other code refers to it.
    let fd = received.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let lost = fd.is_none() && message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(ReceivedMessage { len, fd, lost })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn a_connection_comes_by_the_c_librarys_calls_as_by_ours() {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (mut kept, sent) = UnixStream::pair().unwrap();
        for cloexec in [false, true] {
            scm_rights::send(&near, None, b"name", sent.as_fd()).unwrap();
            let mut bytes = [0; LEN];
            let flags = if cloexec { libc::MSG_CMSG_CLOEXEC } else { 0 };
            let ReceivedMessage { len, fd, lost } = receive(far.as_raw_fd(), &mut bytes, flags).unwrap();
            assert_eq!((&bytes[..len], lost), (&b"name"[..], false));
            let stream = UnixStream::from(fd.expect("a descriptor"));
            let flags = rustix::io::fcntl_getfd(&stream).unwrap();
            assert_eq!(flags.contains(rustix::io::FdFlags::CLOEXEC), cloexec);
            stream.set_nonblocking(true).unwrap();
            kept.write_all(b"x").unwrap();
            assert_eq!(std::io::Read::read(&mut &stream, &mut [0; 8]).unwrap(), 1);
        }
        crate::pthread_cancel::check(|fd| assert!(receive(fd, &mut [0; LEN], 0).is_err()), far.as_raw_fd());
        far.set_nonblocking(true).unwrap();
        assert_eq!(receive(far.as_raw_fd(), &mut [0; LEN], 0).unwrap_err(), Errno::AGAIN);
    }
}
