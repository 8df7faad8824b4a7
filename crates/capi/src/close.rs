//! shutdown(2). Later writes to the connection use the socket pair, where the kernel refuses them
//! ([`shm_send`]).

use std::ffi::c_int;

use rustix::io::Errno;
use shim::socket_name::Kind;
use shim::{Answer, Name, ShimClient};

use crate::real_fn::next;
use crate::{connect, errors, fail, label, late_data, listen, ours, seam, shm_send};

/// shutdown(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int) -> c_int;
    if how != libc::SHUT_RD {
        shm_send::shut(fd);
    }
    if (libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how)
        && let (Some(seam), Some(socket)) = (seam(), ours(fd))
    {
        if is_unconnected(&seam, fd, &socket) {
            return fail(Errno::NOTCONN);
        }
        if how == libc::SHUT_RD && matches!(socket.kind, Kind::Connection | Kind::Opened) {
            late_data::mark(fd);
        }
        if socket.kind == Kind::Listener {
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
fn is_unconnected(seam: &ShimClient, fd: c_int, socket: &Name) -> bool {
    match socket.kind {
        Kind::Listener => {
            let listens = seam.option(socket.id, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
            !listens.is_ok_and(|value| value == 1_i32.to_ne_bytes())
        }
        Kind::Connection | Kind::Opened => {
            let stands = || connect::handshake_state(seam, socket);
            errors::is_hung_up(fd) && !matches!(stands(), Answer::Done)
        }
        Kind::Datagrams => label::is_connected(socket) == Some(false),
    }
}
