//! Detection of descriptors that are UDP sockets on the stack.
//!
//! Every send and receive call needs it. It queries the kernel for the kind of a descriptor, but only
//! in a process that has ever had such a socket.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use shim::Name;
use shim::socket_name::SocketKind;

use crate::{duplicates, ours};

/// True if this process has, or had, a UDP socket on the stack. A fork copies it; after an exec the
/// constructor determines it.
static ANY: AtomicBool = AtomicBool::new(false);

/// Enables the check of descriptors.
pub(crate) fn expect() {
    ANY.store(true, Ordering::Relaxed);
}

/// Enables the check of descriptors if this program inherited a UDP socket on the stack, and the
/// check of duplicates if it inherited a kernel socket.
pub(crate) fn detect_inherited() {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let there = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for fd in there {
        if ours(fd).is_some_and(|name| name.kind == SocketKind::Datagrams) {
            expect();
        }
        // It may be one of several of its socket.
        duplicates::note(fd);
    }
}

/// Name of `fd`, if it is a UDP socket on the stack.
pub(crate) fn of(fd: c_int) -> Option<Name> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    ours(fd).filter(|name| name.kind == SocketKind::Datagrams)
}
