//! Data received after `shutdown(SHUT_RD)`.
//!
//! TCP delivers it: a read returns what has come, and end of stream only when there is nothing. The
//! socket pair takes none, so the stack keeps it, and receive calls request it after the pair's own
//! data. The pair is marked by an option that the library withholds from programs, because the kernel
//! keeps that for every process that has the connection. Source: `tcp_recvmsg_locked` of Linux.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SOL_SOCKET, iovec, ssize_t};
use shim::LATE_BYTES_MAX;
use shim::socket_name::SocketKind;

use crate::{fd_replace, memory, ours, shim_client, shm_send};

/// True once this process has shut down reading on a connection: late data then follows the pair's
/// in the same call. Other processes read the data by a separate call.
static ANY: AtomicBool = AtomicBool::new(false);

/// Option that marks a pair. Without effect there; on a connection the library never sets it for a
/// program (`SO_DONTROUTE`).
const MARK: c_int = libc::SO_DONTROUTE;

/// Records that connection `fd` is shut down for reading.
pub(crate) fn mark(fd: c_int) {
    fd_replace::set(fd, SOL_SOCKET, MARK, &1_i32.to_ne_bytes());
    ANY.store(true, Ordering::Relaxed);
}

/// True if late data may follow a receive call that returned `got`.
pub(crate) fn may_follow(got: ssize_t) -> bool {
    got == 0 || got > 0 && ANY.load(Ordering::Relaxed)
}

/// Result of a receive call on `fd` with `flags` into `pieces`, of which the pair has filled `got`
/// bytes: adds late data.
///
/// # Safety
/// `pieces` are the iovecs that the program passed.
pub(crate) unsafe fn add(fd: c_int, flags: c_int, pieces: &[iovec], got: ssize_t) -> ssize_t {
    let Ok(mut len) = usize::try_from(got) else { return got };
    let room = pieces.iter().any(|piece| piece.iov_len > 0);
    if !room || !may_follow(got) || shim_client().is_none() || shm_send::is_confined() || !is_marked(fd) {
        return got;
    }
    let connection = ours(fd).filter(|name| matches!(name.kind, SocketKind::Connection | SocketKind::Opened));
    let Some((shim_client, id)) = shim_client().zip(connection.map(|name| name.id)) else { return got };
    let mut bytes = vec![0; LATE_BYTES_MAX];
    let mut before = len;
    for piece in pieces {
        let skipped = before.min(piece.iov_len);
        before -= skipped;
        let wanted = (piece.iov_len - skipped).min(LATE_BYTES_MAX);
        if wanted == 0 {
            continue;
        }
        let Ok(late) = shim_client.late(id, &mut bytes[..wanted], flags & libc::MSG_PEEK != 0) else { break };
        let to = piece.iov_base.cast::<u8>().wrapping_add(skipped);
        // SAFETY: the program's buffer.
        if late == 0 || unsafe { memory::write_bytes(to, &bytes[..late]) }.is_err() {
            break;
        }
        len += late;
        // Less than the buffer takes leaves no hole; a second peek would return the same data.
        if late < piece.iov_len - skipped || flags & libc::MSG_PEEK != 0 {
            break;
        }
    }
    len as ssize_t
}

/// Same as [`add`], for a buffer of `n` bytes.
///
/// # Safety
/// `bytes` is the pointer that the program passed.
pub(crate) unsafe fn add_to(fd: c_int, flags: c_int, bytes: *mut c_void, n: usize, got: ssize_t) -> ssize_t {
    // SAFETY: the caller's buffer.
    unsafe { add(fd, flags, &[iovec { iov_base: bytes, iov_len: n }], got) }
}

/// True if some process has shut down reading on `fd`.
fn is_marked(fd: c_int) -> bool {
    fd_replace::int(fd, SOL_SOCKET, MARK).is_some_and(|marked| marked != 0)
}
