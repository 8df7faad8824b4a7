//! `libgreenwave.so`: unmodified programs on our stack.
//!
//! Preloaded into a program (`greenwave run`), it takes the few calls of the C
//! library in which the kernel would speak of its own TCP: where a socket is
//! bound, who connects, which addresses and options it has; and it puts what
//! `epoll_wait` returns into the order of labels. All other calls on our
//! connections, `read` and `poll` among them, are not touched: a socket of ours
//! is an end of a socket pair whose other end is the stack's process, and the
//! kernel does the rest ([`host::shim`]). Datagrams have envelopes, which the
//! calls that send and receive add and strip (`letters`), also where a program asks
//! by number (`numbered`).
//!
//! Bytes that it writes may take a shorter way than the pair (`outbox`).
//!
//! Nothing is kept here but where the desk is, and hints: which decide about
//! order, which epoll sets there are, whether any socket for datagrams is, and which connections
//! this process has made; so threads, signals, fork and exec find nothing to confuse. What a descriptor is, it says itself
//! ([`ShimClient::name`](host::shim::ShimClient::name)). A program without the variable
//! [`host::shim::VARIABLE`] notices nothing.
//!
//! A thread may be cancelled in the calls in which the C library lets it be
//! (pthreads(7)): they wait in the C library's functions, hold no
//! lock then, and are of the ABI by which it unwinds. Whatever else is done here is done
//! by system calls, in which no thread is cancelled.
//!
//! Programs that know of us find more in [`api`].
//!
//! `docs/guide/unmodified-programs.md` lists every call; a test holds it
//! against what this library exports.

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
mod lazy_mmap;
mod listen;
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

use host::shim::{HandshakeError, Name, OTHER_BUILD, ShimClient, VARIABLE};
use rustix::io::Errno;

static SEAM: OnceLock<Option<ShimClient>> = OnceLock::new();

/// The loader has run [`on_load`].
static LOADED: AtomicBool = AtomicBool::new(false);

/// Whether the C library's own functions may be looked for.
fn is_loaded() -> bool {
    LOADED.load(Ordering::Relaxed)
}

/// Run by the loader before the program: later the program may have changed
/// its environment.
extern "C" fn on_load() {
    LOADED.store(true, Ordering::Relaxed);
    // These may be called by a signal's handler: they are found now.
    // SAFETY: there is no such descriptor, and no byte to it.
    unsafe { recv::read(-1, std::ptr::null_mut(), 0) };
    // SAFETY: as above.
    unsafe { send::write(-1, std::ptr::null(), 0) };
    memory::look();
    let name = format!("{VARIABLE}\0");
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { return };
    // SAFETY: `name` ends with NUL; nobody else runs yet who could change the
    // environment, and the text is copied at once.
    let text = unsafe { libc::getenv(name.as_ptr()) };
    if text.is_null() {
        return;
    }
    // SAFETY: getenv gave a string that ends with NUL.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str().map(ShimClient::parse) {
        Ok(Ok(seam)) => {
            let _ = SEAM.set(Some(seam));
        }
        Ok(Err(HandshakeError::Build)) => end(),
        _ => {}
    }
    udp_fds::look();
}

/// Ends a program that would serve on the kernel's TCP without a word.
fn end() -> ! {
    // Who cannot be told sees the status.
    let _ = std::io::stderr().write_all(format!("error: {OTHER_BUILD}\n").as_bytes());
    // SAFETY: it ends this process, in which nothing has begun yet.
    unsafe { libc::_exit(2) }
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static ON_LOAD: extern "C" fn() = on_load;

/// Where the desk is, if this program was started by `greenwave run`.
fn seam() -> Option<ShimClient> {
    SEAM.get().copied().flatten()
}

/// What descriptor `fd` of the program is, if it is ours.
fn ours(fd: c_int) -> Option<Name> {
    seam()?.name(borrow(fd)?)
}

/// A descriptor as the program names it.
fn borrow(fd: c_int) -> Option<BorrowedFd<'static>> {
    // SAFETY: -1 is excluded; it is used for system calls during this call
    // only, and if the program closes it meanwhile they say EBADF, as its own
    // call would.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Why the C library's call failed that was made last.
fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Fails as the C library does.
fn fail(errno: Errno) -> c_int {
    // SAFETY: the C library gives every thread an errno of its own.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
    -1
}
