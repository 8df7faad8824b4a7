//! Test support: cancels a thread that waits in a call (pthreads(7)); the C library unwinds its
//! stack.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::datagram_io::piece;

/// Call that a thread makes, and a flag set when it has left the call.
struct Task {
    wait: fn(c_int),
    fd: c_int,
    is_left: AtomicBool,
}

/// Sets the flag on drop, also while the stack is unwound.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Body = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
/// The type that `pthread_create` declares.
type Declared = extern "C" fn(*mut c_void) -> *mut c_void;

extern "C-unwind" fn body(task: *mut c_void) -> *mut c_void {
    // SAFETY: `task` points to a leaked [`Task`].
    let task = unsafe { &*task.cast::<Task>() };
    let _leaving = Leaving(&task.is_left);
    (task.wait)(task.fd);
    std::ptr::null_mut()
}

/// Asserts that a thread that waits for `fd` in `wait`, which never returns, can be cancelled both
/// at once and while it waits, and that its stack is unwound.
#[track_caller]
pub(crate) fn check(wait: fn(c_int), fd: c_int) {
    for pause in [Duration::ZERO, Duration::from_millis(30)] {
        let task: &Task = Box::leak(Box::new(Task { wait, fd, is_left: AtomicBool::new(false) }));
        // SAFETY: the ABIs differ only in that one may unwind.
        let body = unsafe { std::mem::transmute::<Body, Declared>(body) };
        let (mut thread, mut result): (libc::pthread_t, *mut c_void) = (0, std::ptr::null_mut());
        let argument = std::ptr::from_ref(task).cast_mut().cast();
        // SAFETY: the task is leaked, and `body` takes one.
        let made = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), body, argument) };
        assert_eq!(made, 0);
        std::thread::sleep(pause);
        assert!(!task.is_left.load(Ordering::Relaxed), "the call is blocked");
        // SAFETY: it is not joined yet.
        assert_eq!(unsafe { libc::pthread_cancel(thread) }, 0);
        let start = Instant::now();
        while !task.is_left.load(Ordering::Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(30), "not cancelled after {pause:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_join(thread, &raw mut result) }, 0);
        assert_eq!(result.addr(), usize::MAX, "PTHREAD_CANCELED, after {pause:?}");
    }
}

/// A stream whose send buffer is full, and its peer.
pub(crate) fn full() -> (UnixStream, UnixStream) {
    let (full, other) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut &full, &[0; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    (full, other)
}

fn receives(fd: c_int) {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer has this many bytes.
    let got = unsafe { crate::recv::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert!(got < 0, "it never returns");
}

fn receives_pieces(fd: c_int) {
    let mut bytes = [0_u8; 8];
    let pieces = [piece(bytes.as_mut_ptr().cast(), bytes.len())];
    // SAFETY: as above.
    let got = unsafe { crate::recv::readv(fd, pieces.as_ptr(), 1) };
    assert!(got < 0, "it never returns");
}

/// Into so many iovecs that they are allocated, and must be freed.
fn receives_a_datagram(fd: c_int) {
    let mut byte = 0_u8;
    let pieces = [piece((&raw mut byte).cast(), 1); 20];
    // SAFETY: as above.
    let got = unsafe { crate::datagram_io::receive(fd, &pieces, 0) };
    assert!(got.is_none(), "it never returns");
}

fn sends(fd: c_int) {
    let bytes = [0_u8; 8];
    // SAFETY: the buffer has this many bytes.
    let sent = unsafe { crate::send::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) };
    assert!(sent < 0, "it never returns");
}

fn waits_for_events(fd: c_int) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: the buffer holds one event.
    let count = unsafe { crate::epoll::epoll_wait(fd, &raw mut event, 1, -1) };
    assert!(count < 0, "it never returns");
}

fn waits_by_priority(fd: c_int) {
    let mut event = crate::api::GreenwaveEvent::default();
    // SAFETY: the buffer holds one event.
    let count = unsafe { crate::api::greenwave_wait(fd, &raw mut event, 1, -1, 0xff) };
    assert!(count < 0, "it never returns");
}

#[test]
fn a_thread_that_receives_can_be_cancelled() {
    let (near, _far) = UnixStream::pair().unwrap();
    check(receives, near.as_raw_fd());
    check(receives_pieces, near.as_raw_fd());
    check(receives_a_datagram, near.as_raw_fd());
}

#[test]
fn a_thread_that_sends_can_be_cancelled() {
    let (full, _other) = full();
    check(sends, full.as_raw_fd());
}

#[test]
fn a_thread_that_waits_for_events_can_be_cancelled() {
    let set = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    check(waits_for_events, set.as_raw_fd());
    check(waits_by_priority, set.as_raw_fd());
}
