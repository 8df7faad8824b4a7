//! Errors of connections that ended abnormally: reset, timeout, lost stack.
//!
//! The socket pair reports a clean end in these cases, so a truncated response would count as
//! complete. Receive, send and poll calls therefore request the error from the stack when the pair
//! is shut down on both sides, which a clean end alone never does. A read, a write or `SO_ERROR`
//! clears the error; `poll` does not. System calls that bypass this library (io_uring, `sendfile`)
//! see the end of the pair. Source: tcp(7), `tcp_recvmsg` and `sk_stream_error` of Linux.

use std::ffi::{c_int, c_uint};

use libc::ssize_t;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use shim::socket_name::SocketKind;
use shim::{Answer, ErrorUse, Name, Request, ShimClient};

use crate::{borrow, errno, fail, ours, shm_send};

/// Client of the socket server; `None` after seccomp, because requests take system calls.
fn shim_client() -> Option<ShimClient> {
    if shm_send::is_confined() { None } else { crate::shim_client() }
}

/// Error of connection `id` for a call of kind `by`. A lost stack counts as a reset.
fn error(shim_client: &ShimClient, id: u64, by: ErrorUse) -> Option<Errno> {
    match shim_client.ask(&Request::Error { id, by }).map(|asked| asked.answer) {
        Ok(Answer::No(errno)) => Some(Errno::from_raw_os_error(errno)),
        Ok(_) => None,
        Err(_) => Some(Errno::CONNRESET),
    }
}

/// Error of `socket`, if it is a connection.
pub(crate) fn of(shim_client: &ShimClient, socket: &Name, by: ErrorUse) -> Option<Errno> {
    let has = matches!(socket.kind, SocketKind::Connection | SocketKind::Opened) && !socket.is_between();
    has.then(|| error(shim_client, socket.id, by)).flatten()
}

/// Error of `fd`.
fn take(fd: c_int, by: ErrorUse) -> Option<Errno> {
    let (shim_client, socket) = (shim_client()?, ours(fd)?);
    if socket.is_between() {
        // The pair itself has the error.
        return socket_error(borrow(fd)?).ok()?.err();
    }
    of(&shim_client, &socket, by)
}

/// True if both sides of `fd` are shut down.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    let Some(socket) = borrow(fd) else { return false };
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(1) && fds[0].revents().contains(PollFlags::HUP)
}

/// Result of a receive call on `fd` that returned `got`; `wanted` is true if the buffer was not
/// empty.
pub(crate) fn received(fd: c_int, got: ssize_t, wanted: impl FnOnce() -> bool) -> ssize_t {
    let pair = match got {
        0 if shim_client().is_some() && wanted() && is_hung_up(fd) => None,
        // The pair reports this when the stack left bytes of the program unread.
        -1 if shim_client().is_some() && errno() == Errno::CONNRESET => Some(Errno::CONNRESET),
        _ => return got,
    };
    match take(fd, ErrorUse::Read) {
        Some(error) => fail(error) as ssize_t,
        None if ours(fd).is_some_and(|socket| !socket.is_between()) => 0,
        // The request changed errno.
        None => pair.map_or(got, |errno| fail(errno) as ssize_t),
    }
}

/// Result of a send call on `fd` with `flags`: `quietly` makes it without SIGPIPE, `plainly` as the
/// program did. The first call after an abnormal end returns its error; only later calls raise
/// SIGPIPE.
pub(crate) fn sent(
    fd: c_int,
    flags: c_int,
    quietly: impl FnOnce() -> ssize_t,
    plainly: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let known = shim_client().is_some() && shm_send::known(fd).is_some();
    let sent = match known.then(quietly) {
        // The record is stale: the descriptor is no socket any more.
        Some(-1) if errno() == Errno::NOTSOCK => return plainly(),
        Some(sent) => sent,
        None => plainly(),
    };
    if sent >= 0 || shim_client().is_none() || errno() != Errno::PIPE {
        return sent;
    }
    if let Some(error) = take(fd, ErrorUse::Take).filter(|error| *error != Errno::PIPE) {
        return fail(error) as ssize_t;
    }
    if known && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: the signal that the kernel would have sent to this thread.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    fail(Errno::PIPE) as ssize_t
}

/// Result of a poll that found `found` of `fds` ready: adds POLLERR for connections that ended
/// abnormally.
pub(crate) fn polled(fds: &mut [libc::pollfd], found: c_int) -> c_int {
    let Some(shim_client) = shim_client().filter(|_| found > 0) else { return found };
    for polled in fds {
        if polled.revents & (libc::POLLHUP | libc::POLLERR) == libc::POLLHUP
            && let Some(socket) = ours(polled.fd)
            && of(&shim_client, &socket, ErrorUse::Poll).is_some()
        {
            polled.revents |= libc::POLLERR;
        }
    }
    found
}

/// Adds errors of ended connections to epoll events; `number` returns the connection of an event.
pub(crate) fn epolled(events: &mut [libc::epoll_event], number: impl Fn(&libc::epoll_event) -> Option<u64>) {
    const HUP: c_uint = libc::EPOLLHUP as c_uint;
    const ERR: c_uint = libc::EPOLLERR as c_uint;
    for event in events {
        if { event.events } & (HUP | ERR) == HUP
            && let (Some(shim_client), Some(id)) = (shim_client(), number(event))
            && error(&shim_client, id, ErrorUse::Poll).is_some()
        {
            event.events |= ERR;
        }
    }
}
