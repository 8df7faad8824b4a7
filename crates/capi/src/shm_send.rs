//! What a program writes to its connections, on the shorter way
//! ([`host::shim::shm_send`]): memory that it shares with the stack, instead of the pair.
//!
//! Which descriptors may be connections is noted where this process accepts or opens them; a fork copies
//! the notes. A note is a guess: its number may be another file's by now, as there are many ways to close
//! one that the library does not see. Nothing is sent by it before the kernel has said that the
//! descriptor is that connection (getpeername(2): the name of our end). What comes otherwise (by exec, dup, or
//! another process) has no note, and its
//! bytes take the pair. So do all of a process that confines itself (seccomp): the questions
//! are system calls that a program does not know of.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::shim::shm_send::BYTES;
use host::shim::socket_name::Kind;
use host::shim::{Name, ShmSendBuffers};
use libc::{iovec, ssize_t};

use crate::lazy_mmap::Mapped;
use crate::{borrow, memory, ours, seam};

/// By descriptor: one more than the number of the connection that it may be, perhaps with [`SHUT`]; or
/// [`LISTENER`]; 0: it is none, or unknown. Descriptors beyond have no note.
static NOTES: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];
static OUTBOXES: Mapped<ShmSendBuffers> = Mapped::new();
/// This process has confined itself.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Of a note: the program writes nothing more to that connection. Numbers have no such bit.
const SHUT: u64 = 1 << 63;
/// The note of a socket that is bound, or listens.
const LISTENER: u64 = u64::MAX;

/// Flags of send(2) with which bytes are bytes.
const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;

fn place(fd: c_int) -> Option<&'static AtomicU64> {
    NOTES.get(usize::try_from(fd).ok()?)
}

/// The outboxes; asked for when they are needed first, but not by a process that has confined itself.
pub(crate) fn all() -> Option<&'static ShmSendBuffers> {
    if is_confined() { OUTBOXES.get() } else { OUTBOXES.get_or(|| Some(seam()?.outboxes())) }
}

/// Notes that `fd` is the connection `name`, which this process has accepted.
pub(crate) fn accept(fd: c_int, name: &Name) {
    // The first of all connections has number 0, and so has one that is the kernel's.
    if name.id == 0 && ours(fd).is_none() {
        return;
    }
    if let Some(outboxes) = all() {
        outboxes.accept(name.id);
    }
    register(fd, name);
}

/// Notes that `fd` is the connection `name`, of this process's own making.
pub(crate) fn register(fd: c_int, name: &Name) {
    if is_confined() {
        return;
    }
    let Some(outboxes) = all() else { return };
    // Without memory for it the pair is there.
    let is_reached = outboxes.is_reached(name.id)
        || outboxes.has_room() && seam().is_some_and(|seam| seam.reach(outboxes, name.id).is_ok());
    if let (Some(place), true) = (place(fd), is_reached) {
        place.store(name.id + 1, Ordering::Relaxed);
    }
}

/// Notes that `fd` is bound, or listens.
pub(crate) fn note_listener(fd: c_int) {
    if let Some(place) = place(fd) {
        place.store(LISTENER, Ordering::Relaxed);
    }
}

/// True if `fd` is bound or listens, as the kernel knows it. If it is not, its note goes.
pub(crate) fn is_listener(fd: c_int) -> bool {
    if place(fd).is_none_or(|place| place.load(Ordering::Relaxed) != LISTENER) {
        return false;
    }
    let is = ours(fd).is_some_and(|socket| socket.kind == Kind::Listener);
    if !is {
        forget(fd);
    }
    is
}

/// The program writes nothing more to `fd`: what it tries takes the pair.
pub(crate) fn shut(fd: c_int) {
    if let Some(place) = place(fd)
        && known(fd).is_some()
    {
        place.fetch_or(SHUT, Ordering::Relaxed);
    }
}

/// `fd` is another file.
pub(crate) fn forget(fd: c_int) {
    if let Some(place) = place(fd)
        && place.load(Ordering::Relaxed) != 0
    {
        place.store(0, Ordering::Relaxed);
    }
}

/// True if this process has confined itself.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// From now on this process makes no system call that it does not know of.
pub(crate) fn disable() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Writes `pieces` to `fd` with `flags`: into its outbox, or by `call`.
///
/// # Safety
/// `pieces` are the program's.
pub(crate) unsafe fn write(
    fd: c_int,
    pieces: &[iovec],
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(id) = noted(fd) else { return call() };
    let Some(outboxes) = OUTBOXES.get().filter(|_| !is_confined()) else { return call() };
    // Before the bytes, which the stack may take at once.
    outboxes.set_more(id, flags & libc::MSG_MORE != 0);
    let asleep = outboxes.asleep(id);
    let len = pieces.iter().fold(0_usize, |len, piece| len.saturating_add(piece.iov_len));
    let fits = (1..=BYTES).contains(&len) && flags & !PLAIN == 0;
    // What is wrong with the pieces the kernel says.
    if asleep.is_none() && fits && pieces.iter().all(|of| memory::is_readable(of.iov_base, of.iov_len)) {
        // SAFETY: the program's bytes, which can be read.
        let pieces = pieces.iter().filter(|piece| piece.iov_len > 0).map(|piece| unsafe {
            std::slice::from_raw_parts(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len)
        });
        if outboxes.put(id, pieces, || is(fd, id) && is_empty(fd)) {
            return len as ssize_t;
        }
    }
    let sent = call();
    if let Some(asleep) = asleep
        && sent > 0
        && is(fd, id)
    {
        outboxes.woken(id, asleep);
    }
    sent
}

/// Something goes to `fd` by a call that the kernel does alone: it is what was to follow.
pub(crate) fn follow(fd: c_int) {
    if let Some(id) = noted(fd)
        && let Some(outboxes) = OUTBOXES.get()
    {
        outboxes.set_more(id, false);
    }
}

/// The connection that `fd` may be, if it takes more.
pub(crate) fn noted(fd: c_int) -> Option<u64> {
    let note = place(fd)?.load(Ordering::Relaxed);
    if note & SHUT != 0 { None } else { note.checked_sub(1) }
}

/// The connection that `fd` may be.
pub(crate) fn known(fd: c_int) -> Option<u64> {
    let note = place(fd)?.load(Ordering::Relaxed);
    if note == LISTENER { None } else { (note & !SHUT).checked_sub(1) }
}

/// True if `fd` is connection `id`, as the kernel knows it. If it is not, its note goes.
fn is(fd: c_int, id: u64) -> bool {
    let is = seam().zip(borrow(fd)).is_some_and(|(seam, fd)| seam.is_connection(fd, id));
    if !is {
        forget(fd);
    }
    is
}

/// True if the stack has taken all that went through the pair (unix(7), SIOCOUTQ).
fn is_empty(fd: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one int to where `bytes` is.
    let asked = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    asked == 0 && bytes == 0
}
