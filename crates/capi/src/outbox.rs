//! What a program writes to its connections, on the shorter way
//! ([`host::seam::outbox`]): memory that it shares with the stack, instead of the pair.
//!
//! Whether a descriptor is a connection is noted where this process accepts or opens it, and
//! forgotten before its number can be another file's (`closing`); a fork copies the
//! notes. What comes otherwise (by exec, dup, or another process) has no note, and its
//! bytes take the pair. So do all of a process that confines itself (seccomp): the question
//! whether the pair is empty is a system call that a program does not know of.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::seam::{Name, Outboxes};
use libc::{iovec, ssize_t};

use crate::mapped::Mapped;
use crate::{ours, seam};

/// By descriptor: one more than the number of the connection that it is; 0: it is none, or unknown.
/// Descriptors beyond have no note.
static NOTES: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];
static OUTBOXES: Mapped<Outboxes> = Mapped::new();
/// This process has confined itself.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Flags of send(2) with which bytes are bytes.
const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;

fn place(fd: c_int) -> Option<&'static AtomicU64> {
    NOTES.get(usize::try_from(fd).ok()?)
}

/// Notes that `fd` is the connection `name`, of this process's own making.
pub(crate) fn note(fd: c_int, name: &Name) {
    // The first of all connections has number 0, and so has one that is the kernel's.
    if name.id == 0 && ours(fd).is_none() {
        return;
    }
    if let (Some(place), Some(_)) = (place(fd), OUTBOXES.get_or(|| seam()?.outboxes().ok())) {
        place.store(name.id + 1, Ordering::Relaxed);
    }
}

/// Whether `fd` is known to be a connection.
pub(crate) fn is_noted(fd: c_int) -> bool {
    place(fd).is_some_and(|place| place.load(Ordering::Relaxed) != 0)
}

/// `fd` is, or may soon be, another file.
pub(crate) fn forget(fd: c_int) {
    if let Some(place) = place(fd)
        && place.load(Ordering::Relaxed) != 0
    {
        place.store(0, Ordering::Relaxed);
    }
}

/// As [`forget`], of all from `first` to `last`.
pub(crate) fn forget_all(first: usize, last: usize) {
    let last = last.min(NOTES.len() - 1);
    NOTES.get(first..=last).into_iter().flatten().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// From now on this process makes no system call that it does not know of.
pub(crate) fn confine() {
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
    let Some(id) = place(fd).and_then(|place| place.load(Ordering::Relaxed).checked_sub(1)) else {
        return call();
    };
    let Some(outboxes) = OUTBOXES.get().filter(|_| !CONFINED.load(Ordering::Relaxed)) else { return call() };
    let asleep = outboxes.asleep(id);
    let len = pieces.iter().fold(0_usize, |len, piece| len.saturating_add(piece.iov_len));
    if asleep.is_none() && len > 0 && flags & !PLAIN == 0 {
        // SAFETY: the program's bytes.
        let pieces = pieces.iter().filter(|piece| piece.iov_len > 0).map(|piece| unsafe {
            std::slice::from_raw_parts(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len)
        });
        if outboxes.put(id, pieces, || is_empty(fd)) {
            return len as ssize_t;
        }
    }
    let sent = call();
    if let (Some(asleep), 1..) = (asleep, sent) {
        outboxes.woken(id, asleep);
    }
    sent
}

/// Whether the stack has taken all that went through the pair (unix(7), SIOCOUTQ). What is no
/// socket any more has no note either.
fn is_empty(fd: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one int to where `bytes` is.
    let asked = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if asked != 0 {
        forget(fd);
    }
    asked == 0 && bytes == 0
}
