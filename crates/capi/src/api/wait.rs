//! Event wait by priority: returns the most urgent events of an epoll set first, or only those of
//! some levels (ADPS M7).
//!
//! The descriptor and its mask are in epoll's user data, so no table is kept. An event of an
//! unwanted level is left to the kernel: for the rest of the wait its descriptor is edge-triggered.
//! It is reported once more and then only when more data arrives, which may raise its priority.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_event};
use rustix::io::Errno;

use crate::real_fn::next;
use crate::{fail, label, ours};

/// An event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GreenwaveEvent {
    /// The descriptor that was watched.
    pub fd: c_int,
    /// Event mask, as in epoll.
    pub events: u32,
    /// 0 (most urgent) to 7; -1 for a descriptor that is no connection on the stack. Events with -1
    /// come first.
    pub priority: c_int,
}

/// Number of events fetched by one epoll_wait.
const BATCH: usize = 256;

type Control = unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
type Wait = unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;

fn control(epfd: c_int, op: c_int, fd: c_int, events: u32) -> c_int {
    let word = u64::from(events) << 32 | u64::from(fd.cast_unsigned());
    let mut event = epoll_event { events, u64: word };
    let event: *mut epoll_event = &raw mut event;
    next!(epoll_ctl(epfd, op, fd, event) as Control)
}

/// Registers `fd` for `events` (EPOLLIN and the like, level-triggered) in the epoll set `epfd`,
/// replacing an earlier registration; 0 for `events` removes it. Returns 0, or -1 and errno.
#[unsafe(no_mangle)]
pub extern "C" fn greenwave_watch(epfd: c_int, fd: c_int, events: u32) -> c_int {
    const FLAGS: i32 = libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE;
    if events & FLAGS.cast_unsigned() != 0 {
        return fail(Errno::INVAL);
    }
    if events == 0 {
        return control(epfd, EPOLL_CTL_DEL, fd, 0);
    }
    match control(epfd, EPOLL_CTL_MOD, fd, events) {
        0 => 0,
        _ => control(epfd, EPOLL_CTL_ADD, fd, events),
    }
}

/// Waits as epoll_wait for events that `greenwave_watch` registered in `epfd`, and returns up to
/// `max` of them, the most urgent first. Of connections, only those are returned whose priority has
/// its bit in `levels` (1 << priority; 0xff for all). Returns their number, 0 after `timeout`
/// milliseconds (-1: no timeout), or -1 and errno.
///
/// # Safety
/// `events` has space for `max` events.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn greenwave_wait(
    epfd: c_int,
    events: *mut GreenwaveEvent,
    max: c_int,
    timeout: c_int,
    levels: u32,
) -> c_int {
    let Some(room) = usize::try_from(max).ok().filter(|room| *room > 0) else { return fail(Errno::INVAL) };
    if events.is_null() {
        return fail(Errno::FAULT);
    }
    let end = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut batch = [epoll_event { events: 0, u64: 0 }; BATCH];
    let mut passed_over = PassedOver { epfd, masks: BTreeMap::new() };
    let outcome = loop {
        let left = end.map_or(-1, |end| {
            let left = end.saturating_duration_since(Instant::now());
            c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
        });
        let batch_len = BATCH as c_int;
        let ready = next!(epoll_wait(epfd, batch.as_mut_ptr(), batch_len, left) as Wait);
        let Ok(count) = usize::try_from(ready) else { break ready };
        let mut wanted: Vec<GreenwaveEvent> = Vec::new();
        for epoll_event { events, u64: word } in batch.iter().take(count).copied() {
            let (fd, mask) = (word as u32, (word >> 32) as u32);
            let fd = fd.cast_signed();
            let priority = priority(fd);
            if priority < 0 || levels >> priority & 1 == 1 {
                wanted.push(GreenwaveEvent { fd, events, priority });
            } else if passed_over.masks.insert(fd, mask).is_none() {
                watch_for_more(epfd, fd, mask);
            }
        }
        if !wanted.is_empty() {
            wanted.sort_by_key(|event| event.priority);
            let taken = wanted.len().min(room);
            // SAFETY: the caller provides space for `max` events, of which these are the first.
            unsafe { std::ptr::copy_nonoverlapping(wanted.as_ptr(), events, taken) };
            break taken as c_int;
        }
        if count == 0 {
            break 0;
        }
    };
    let errno = std::io::Error::last_os_error().raw_os_error();
    drop(passed_over);
    match errno {
        Some(errno) if outcome < 0 => fail(Errno::from_raw_os_error(errno)),
        _ => outcome,
    }
}

/// Descriptors made edge-triggered, with their masks. Drop restores them, also when the thread is
/// cancelled.
struct PassedOver {
    epfd: c_int,
    masks: BTreeMap<c_int, u32>,
}

impl Drop for PassedOver {
    fn drop(&mut self) {
        // A descriptor closed meanwhile is in no set any more.
        self.masks.iter().for_each(|(&fd, &mask)| drop_result(control(self.epfd, EPOLL_CTL_MOD, fd, mask)));
    }
}

/// Makes `fd` edge-triggered: one more event, then one when more data arrives. The user data stays.
fn watch_for_more(epfd: c_int, fd: c_int, mask: u32) {
    let word = u64::from(mask) << 32 | u64::from(fd.cast_unsigned());
    let mut event = epoll_event { events: mask | libc::EPOLLET.cast_unsigned(), u64: word };
    let event: *mut epoll_event = &raw mut event;
    drop_result(next!(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, event) as Control));
}

fn drop_result(_: c_int) {}

/// Priority of `fd`; -1 if it is no connection on the stack.
fn priority(fd: c_int) -> c_int {
    let name = ours(fd).filter(label::has);
    let level = name.and_then(|name| label::all()?.level(name.id));
    level.map_or(-1, c_int::from)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use rustix::event::epoll;

    use super::*;

    #[test]
    fn what_is_no_connection_on_the_stack_has_no_priority_and_every_level_waits_for_it() {
        const IN: u32 = libc::EPOLLIN.cast_unsigned();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        let (set, fd) = (set.as_raw_fd(), far.as_raw_fd());
        let wait = |timeout| {
            let mut events = [GreenwaveEvent::default(); 4];
            // SAFETY: there is space for four events.
            let count = unsafe { greenwave_wait(set, events.as_mut_ptr(), 4, timeout, 1) };
            events.iter().take(count as usize).map(|e| (e.fd, e.events, e.priority)).collect::<Vec<_>>()
        };
        assert_eq!(greenwave_watch(set, fd, IN | libc::EPOLLET.cast_unsigned()), -1);
        assert_eq!(greenwave_watch(set, fd, IN), 0);
        assert_eq!(wait(0), []);
        near.write_all(b"x").unwrap();
        assert_eq!(wait(-1), [(fd, IN, -1)]);
        assert_eq!(greenwave_watch(set, fd, IN | libc::EPOLLOUT.cast_unsigned()), 0);
        assert_eq!(wait(0).len(), 1);
        assert_eq!(greenwave_watch(set, fd, 0), 0);
        assert_eq!(wait(0), []);
        // SAFETY: with `max` 0 it writes nothing.
        assert_eq!(unsafe { greenwave_wait(set, std::ptr::null_mut(), 0, 0, 1) }, -1);
    }
}
