//! Label table and greenwave's own socket options: the priority of a connection, and the private
//! bytes that it shares with the classifiers.
//! ```c
//! int level;
//! socklen_t len = sizeof level;
//! getsockopt(fd, 0x6777, 1, &level, &len);        /* 0 (most urgent) to 7 */
//! char own[48];
//! len = sizeof own;
//! getsockopt(fd, 0x6777, 2, own, &len);
//! setsockopt(fd, 0x6777, 2, own, sizeof own);
//! ```
//! Reading takes no request to the stack. The kernel refuses both options on its own sockets.
//! Source: ADPS M5, M6.

use std::ffi::{c_int, c_void};

use libc::socklen_t;
use rustix::io::Errno;
use shim::label_table::{PRIVATE, of_mailbox};
use shim::socket_name::SocketKind;
use shim::tcp_sockopt::{PRIORITY, PRIVATE_BYTES};
use shim::{Answer, LabelReader, Name, Request, ShimClient};

use crate::lazy_mmap::Mapped;
use crate::{memory, shim_client, shm_send};

static LABELS: Mapped<LabelReader> = Mapped::new();

/// Label table, once a connection has been registered.
pub(crate) fn mapped() -> Option<&'static LabelReader> {
    LABELS.get()
}

/// Label table, mapped on first use.
pub(crate) fn all() -> Option<&'static LabelReader> {
    LABELS.get_or(|| Some(shim_client()?.labels()))
}

/// True if `socket` is a connection, which has a label.
pub(crate) fn has(socket: &Name) -> bool {
    matches!(socket.kind, SocketKind::Connection | SocketKind::Opened)
}

/// Number of `socket` in the label table ([`LabelReader`]), if it has a label.
pub(crate) fn number(socket: &Name) -> Option<u64> {
    match socket.kind {
        SocketKind::Connection | SocketKind::Opened => Some(socket.id),
        SocketKind::Datagrams => Some(of_mailbox(socket.id)),
        SocketKind::Listener => None,
    }
}

/// True if UDP socket `socket` is connected; `None` if that is not known.
pub(crate) fn is_connected(socket: &Name) -> Option<bool> {
    // After seccomp a process makes no requests.
    let labels = if shm_send::is_confined() { mapped() } else { all() };
    labels?.is_connected(of_mailbox(socket.id))
}

/// Value of option `name` of `socket`.
pub(crate) fn get(socket: &Name, name: c_int) -> Result<Vec<u8>, Errno> {
    if !has(socket) {
        return Err(Errno::NOTCONN);
    }
    let labels = all().ok_or(Errno::NETDOWN)?;
    match name {
        PRIORITY => labels.level(socket.id).map(|level| c_int::from(level).to_ne_bytes().to_vec()),
        PRIVATE_BYTES => labels.private(socket.id).map(|private| private.to_vec()),
        _ => return Err(Errno::NOPROTOOPT),
    }
    .ok_or(Errno::NOTCONN)
}

/// Sets the private bytes of `socket`.
///
/// # Safety
/// `value` points to `len` bytes, or is null.
pub(crate) unsafe fn set_private(
    shim_client: ShimClient,
    socket: &Name,
    value: *const c_void,
    len: socklen_t,
) -> Result<(), Errno> {
    if !has(socket) {
        return Err(Errno::NOTCONN);
    }
    if len as usize != PRIVATE {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's `value` has this many bytes.
    let bytes = unsafe { memory::read(value.cast::<[u8; PRIVATE]>()) }?;
    match shim_client.ask(&Request::Private { id: socket.id, bytes })?.answer {
        Answer::No(errno) => Err(Errno::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}
