//! Calls after which a descriptor's number may be another file's, or its connection takes
//! nothing more: what was noted of it is forgotten before (`outbox`). A child
//! that shares its parent's memory (`vfork`) forgets for its parent, too, whose bytes take the
//! longer way then.

use std::ffi::{c_int, c_uint};

use host::seam::name::Kind;
use host::seam::{Answer, Name, Seam};
use rustix::io::Errno;

use crate::next::next;
use crate::{connecting, duplicates, errors, fail, is_loaded, ours, outbox, seam};

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
    duplicates::note(from);
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
    duplicates::note(from);
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
    let mut how = how;
    if (libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how)
        && let (Some(seam), Some(socket)) = (seam(), ours(fd))
    {
        if is_unconnected(&seam, fd, &socket) {
            return fail(Errno::NOTCONN);
        }
        if socket.kind == Kind::Listener {
            // One that listens has nothing to write, and ends where it takes no connections any more.
            match how {
                libc::SHUT_WR => return 0,
                _ => how = libc::SHUT_RDWR,
            }
        }
    }
    next!(shutdown(fd, how) as Real)
}

/// Whether `fd`, which is `socket`, has no peer, or not any more, so that TCP does not shut it down.
fn is_unconnected(seam: &Seam, fd: c_int, socket: &Name) -> bool {
    match socket.kind {
        Kind::Listener => {
            let listens = seam.option(socket.id, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
            !listens.is_ok_and(|value| value == 1_i32.to_ne_bytes())
        }
        Kind::Connection | Kind::Opened => {
            let stands = || connecting::stands(seam, socket);
            errors::is_hung_up(fd) && !matches!(stands(), Answer::Done)
        }
        Kind::Datagrams => false,
    }
}
