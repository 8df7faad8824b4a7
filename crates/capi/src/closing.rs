//! Calls after which a descriptor's number may be another file's, or its connection takes
//! nothing more: what was noted of it is forgotten before (`outbox`). A child
//! that shares its parent's memory (`vfork`) forgets for its parent, too, whose bytes take the
//! longer way then.

use std::ffi::{c_int, c_uint};

use rustix::io::Errno;

use crate::next::next;
use crate::{fail, is_loaded, outbox};

/// close(2). No thread is cancelled here, though in the C library's it may be: the standard library
/// closes by this what is ours, and may not be unwound there. Whoever is to be cancelled is at the next call.
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int) -> c_int;
    outbox::forget(fd);
    if is_loaded() {
        return uncancelled(|| next!(close(fd) as Real));
    }
    // SAFETY: the program's argument; see `read`.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// What `call` says, in which this thread is not cancelled (pthread_setcancelstate(3)).
fn uncancelled<T>(call: impl FnOnce() -> T) -> T {
    type Real = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let (mut before, mut meanwhile) = (0, 0);
    // Who has no threads has no such function perhaps.
    next!(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) as Real, or 0);
    let said = call();
    next!(pthread_setcancelstate(before, &raw mut meanwhile) as Real, or 0);
    said
}

/// close_range(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    outbox::forget_all(first as usize, last as usize);
    next!(close_range(first, last, flags) as Real, or fail(Errno::NOSYS))
}

/// closefrom(3).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn closefrom(first: c_int) {
    type Real = unsafe extern "C" fn(c_int);
    outbox::forget_all(usize::try_from(first).unwrap_or(0), usize::MAX);
    next!(closefrom(first) as Real, or close_from(first))
}

/// closefrom(3) where the C library has none: by one call, or one by one where the kernel has none either.
fn close_from(first: c_int) {
    // SAFETY: the program wants all of them closed.
    if unsafe { libc::syscall(libc::SYS_close_range, first.max(0), c_uint::MAX, 0) } == 0 {
        return;
    }
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<c_int> = folder.flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd >= first) {
        // SAFETY: as above; the folder's own is closed by now.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
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
pub unsafe extern "C-unwind" fn fclose(stream: *mut libc::FILE) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*mut libc::FILE) -> c_int;
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
