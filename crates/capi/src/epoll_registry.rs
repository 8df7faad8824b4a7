//! Registry of epoll registrations, which are restored when a socket moves to the stack.
//!
//! An epoll set refers to an open file, not to a descriptor number, so a replaced descriptor is no
//! longer registered. Programs that register before they connect (nginx) would wait forever. The
//! registry records epoll sets when they are created, and descriptors that were ever registered.
//! The registrations themselves are read from the kernel, so a stale record does no harm. No trial
//! registration is made: it could report an event to a waiting thread. Source: proc_pid_fdinfo(5),
//! epoll(7).

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::retry_on_intr;

use crate::borrow;
use crate::real_fn::next;

/// Maximum number of sets recorded; registrations in further sets are lost when a socket moves to
/// the stack.
const SETS_MAX: usize = 256;
static SETS: [AtomicI32; SETS_MAX] = [const { AtomicI32::new(-1) }; SETS_MAX];
static SETS_LEN: AtomicUsize = AtomicUsize::new(0);
/// Number of descriptors recorded, one bit each; those beyond count as registered.
const FDS: usize = 1 << 20;
static WATCHED: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];

/// Registration in an epoll set.
pub(crate) struct EpollEntry {
    set: c_int,
    events: EventFlags,
    data: u64,
}

/// Records `set`, a new descriptor.
fn note(set: c_int) -> c_int {
    let known = SETS_LEN.load(Ordering::Acquire).min(SETS_MAX);
    if set >= 0 && SETS[..known].iter().all(|known| known.load(Ordering::Relaxed) != set) {
        let at = SETS_LEN.fetch_add(1, Ordering::AcqRel);
        if let Some(slot) = SETS.get(at) {
            slot.store(set, Ordering::Relaxed);
        }
    }
    set
}

/// epoll_create(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int) -> c_int;
    note(next!(epoll_create(size) as Real))
}

/// epoll_create1(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int) -> c_int;
    note(next!(epoll_create1(flags) as Real))
}

/// Records that `fd` is registered in some set.
pub(crate) fn put(fd: c_int) {
    if let Some((word, bit)) = noted(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Word and bit that record a registration of `fd`.
fn noted(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let at = usize::try_from(fd).ok()?;
    Some((WATCHED.get(at / 64)?, 1 << (at % 64)))
}

/// Registrations of `fd`.
pub(crate) fn of(fd: c_int) -> Vec<EpollEntry> {
    if noted(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit == 0) {
        return Vec::new();
    }
    let known = SETS_LEN.load(Ordering::Acquire).min(SETS_MAX);
    let sets = SETS[..known].iter().map(|set| set.load(Ordering::Relaxed));
    let entries: Vec<EpollEntry> = sets.filter_map(|set| registration(set, fd)).collect();
    // The record belonged to an earlier descriptor of this number.
    if let (true, Some((word, bit))) = (entries.is_empty(), noted(fd)) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
    entries
}

/// Registration of `fd` in `set`.
fn registration(set: c_int, fd: c_int) -> Option<EpollEntry> {
    let info = text(&format!("/proc/self/fdinfo/{set}"))?;
    info.lines().find_map(|line| read(line, fd)).map(|(events, data)| EpollEntry { set, events, data })
}

/// Content of the file `path`, by direct system calls: the C library's are cancellation points, and
/// the standard library must not be unwound there.
fn text(path: &str) -> Option<String> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match retry_on_intr(|| rustix::io::read(&file, &mut piece[..])).ok()? {
            0 => return String::from_utf8(text).ok(),
            len => text.extend_from_slice(&piece[..len]),
        }
    }
}

/// Events and user data, if `line` of an epoll set's fdinfo is about `fd`.
fn read(line: &str, fd: c_int) -> Option<(EventFlags, u64)> {
    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
    if words.next()?.parse() != Ok(fd) {
        return None;
    }
    let events = words.next().filter(|word| *word == "events:").and(words.next())?;
    let data = words.next().filter(|word| *word == "data:").and(words.next())?;
    let events = EventFlags::from_bits_retain(u32::from_str_radix(events, 16).ok()?);
    Some((events, u64::from_str_radix(data, 16).ok()?))
}

/// Removes the registrations of `fd`, which is about to be replaced. Otherwise the sets would keep
/// reporting the old file as long as another process has it open.
pub(crate) fn leave(fd: c_int, watches: &[EpollEntry]) {
    for watch in watches {
        if let (Some(set), Some(it)) = (borrow(watch.set), borrow(fd)) {
            // Fails if it was removed meanwhile.
            let _ = epoll::delete(set, it);
        }
    }
}

/// Restores the registrations of `fd`, now another file.
pub(crate) fn again(fd: c_int, watches: &[EpollEntry]) {
    for watch in watches {
        if let (Some(set), Some(it)) = (borrow(watch.set), borrow(fd))
            // Fails if it was closed meanwhile.
            && epoll::add(set, it, EventData::new_u64(watch.data), watch.events).is_ok()
        {
            crate::epoll::note(watch.set, fd, watch.data, watch.events.bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_place_is_found_and_given_again() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        note(set.as_raw_fd());
        note(set.as_raw_fd());
        let (before, _kept) = UnixStream::pair().unwrap();
        let (after, mut other) = UnixStream::pair().unwrap();
        assert!(of(before.as_raw_fd()).is_empty());
        put(before.as_raw_fd());
        assert!(of(before.as_raw_fd()).is_empty(), "a stale record does no harm");
        put(before.as_raw_fd());
        let wanted = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&set, &before, EventData::new_u64(u64::MAX - 5), wanted).unwrap();
        let entries = of(before.as_raw_fd());
        assert_eq!(entries.len(), 1, "one set, recorded once");
        assert!(entries[0].events.contains(wanted));
        again(after.as_raw_fd(), &entries);
        other.write_all(b"x").unwrap();
        let mut events = Vec::with_capacity(4);
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        assert_eq!((events.len(), events[0].data.u64()), (1, u64::MAX - 5));
    }

    #[test]
    fn a_place_that_was_left_tells_nothing_of_a_copy() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        note(set.as_raw_fd());
        let (before, other) = UnixStream::pair().unwrap();
        let _copy = before.try_clone().unwrap();
        epoll::add(&set, &before, EventData::new_u64(7), EventFlags::IN).unwrap();
        put(before.as_raw_fd());
        leave(before.as_raw_fd(), &of(before.as_raw_fd()));
        drop((before, other));
        let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap();
        assert!(events.is_empty(), "no event for its end");
    }

    #[test]
    fn lines_of_other_descriptors_are_not_ours() {
        let line = "tfd:        5 events: 80000019 data:               ff  pos:0 ino:45998c sdev:9";
        let (events, data) = read(line, 5).unwrap();
        assert_eq!((events.bits(), data), (0x8000_0019, 255));
        for (line, fd) in [(line, 6), ("pos: 0", 5), ("tfd: 5", 5), ("tfd: 5 events: x data: 0", 5)] {
            assert!(read(line, fd).is_none(), "{line}");
        }
    }
}
