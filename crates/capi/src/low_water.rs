//! `SO_RCVLOWAT`: the bytes that make a connection readable for `poll`, `select` and epoll.
//!
//! A socket pair is readable from the first byte, so the stack withholds fewer bytes than this. A
//! receive call takes what there is, and therefore has the stack write them first. Source:
//! socket(7), `tcp_data_ready` and `tcp_poll` of Linux.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{IPPROTO_TCP, SO_RCVLOWAT, SOL_SOCKET, TCP_INFO};
use shim::socket_name::SocketKind;
use shim::tcp_sockopt::{SOL_GREENWAVE, WITHHELD};
use shim::{Request, ShimClient};

use crate::{fd_replace, ours, shim_client, shm_send};

/// True once this process has, or has inherited, a connection with this option.
static ANY: AtomicBool = AtomicBool::new(false);

/// Records that some connection has this option.
pub(crate) fn expect() {
    ANY.store(true, Ordering::Relaxed);
}

/// `SO_RCVLOWAT` of `fd`, unless it is the default.
pub(crate) fn of(fd: c_int) -> Option<c_int> {
    fd_replace::int(fd, SOL_SOCKET, SO_RCVLOWAT).filter(|bytes| *bytes != 1)
}

/// Makes the stack write the data that it withholds from `fd`, if a receive call of `n` bytes may
/// need it.
pub(crate) fn flush(fd: c_int, n: usize) {
    if !ANY.load(Ordering::Relaxed) || shm_send::is_confined() || of(fd).is_none() {
        return;
    }
    let connection = ours(fd).filter(|name| matches!(name.kind, SocketKind::Connection | SocketKind::Opened));
    let (Some(shim_client), Some(name)) = (shim_client(), connection) else { return };
    let mut waiting: c_int = 0;
    // SAFETY: the kernel writes one int.
    let known = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut waiting) } == 0;
    let missing = n.saturating_sub(usize::try_from(waiting).unwrap_or(0));
    if known && missing > 0 {
        let value = [c_int::try_from(missing).unwrap_or(c_int::MAX), 0];
        drop(shim_client.ask(&Request::Option { id: name.id, level: SOL_GREENWAVE, name: WITHHELD, value }));
        sync(shim_client, name.id);
    }
}

/// Waits until the stack has applied the requests for connection `id`, and has written the data
/// that it no longer withholds.
pub(crate) fn sync(shim_client: ShimClient, id: u64) {
    drop(shim_client.option(id, IPPROTO_TCP, TCP_INFO));
}
