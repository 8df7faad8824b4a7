//! Which descriptors are sockets for datagrams of ours.
//!
//! All calls that send or receive have to know. They ask the kernel what a
//! descriptor is, but only in a process that has ever had such a socket.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use host::shim::Name;
use host::shim::socket_name::Kind;

use crate::ours;

/// This process has, or had, a socket for datagrams of ours. A fork copies
/// this; after an exec the loader looks what is there.
static ANY: AtomicBool = AtomicBool::new(false);

/// From now on descriptors are looked at.
pub(crate) fn expect() {
    ANY.store(true, Ordering::Relaxed);
}

/// Looks whether this program was started with such a socket.
pub(crate) fn look() {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let mut there = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    if there.any(|fd: c_int| ours(fd).is_some_and(|name| name.kind == Kind::Datagrams)) {
        expect();
    }
}

/// What `fd` is, if it is a socket for datagrams of ours.
pub(crate) fn of(fd: c_int) -> Option<Name> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    ours(fd).filter(|name| name.kind == Kind::Datagrams)
}
