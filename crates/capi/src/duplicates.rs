//! Duplicate descriptors of one kernel socket: when the socket moves to the stack, all duplicates
//! in this process do.
//!
//! Only the calls that duplicate a descriptor are recorded (also those by number, and a descriptor
//! received by `SCM_RIGHTS`), so a process that makes none, and was started with no such socket,
//! pays nothing. A duplicate in a forked child or another process stays with the kernel's socket;
//! `greenwave run` reports if one of those listens or connects. Source: dup(2), fcntl(2).

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::real_fn::next;
use crate::{borrow, is_loaded, shim_client, shm_send, socket_kind};

/// True once this process has duplicated the descriptor of a kernel socket that may move to the
/// stack.
static ANY: AtomicBool = AtomicBool::new(false);

/// Records that some descriptor may have been duplicated in a way that the library does not
/// intercept.
pub(crate) fn expect() {
    ANY.store(true, Ordering::Relaxed);
}

/// Records that `fd` is duplicated.
pub(crate) fn note(fd: c_int) {
    if ANY.load(Ordering::Relaxed) || shim_client().is_none() || shm_send::is_confined() {
        return;
    }
    if borrow(fd)
        .is_some_and(|socket| socket_kind::tcp(socket).or_else(|| socket_kind::udp(socket)).is_some())
    {
        expect();
    }
}

/// Other descriptors of this process for the socket `fd`.
pub(crate) fn of(fd: c_int) -> Vec<c_int> {
    let inode =
        |fd| borrow(fd).and_then(|file| rustix::fs::fstat(file).ok()).map(|stat| (stat.st_dev, stat.st_ino));
    let (true, Some(own)) = (ANY.load(Ordering::Relaxed), inode(fd)) else { return Vec::new() };
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let open = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    open.filter(|&other| other != fd && inode(other) == Some(own)).collect()
}

/// dup(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int) -> c_int;
    note(fd);
    next!(dup(fd) as Real)
}

/// dup2(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    note(from);
    next!(dup2(from, to) as Real)
}

/// dup3(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    note(from);
    next!(dup3(from, to, flags) as Real)
}

/// fcntl(2).
///
/// # Safety
/// The same as for the C library's function; for a command without an argument, `argument` is undefined.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, c_int, c_long) -> c_int;
    on_fcntl(fd, command);
    if is_loaded() {
        return next!(fcntl(fd, command, argument) as Real);
    }
    // SAFETY: the program's arguments; before the loader is done, no function can be looked up.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) as c_int }
}

/// fcntl(2) for programs built with large-file support.
///
/// # Safety
/// The same as for [`fcntl`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the program's arguments; on 64-bit machines the two are the same.
    unsafe { fcntl(fd, command, argument) }
}

fn on_fcntl(fd: c_int, command: c_int) {
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        note(fd);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn duplicates_of_a_socket_are_found() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let (one, two) =
            (socket.try_clone().expect("a descriptor"), socket.try_clone().expect("a descriptor"));
        let _other = TcpListener::bind("127.0.0.1:0").expect("loopback");
        ANY.store(true, Ordering::Relaxed);
        let mut found = of(socket.as_raw_fd());
        found.sort_unstable();
        let mut expected = [one.as_raw_fd(), two.as_raw_fd()];
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
