//! Shared-memory path for bytes that a program writes to its connections
//! ([`shim::shm_send`]), instead of the socket pair.
//!
//! Descriptors that may be connections are recorded when this process accepts or opens them; a fork
//! copies the records. A record is a guess: the descriptor may be another file by now, because the
//! library does not see every way to close one. Nothing is sent by it before the kernel confirms
//! that the descriptor is that connection (getpeername(2) returns the name of the stack's end). A
//! descriptor obtained by exec, dup or from another process has no record, and its bytes take the
//! pair. So do all bytes of a process under seccomp, whose filter may not allow the system calls of
//! this check.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{iovec, ssize_t};
use shim::shm_send::BYTES;
use shim::socket_name::SocketKind;
use shim::{Name, ShmSendBuffers};

use crate::lazy_mmap::Mapped;
use crate::{borrow, memory, ours, shim_client};

/// Record by descriptor: the number of the connection plus one, perhaps with [`SHUT`]; or
/// [`LISTENER`]; 0: none or unknown. Descriptors above this number have no record.
static NOTES: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];
static OUTBOXES: Mapped<ShmSendBuffers> = Mapped::new();
/// True once this process has entered seccomp.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Flag in a record: the program has shut down the write side. Connection numbers do not use this
/// bit.
const SHUT: u64 = 1 << 63;
/// Record of a socket that is bound or listens.
const LISTENER: u64 = u64::MAX;

/// Flags of send(2) that the shared-memory path supports.
const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;

fn note_of(fd: c_int) -> Option<&'static AtomicU64> {
    NOTES.get(usize::try_from(fd).ok()?)
}

/// Send buffers, mapped on first use unless the process has entered seccomp.
pub(crate) fn all() -> Option<&'static ShmSendBuffers> {
    if is_confined() { OUTBOXES.get() } else { OUTBOXES.get_or(|| Some(shim_client()?.outboxes())) }
}

/// Records that `fd` is the connection `name`, which this process has accepted.
pub(crate) fn accept(fd: c_int, name: &Name) {
    // Number 0 is the first connection of all, and any connection of the kernel's.
    if name.id == 0 && ours(fd).is_none() {
        return;
    }
    if let Some(outboxes) = all() {
        outboxes.accept(name.id);
    }
    register(fd, name);
}

/// Records that `fd` is the connection `name`, which this process has opened or accepted.
pub(crate) fn register(fd: c_int, name: &Name) {
    if is_confined() {
        return;
    }
    let Some(outboxes) = all() else { return };
    // If mapping fails, the pair is used.
    let is_reached = outboxes.is_reached(name.id)
        || outboxes.has_room()
            && shim_client().is_some_and(|shim_client| shim_client.reach(outboxes, name.id).is_ok());
    if let (Some(note), true) = (note_of(fd), is_reached) {
        note.store(name.id + 1, Ordering::Relaxed);
    }
}

/// Records that `fd` is bound or listens.
pub(crate) fn note_listener(fd: c_int) {
    if let Some(note) = note_of(fd) {
        note.store(LISTENER, Ordering::Relaxed);
    }
}

/// True if `fd` is bound or listens, confirmed by the kernel. Otherwise its record is cleared.
pub(crate) fn is_listener(fd: c_int) -> bool {
    if note_of(fd).is_none_or(|note| note.load(Ordering::Relaxed) != LISTENER) {
        return false;
    }
    let is = ours(fd).is_some_and(|socket| socket.kind == SocketKind::Listener);
    if !is {
        forget(fd);
    }
    is
}

/// Records that the program has shut down the write side of `fd`: later writes take the pair.
pub(crate) fn shut(fd: c_int) {
    if let Some(note) = note_of(fd)
        && known(fd).is_some()
    {
        note.fetch_or(SHUT, Ordering::Relaxed);
    }
}

/// Clears the record of `fd`, which becomes another file.
pub(crate) fn forget(fd: c_int) {
    if let Some(note) = note_of(fd)
        && note.load(Ordering::Relaxed) != 0
    {
        note.store(0, Ordering::Relaxed);
    }
}

/// True if this process has entered seccomp.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Stops all system calls that the library makes of its own.
pub(crate) fn disable() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Writes `pieces` to `fd` with `flags`: into its shared-memory send buffer, or by `call`.
///
/// # Safety
/// `pieces` are the iovecs that the program passed.
pub(crate) unsafe fn write(
    fd: c_int,
    pieces: &[iovec],
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(id) = noted(fd) else { return call() };
    let Some(outboxes) = OUTBOXES.get().filter(|_| !is_confined()) else { return call() };
    // Set before the bytes, which the stack may read at once.
    outboxes.set_more(id, flags & libc::MSG_MORE != 0);
    let asleep = outboxes.asleep(id);
    let len = pieces.iter().fold(0_usize, |len, piece| len.saturating_add(piece.iov_len));
    let fits = (1..=BYTES).contains(&len) && flags & !PLAIN == 0;
    // The kernel reports invalid iovecs.
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

/// Ends `MSG_MORE` on `fd`, because a system call of the kernel's sends the data that follows.
pub(crate) fn follow(fd: c_int) {
    if let Some(id) = noted(fd)
        && let Some(outboxes) = OUTBOXES.get()
    {
        outboxes.set_more(id, false);
    }
}

/// Connection recorded for `fd`, unless its write side is shut down.
pub(crate) fn noted(fd: c_int) -> Option<u64> {
    let note = note_of(fd)?.load(Ordering::Relaxed);
    if note & SHUT != 0 { None } else { note.checked_sub(1) }
}

/// Connection recorded for `fd`.
pub(crate) fn known(fd: c_int) -> Option<u64> {
    let note = note_of(fd)?.load(Ordering::Relaxed);
    if note == LISTENER { None } else { (note & !SHUT).checked_sub(1) }
}

/// True if `fd` is connection `id`, confirmed by the kernel. Otherwise its record is cleared.
fn is(fd: c_int, id: u64) -> bool {
    let is = shim_client().zip(borrow(fd)).is_some_and(|(shim_client, fd)| shim_client.is_connection(fd, id));
    if !is {
        forget(fd);
    }
    is
}

/// True if the stack has read all bytes from the pair (unix(7), SIOCOUTQ).
fn is_empty(fd: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one int to `bytes`.
    let asked = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    asked == 0 && bytes == 0
}
