//! Calls after which a descriptor's number may be another file's, or its connection takes
//! nothing more: what was noted of it is forgotten before (`outbox`). A child
//! that shares its parent's memory (`vfork`) forgets for its parent, too, whose bytes take the
//! longer way then.

use std::ffi::{c_int, c_uint};

use crate::next::next;
use crate::{is_loaded, outbox};

/// close(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int) -> c_int;
    outbox::forget(fd);
    if is_loaded() {
        return next!(close(fd) as Real);
    }
    // SAFETY: the program's argument; see `read`.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// close_range(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    outbox::forget_all(first as usize, last as usize);
    next!(close_range(first, last, flags) as Real)
}

/// closefrom(3).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn closefrom(first: c_int) {
    type Real = unsafe extern "C" fn(c_int);
    outbox::forget_all(usize::try_from(first).unwrap_or(0), usize::MAX);
    next!(closefrom(first) as Real);
}

/// dup2(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    outbox::forget(to);
    next!(dup2(from, to) as Real)
}

/// dup3(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    outbox::forget(to);
    next!(dup3(from, to, flags) as Real)
}

/// fclose(3).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
    type Real = unsafe extern "C" fn(*mut libc::FILE) -> c_int;
    // SAFETY: the program's stream.
    outbox::forget(unsafe { libc::fileno(stream) });
    next!(fclose(stream) as Real)
}

/// shutdown(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    if how != libc::SHUT_RD {
        outbox::forget(fd);
    }
    next!(shutdown(fd, how) as Real)
}
