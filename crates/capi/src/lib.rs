//! `libgreenwave.so`: the preloaded library that puts the sockets of an unmodified program on the
//! stack.
//!
//! It interposes the calls of the C library that the kernel would answer for its own TCP: bind,
//! listen, accept, connect, socket addresses and socket options. It reorders the events that
//! `epoll_wait` returns by label. A stack socket is one end of a socket pair; the stack's process
//! has the other end ([`shim`]). Calls on connections pass to the kernel. Datagrams carry a
//! header, which the send and receive calls add and strip (`datagram_io`), also for calls by number
//! (`syscall`). Bytes written to a connection may go through shared memory instead of the socket
//! pair (`shm_send`).
//!
//! The library keeps no table of sockets. [`ShimClient::name`](shim::ShimClient::name) reads
//! the kind and number of a socket from the kernel. Its state is the address of the socket server
//! and hints: connections by epoll registration, epoll sets, one flag for UDP sockets, and the
//! connections that this process made. Threads, signals, fork and exec therefore need no handling.
//! Without the environment variable [`shim::VARIABLE`] every call is the C library's.
//!
//! Cancellation points (pthreads(7)) wait in the C library's functions, hold no lock and have an
//! ABI that unwinds. All else is done by direct system calls, in which no thread is cancelled.
//!
//! Programs written for greenwave use [`api`].
//!
//! `docs/guide/unmodified-programs.md` lists every call; a test compares the list with the exported
//! symbols.

#![cfg_attr(test, expect(dead_code, reason = "a test exports nothing: it would take its own calls"))]

pub mod api;
mod close;
mod cmsg;
mod connect;
mod datagram_io;
mod duplicates;
mod epoll;
mod epoll_index;
mod epoll_registry;
mod errors;
mod fd_replace;
mod getifaddrs;
mod kernel_socket;
mod label;
mod late_data;
mod lazy_mmap;
mod listen;
mod low_water;
mod memory;
mod polling;
mod prctl;
#[cfg(test)]
mod pthread_cancel;
mod real_fn;
mod recv;
mod send;
mod shm_send;
mod socket_address;
mod socket_kind;
mod sockname;
mod sockopt;
mod stream;
mod syscall;
mod udp_fds;
mod udp_socket;

use std::ffi::{CStr, c_int};
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use shim::{HandshakeError, Name, OTHER_BUILD, ShimClient, VARIABLE};

static SEAM: OnceLock<Option<ShimClient>> = OnceLock::new();

/// The loader has run [`on_load`].
static LOADED: AtomicBool = AtomicBool::new(false);

/// True once the C library's functions may be looked up.
fn is_loaded() -> bool {
    LOADED.load(Ordering::Relaxed)
}

/// Constructor, run by the loader before the program can change its environment.
extern "C" fn on_load() {
    LOADED.store(true, Ordering::Relaxed);
    // Signal handlers may call these two, so they are resolved now.
    // SAFETY: the descriptor is invalid, and there are no bytes.
    unsafe { recv::read(-1, std::ptr::null_mut(), 0) };
    // SAFETY: as above.
    unsafe { send::write(-1, std::ptr::null(), 0) };
    memory::record_memory_layout();
    let name = format!("{VARIABLE}\0");
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { return };
    // SAFETY: `name` ends with NUL; no other thread runs yet that could change the environment, and
    // the text is copied at once.
    let text = unsafe { libc::getenv(name.as_ptr()) };
    if text.is_null() {
        return;
    }
    // SAFETY: getenv returned a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str().map(ShimClient::parse) {
        Ok(Ok(shim_client)) => {
            let _ = SEAM.set(Some(shim_client));
        }
        Ok(Err(HandshakeError::Build)) => end(),
        _ => {}
    }
    udp_fds::detect_inherited();
}

/// Ends the program: it would silently run on the kernel's TCP.
fn end() -> ! {
    // Without a usable stderr the exit status reports it.
    let _ = std::io::stderr().write_all(format!("error: {OTHER_BUILD}\n").as_bytes());
    // SAFETY: it ends this process, in which nothing has begun yet.
    unsafe { libc::_exit(2) }
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static ON_LOAD: extern "C" fn() = on_load;

/// Client of the socket server, if `greenwave run` started this program.
fn shim_client() -> Option<ShimClient> {
    SEAM.get().copied().flatten()
}

/// Name of descriptor `fd`, if it is a stack socket.
fn ours(fd: c_int) -> Option<Name> {
    shim_client()?.name(borrow(fd)?)
}

/// Borrows a descriptor of the program; `None` if negative.
fn borrow(fd: c_int) -> Option<BorrowedFd<'static>> {
    // SAFETY: -1 is excluded; it is used for system calls during this call only, and if the program
    // closes it meanwhile they return EBADF, as its own call would.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Error of the last failed call to the C library.
fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sets `errno` and returns -1, as the C library does.
fn fail(errno: Errno) -> c_int {
    // SAFETY: the C library gives every thread its own errno.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
    -1
}
