//! syscall(2): what a program asks of the kernel by number, past the functions
//! of these calls. libuv does for datagrams (`uv__sendmmsg`), so BIND and others
//! on it would put bare bytes where an envelope is due. libseccomp confines a process so.

use std::ffi::{c_int, c_long, c_uint};

use libc::{mmsghdr, timespec};

use crate::real_fn::next;
use crate::{recv, send, shm_send};

/// syscall(2).
///
/// # Safety
/// As the C library's, which takes as many arguments as the call has; where they
/// are fewer than six, the others are whatever stood there, and nobody looks.
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
    // The kernel, too, takes the lower half of a descriptor, a count and flags.
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

/// Tells `outbox` of call `number`, whose first argument is `a`.
fn heed(number: c_long, a: c_long) {
    match number {
        libc::SYS_shutdown => shm_send::shut(a as c_int),
        libc::SYS_seccomp => shm_send::disable(),
        libc::SYS_prctl if a as c_int == libc::PR_SET_SECCOMP => shm_send::disable(),
        _ => {}
    }
}
