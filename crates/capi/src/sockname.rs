//! getsockname(2) and getpeername(2).

use std::ffi::c_int;

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;
use shim::socket_name::SocketKind;

use crate::real_fn::next;
use crate::{connect, fail, ours, shim_client, socket_address, udp_socket};

fn done(result: Result<(), Errno>) -> c_int {
    result.map_or_else(fail, |()| 0)
}

/// getsockname(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    let (Some(shim_client), Some(name)) = (shim_client(), ours(fd)) else {
        return next!(getsockname(fd, addr, len) as Real);
    };
    let local =
        if name.kind == SocketKind::Datagrams { udp_socket::local(&shim_client, &name) } else { name.local };
    // SAFETY: the program's arguments.
    done(unsafe { socket_address::tell(local, name.six, addr, len) })
}

/// getpeername(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    let (Some(shim_client), Some(name)) = (shim_client(), ours(fd)) else {
        return next!(getpeername(fd, addr, len) as Real);
    };
    let peer = match name.kind {
        SocketKind::Datagrams => shim_client.ends(name.id).ok().and_then(|(_, peer)| peer),
        _ => connect::has_peer(&shim_client, fd, &name).then_some(name.remote),
    };
    match peer {
        // SAFETY: the program's arguments.
        Some(peer) => done(unsafe { socket_address::tell(peer, name.six, addr, len) }),
        None => fail(Errno::NOTCONN),
    }
}
