//! syscall(2): system calls by number, which bypass the C library's wrappers. libuv sends and
//! receives datagrams this way (`uv__sendmmsg`), so BIND and others would omit the datagram header.
//! libseccomp enters seccomp this way.

use std::ffi::{c_int, c_long, c_uint};

use libc::{mmsghdr, timespec};

use crate::real_fn::next;
use crate::{duplicates, recv, send, shm_send};

/// From asm/unistd.h.
const SYS_PIDFD_GETFD: c_long = 438;
/// Not on every architecture.
#[cfg(target_arch = "x86_64")]
const DUP2: c_long = libc::SYS_dup2;
#[cfg(not(target_arch = "x86_64"))]
const DUP2: c_long = libc::SYS_dup3;

/// syscall(2).
///
/// # Safety
/// The same as for the C library's function, whose number of arguments depends on the call. With fewer
/// than six, the others are undefined and unused.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    type Real = unsafe extern "C-unwind" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    heed(number, a);
    // As in the kernel, descriptors, counts and flags are the lower 32 bits.
    match number {
        // SAFETY: the program's arguments.
        libc::SYS_sendmmsg => unsafe {
            send::sendmmsg(a as c_int, b as *mut mmsghdr, c as c_uint, d as c_int).into()
        },
        // SAFETY: as above.
        libc::SYS_recvmmsg => unsafe {
            recv::recvmmsg(a as c_int, b as *mut mmsghdr, c as c_uint, d as c_int, e as *mut timespec).into()
        },
        _ => next!(syscall(number, a, b, c, d, e, f) as Real),
    }
}

/// Reports call `number` with first argument `a` to [`shm_send`].
fn heed(number: c_long, a: c_long) {
    match number {
        libc::SYS_shutdown => shm_send::shut(a as c_int),
        SYS_PIDFD_GETFD | libc::SYS_dup | DUP2 | libc::SYS_dup3 | libc::SYS_fcntl => duplicates::expect(),
        libc::SYS_seccomp => shm_send::disable(),
        libc::SYS_prctl if a as c_int == libc::PR_SET_SECCOMP => shm_send::disable(),
        _ => {}
    }
}
