//! poll(2) and ppoll(2), with `POLLERR` for connections that ended abnormally.
//!
//! The C library's functions poll; only descriptors with `POLLHUP` are checked afterwards.

use std::ffi::c_int;

use libc::{nfds_t, pollfd, sigset_t, size_t, timespec};

use crate::errors::polled;
use crate::real_fn::next;

/// Adds errors of connections to the result `found` of a poll of `count` descriptors at `fds`.
///
/// # Safety
/// `fds` and `count` are the program's arguments to poll(2), and `found` is its result.
unsafe fn finish_poll(fds: *mut pollfd, count: nfds_t, found: c_int) -> c_int {
    if found <= 0 || !fds.is_aligned() {
        return found;
    }
    // SAFETY: the kernel has written `count` entries.
    polled(unsafe { std::slice::from_raw_parts_mut(fds, count as usize) }, found)
}

/// poll(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, c_int) -> c_int;
    let found = next!(poll(fds, count, ms) as Real);
    // SAFETY: the program's arguments.
    unsafe { finish_poll(fds, count, found) }
}

/// poll(2) as compiled with `_FORTIFY_SOURCE`, with the size of the buffer.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    ms: c_int,
    room: size_t,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int;
    let found = next!(__poll_chk(fds, count, ms, room) as Real);
    // SAFETY: the program's arguments.
    unsafe { finish_poll(fds, count, found) }
}

/// ppoll(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    let found = next!(ppoll(fds, count, timeout, mask) as Real);
    // SAFETY: the program's arguments.
    unsafe { finish_poll(fds, count, found) }
}

/// ppoll(2) as compiled with `_FORTIFY_SOURCE`, with the size of the buffer.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    type Real =
        unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, size_t) -> c_int;
    let found = next!(__ppoll_chk(fds, count, timeout, mask, room) as Real);
    // SAFETY: the program's arguments.
    unsafe { finish_poll(fds, count, found) }
}
