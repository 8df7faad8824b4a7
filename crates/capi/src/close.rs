//! shutdown(2), after which a connection takes nothing more: its bytes take the pair from then on, and the
//! kernel refuses them (`outbox`).

use std::ffi::c_int;

use host::shim::socket_name::Kind;
use host::shim::{Answer, Name, ShimClient};
use rustix::io::Errno;

use crate::real_fn::next;
use crate::{connect, errors, fail, label, listen, ours, seam, shm_send};

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
        if socket.kind == Kind::Listener {
            // One that listens has nothing to write, and ends where it takes no connections any more.
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

/// True if `fd`, which is `socket`, has no peer, or not any more, so that TCP does not shut it down.
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
