//! shutdown(2). Later writes to the connection use the socket pair, where the kernel refuses them
//! ([`shm_send`]).

use std::ffi::c_int;

use rustix::io::Errno;
use shim::socket_name::SocketKind;
use shim::{Answer, Name, ShimClient};

use crate::real_fn::next;
use crate::{connect, errors, fail, label, late_data, listen, ours, shim_client, shm_send};

/// shutdown(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    if how != libc::SHUT_RD {
        shm_send::shut(fd);
    }
    if (libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how)
        && let (Some(shim_client), Some(socket)) = (shim_client(), ours(fd))
    {
        if is_unconnected(&shim_client, fd, &socket) {
            return fail(Errno::NOTCONN);
        }
        // A pending handshake is abandoned (Linux, `inet_shutdown`).
        if socket.kind == SocketKind::Opened && connect::is_pending(&shim_client, &socket) {
            return connect::disconnect(&shim_client, fd, &socket).map_or_else(fail, |()| 0);
        }
        if how == libc::SHUT_RD && matches!(socket.kind, SocketKind::Connection | SocketKind::Opened) {
            late_data::mark(fd);
        }
        if socket.kind == SocketKind::Listener {
            // A listener has no write side, and stops accepting.
            if how == libc::SHUT_WR {
                return 0;
            }
            let done = next!(shutdown(fd, libc::SHUT_RDWR) as Real);
            listen::empty(fd);
            return done;
        }
    }
    next!(shutdown(fd, how) as Real)
}

/// True if stack socket `socket` with descriptor `fd` has no peer (any more), so that TCP returns
/// `ENOTCONN`.
fn is_unconnected(shim_client: &ShimClient, fd: c_int, socket: &Name) -> bool {
    match socket.kind {
        SocketKind::Listener => {
            let listens = shim_client.option(socket.id, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
            !listens.is_ok_and(|value| value == 1_i32.to_ne_bytes())
        }
        SocketKind::Connection | SocketKind::Opened => {
            let stands = || connect::handshake_state(shim_client, socket);
            errors::is_hung_up(fd) && !matches!(stands(), Answer::Done)
        }
        SocketKind::Datagrams => label::is_connected(socket) == Some(false),
    }
}
