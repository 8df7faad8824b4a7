//! prctl(2). Once a process enters seccomp(2) by it, the library makes no further system calls of
//! its own for the process ([`shm_send`]).

use std::ffi::{c_int, c_ulong};

use crate::real_fn::next;
use crate::shm_send;

/// prctl(2).
///
/// # Safety
/// The same as for the C library's function, whose number of arguments depends on the option. With fewer
/// than four, the others are undefined and unused.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    if option == libc::PR_SET_SECCOMP {
        shm_send::disable();
    }
    next!(prctl(option, a, b, c, d) as Real)
}
