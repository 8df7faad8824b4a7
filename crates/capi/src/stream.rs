//! Send and receive on a connection: flags that a socket pair handles differently from TCP.
//!
//! `MSG_ERRQUEUE` and `MSG_OOB` have nothing to read on the stack's TCP, and `MSG_TRUNC` discards
//! bytes; a socket pair would return bytes of the stream. Ends: [`errors`]. Source: tcp(7),
//! recv(2), `tcp_recv_urg` of Linux.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, ssize_t};
use rustix::io::Errno;
use shim::Name;
use shim::socket_name::SocketKind;

use crate::real_fn::next;
use crate::{connect, errors, fail, late_data, low_water, ours, shm_send};

/// Flags of recv(2) that a socket pair lacks or handles differently.
const UNLIKE: c_int = libc::MSG_ERRQUEUE | libc::MSG_OOB | libc::MSG_TRUNC;
/// Bytes discarded per system call.
const DISCARDED: usize = 16 * 1024;

/// True if `socket` is a connection.
fn is_connection(socket: &Name) -> bool {
    matches!(socket.kind, SocketKind::Connection | SocketKind::Opened)
}

/// Receives up to `n` bytes at `bytes` with `flags` from `fd`, which is no UDP socket, by `call`.
///
/// # Safety
/// The program's arguments to recv(2).
pub(crate) unsafe fn receive(
    fd: c_int,
    flags: c_int,
    bytes: *mut c_void,
    n: usize,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match () {
        () if shm_send::is_listener(fd) => receive_unconnected(fd, flags),
        () if is_unlike(fd, flags) => receive_unlike(fd, flags, n),
        () => {
            low_water::flush(fd, n);
            // SAFETY: the caller's buffer.
            errors::received(fd, unsafe { late_data::add_to(fd, flags, bytes, n, call()) }, || n > 0)
        }
    }
}

/// Error of receiving with `flags` from `fd`, which is bound or listens. Its pair would return
/// connections.
pub(crate) fn receive_unconnected(fd: c_int, flags: c_int) -> ssize_t {
    fail(match flags {
        _ if flags & libc::MSG_ERRQUEUE != 0 => Errno::AGAIN,
        _ if flags & libc::MSG_OOB != 0 && !connect::listens(fd) => Errno::INVAL,
        _ => Errno::NOTCONN,
    }) as ssize_t
}

/// Error of sending with `flags` on a socket that is bound or listens.
pub(crate) fn send_unconnected(flags: c_int) -> ssize_t {
    if flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: the signal that the kernel would have sent to this thread.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    fail(Errno::PIPE) as ssize_t
}

/// True if `fd` is a connection and a socket pair handles one of `flags` differently.
pub(crate) fn is_unlike(fd: c_int, flags: c_int) -> bool {
    flags & UNLIKE != 0 && ours(fd).is_some_and(|socket| is_connection(&socket))
}

/// TCP's behaviour for such flags on connection `fd`: no bytes are copied.
pub(crate) fn receive_unlike(fd: c_int, flags: c_int, n: usize) -> ssize_t {
    match flags {
        _ if flags & libc::MSG_ERRQUEUE != 0 => fail(Errno::AGAIN) as ssize_t,
        _ if flags & libc::MSG_OOB != 0 => fail(Errno::INVAL) as ssize_t,
        _ => discard(fd, n, flags & !libc::MSG_TRUNC),
    }
}

/// Discards up to `n` bytes, or counts them with `MSG_PEEK`.
fn discard(fd: c_int, n: usize, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    low_water::flush(fd, n);
    let mut scrap = [0_u8; DISCARDED];
    let mut receive = |len: usize, flags: c_int| {
        let len = len.min(DISCARDED);
        let bytes = scrap.as_mut_ptr().cast();
        let got = next!(recv(fd, bytes, len, flags) as Real);
        // SAFETY: `scrap` has this many bytes.
        let got = unsafe { late_data::add_to(fd, flags, bytes, len, got) };
        errors::received(fd, got, || len > 0)
    };
    let first = receive(n, flags);
    let Ok(mut taken) = usize::try_from(first) else { return first };
    if flags & libc::MSG_PEEK != 0 {
        return peeked(fd, n).unwrap_or(first);
    }
    let wait = if flags & libc::MSG_WAITALL == 0 { libc::MSG_DONTWAIT } else { 0 };
    while taken > 0
        && taken < n
        && let Ok(more @ 1..) = usize::try_from(receive(n - taken, flags | wait))
    {
        taken += more;
    }
    taken as ssize_t
}

/// Bytes that can be read from `fd`, at most `n` (tcp(7), SIOCINQ).
fn peeked(fd: c_int, n: usize) -> Option<ssize_t> {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one int to `bytes`.
    let asked = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) };
    (asked == 0).then(|| n.min(usize::try_from(bytes).unwrap_or(0)) as ssize_t)
}

/// Sends `n` bytes at `bytes` on `fd` with `flags`; `call` is the program's own call.
pub(crate) fn send(
    fd: c_int,
    bytes: *const c_void,
    n: size_t,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    if shm_send::is_listener(fd) {
        return send_unconnected(flags);
    }
    if let Some(errno) = refused(fd, flags) {
        return fail(errno) as ssize_t;
    }
    let quietly = || next!(send(fd, bytes, n, flags | libc::MSG_NOSIGNAL) as Real);
    errors::sent(fd, flags, quietly, call)
}

/// Sends the `count` iovecs at `pieces`, as [`send`].
pub(crate) fn send_pieces(
    fd: c_int,
    pieces: *const iovec,
    count: usize,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    // The kernel reports invalid iovecs; for too many, sendmsg(2) has another error than writev(2).
    if count > libc::UIO_MAXIOV as usize {
        return call();
    }
    // SAFETY: a zeroed header is an empty message.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (pieces.cast_mut(), count);
    send_message(fd, &message, 0, call)
}

/// Sends `message`, as [`send`].
pub(crate) fn send_message(
    fd: c_int,
    message: &msghdr,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    if shm_send::is_listener(fd) {
        return send_unconnected(flags);
    }
    if let Some(errno) = refused(fd, flags) {
        return fail(errno) as ssize_t;
    }
    let quietly = || next!(sendmsg(fd, std::ptr::from_ref(message), flags | libc::MSG_NOSIGNAL) as Real);
    errors::sent(fd, flags, quietly, call)
}

/// Error of sending with `flags` on a connection: no urgent data is sent, and it is open already.
fn refused(fd: c_int, flags: c_int) -> Option<Errno> {
    let errno = match flags {
        _ if flags & libc::MSG_FASTOPEN != 0 => Errno::ISCONN,
        _ if flags & libc::MSG_OOB != 0 => Errno::OPNOTSUPP,
        _ => return None,
    };
    ours(fd).is_some_and(|socket| is_connection(&socket)).then_some(errno)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn discarded_bytes_are_counted_and_gone() {
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        near.write_all(&[7; 40_000]).expect("the buffer has space");
        let fd = far.as_raw_fd();
        assert_eq!(discard(fd, 39_990, libc::MSG_PEEK), 39_990);
        assert_eq!(discard(fd, 39_990, 0), 39_990);
        assert_eq!(discard(fd, 100, 0), 10);
        assert_eq!((discard(fd, 100, libc::MSG_DONTWAIT), crate::errno()), (-1, Errno::AGAIN));
        near.write_all(b"x").expect("the buffer has space");
        assert_eq!(far.read(&mut [0; 8]).expect("still open"), 1);
    }
}
