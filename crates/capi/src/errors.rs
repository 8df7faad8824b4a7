//! Errors of connections that ended abnormally: a reset, a timeout, a stack that is gone.
//!
//! A socket pair reads as a clean end then, and a cut answer would be taken for a whole one. The
//! calls that receive, send and poll ask the stack for the error where the pair is shut on both
//! sides, which a clean end alone never does. A read, a write or `SO_ERROR` takes the error; `poll` leaves it.
//! System calls that do not go through this library (io_uring, `sendfile`) see the end of the pair.
//! Source: tcp(7), `tcp_recvmsg` and `sk_stream_error` of Linux.

use std::ffi::{c_int, c_uint};

use host::shim::socket_name::Kind;
use host::shim::{Answer, ErrorUse, Name, Request, ShimClient};
use libc::ssize_t;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::{borrow, errno, fail, ours, shm_send};

/// Where the stack is asked; not by a process that has confined itself, which makes no system call of ours.
fn seam() -> Option<ShimClient> {
    if shm_send::is_confined() { None } else { crate::seam() }
}

/// The error of connection `id`, to a call that asks `by` its kind. A stack that is gone has reset all of them.
fn error(seam: &ShimClient, id: u64, by: ErrorUse) -> Option<Errno> {
    match seam.ask(&Request::Error { id, by }).map(|asked| asked.answer) {
        Ok(Answer::No(errno)) => Some(Errno::from_raw_os_error(errno)),
        Ok(_) => None,
        Err(_) => Some(Errno::CONNRESET),
    }
}

/// The same of `socket`, if it is a connection.
pub(crate) fn of(seam: &ShimClient, socket: &Name, by: ErrorUse) -> Option<Errno> {
    matches!(socket.kind, Kind::Connection | Kind::Opened).then(|| error(seam, socket.id, by)).flatten()
}

/// The same of `fd`.
fn take(fd: c_int, by: ErrorUse) -> Option<Errno> {
    of(&seam()?, &ours(fd)?, by)
}

/// True if both sides of `fd` are shut.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    let Some(socket) = borrow(fd) else { return false };
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(1) && fds[0].revents().contains(PollFlags::HUP)
}

/// Result of a call that receives on `fd`, of which the kernel said `got`; `wanted`: the call had room for bytes.
pub(crate) fn received(fd: c_int, got: ssize_t, wanted: impl FnOnce() -> bool) -> ssize_t {
    let pair = match got {
        0 if seam().is_some() && wanted() && is_hung_up(fd) => None,
        // The pair says so where bytes that the program wrote were not taken.
        -1 if seam().is_some() && errno() == Errno::CONNRESET => Some(Errno::CONNRESET),
        _ => return got,
    };
    match take(fd, ErrorUse::Read) {
        Some(error) => fail(error) as ssize_t,
        None if ours(fd).is_some() => 0,
        // Asking has changed it.
        None => pair.map_or(got, |errno| fail(errno) as ssize_t),
    }
}

/// Result of a call that sends on `fd` with `flags`: `quietly` makes it without SIGPIPE, `plainly` as the
/// program does. The first call after an abnormal end says why, and only those after it raise SIGPIPE.
pub(crate) fn sent(
    fd: c_int,
    flags: c_int,
    quietly: impl FnOnce() -> ssize_t,
    plainly: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let known = seam().is_some() && shm_send::known(fd).is_some();
    let sent = match known.then(quietly) {
        // The note is old: the number is no socket any more.
        Some(-1) if errno() == Errno::NOTSOCK => return plainly(),
        Some(sent) => sent,
        None => plainly(),
    };
    if sent >= 0 || seam().is_none() || errno() != Errno::PIPE {
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

/// Result of a poll that found `found` of `fds` ready: a connection that ended abnormally has an error.
pub(crate) fn polled(fds: &mut [libc::pollfd], found: c_int) -> c_int {
    let Some(seam) = seam().filter(|_| found > 0) else { return found };
    for polled in fds {
        if polled.revents & (libc::POLLHUP | libc::POLLERR) == libc::POLLHUP
            && let Some(socket) = ours(polled.fd)
            && of(&seam, &socket, ErrorUse::Poll).is_some()
        {
            polled.revents |= libc::POLLERR;
        }
    }
    found
}

/// The same for events of an epoll set, whose connections `number` tells.
pub(crate) fn epolled(events: &mut [libc::epoll_event], number: impl Fn(&libc::epoll_event) -> Option<u64>) {
    const HUP: c_uint = libc::EPOLLHUP as c_uint;
    const ERR: c_uint = libc::EPOLLERR as c_uint;
    for event in events {
        if { event.events } & (HUP | ERR) == HUP
            && let (Some(seam), Some(id)) = (seam(), number(event))
            && error(&seam, id, ErrorUse::Poll).is_some()
        {
            event.events |= ERR;
        }
    }
}
