//! prctl(2), by which a process confines itself to the system calls that it knows (seccomp(2)). From
//! then on the library makes no others for it (`outbox`).

use std::ffi::{c_int, c_ulong};

use crate::real_fn::next;
use crate::shm_send;

/// prctl(2).
///
/// # Safety
/// As the C library's, which takes as many arguments as the option has; where they are
/// fewer than four, the others are whatever stood there, and nobody looks.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    if option == libc::PR_SET_SECCOMP {
        shm_send::disable();
    }
    next!(prctl(option, a, b, c, d) as Real)
}
