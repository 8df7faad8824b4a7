//! epoll with events in label order: epoll_ctl is recorded, and the events that epoll_wait returns
//! are reordered ([`queueing::event_order`]).
//!
//! Nothing is done while no two sockets differ in priority, so without a policy a program waits as
//! on the kernel. poll and select are not reordered: they fill the program's own list.
//!
//! Before it waits, a thread on the stack's core yields; otherwise received packets and the
//! thread's own responses would wait until its time slice ends ([`YieldPolicy`]).

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use host::{Monotonic, affinity};
use libc::{epoll_event, sigset_t, timespec};
use queueing::event_order::{BATCH, Rank, ReorderResult, reorder};
use queueing::{Clock, YieldPolicy};
use rustix::io::Errno;
use shim::LabelReader;

use crate::epoll_index::{EpollIndex, Hint};
use crate::real_fn::next;
use crate::{epoll_registry, errors, fail, label, memory, ours, shim_client};

/// Connections by epoll registration: capacity for three times a process's descriptors.
static HINTS: EpollIndex<16_384> = EpollIndex::new();
/// Consecutive calls that held back less urgent events, by the set's number.
static LEFT: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];

/// epoll_ctl(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    if op == libc::EPOLL_CTL_ADD {
        epoll_registry::put(fd);
    }
    let wanted = match op {
        libc::EPOLL_CTL_DEL => None,
        // SAFETY: the program's event.
        _ => shim_client().and_then(|_| unsafe { memory::read(event) }.ok()),
    };
    let Some(wanted) = wanted else { return next!(epoll_ctl(epoll, op, fd, event) as Real) };
    let (word, by_level) = (wanted.u64, is_by_level(wanted.events));
    let before = if op == libc::EPOLL_CTL_MOD { HINTS.get(epoll, word) } else { None };
    let id = before.map(|hint| hint.id).or_else(|| number(fd));
    // An event that is edge-triggered or one-shot must never count as level-triggered, not even for
    // a moment.
    let early = Hint { id: id.unwrap_or_default(), by_level: false };
    HINTS.note(epoll, word, id.map(|_| early));
    let done = next!(epoll_ctl(epoll, op, fd, event) as Real);
    if done == 0 && by_level && id.is_some() {
        HINTS.note(epoll, word, Some(Hint { by_level, ..early }));
    }
    done
}

/// Records that `fd`, by now a stack socket, is registered with `word` and `events` in the set
/// `epoll`.
pub(crate) fn note(epoll: c_int, fd: c_int, word: u64, events: u32) {
    keep(epoll, word, number(fd), events);
}

/// Records that `word` in the set `epoll`, registered with `events`, belongs to number `id`.
fn keep(epoll: c_int, word: u64, id: Option<u64>, events: u32) {
    HINTS.note(epoll, word, id.map(|id| Hint { id, by_level: is_by_level(events) }));
}

/// True if the kernel returns an event of `events` again as long as the descriptor is ready.
fn is_by_level(events: u32) -> bool {
    events & (libc::EPOLLET | libc::EPOLLONESHOT) as u32 == 0
}

/// Number of `fd` in the label table, if it is a connection or a UDP socket on the stack.
fn number(fd: c_int) -> Option<u64> {
    let id = label::number(&ours(fd)?)?;
    label::all().map(|_| id)
}

/// Waits by `call`, whose argument is the maximum number of events.
///
/// # Safety
/// `call` writes as many events to `events` as it returns, at most `max`.
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    call: impl FnOnce(c_int) -> c_int,
) -> c_int {
    let Some(labels) = label::mapped() else { return call(max) };
    let labels = Some(labels).filter(|labels| labels.differ());
    labels.inspect(|labels| give_way(labels));
    let found = call(if labels.is_some() { max.min(BATCH as c_int) } else { max });
    let Some(len) = usize::try_from(found).ok().filter(|len| *len > 0) else { return found };
    if !events.is_aligned() {
        return found;
    }
    // SAFETY: the caller's `call` has written so many.
    let events = unsafe { std::slice::from_raw_parts_mut(events, len) };
    errors::epolled(events, |event| HINTS.get(epoll, event.u64).map(|hint| hint.id));
    let Some(labels) = labels.filter(|_| len > 1) else { return found };
    let in_a_row = &LEFT[epoll as usize % LEFT.len()];
    let rank = |event: &epoll_event| {
        let Hint { id, by_level } = HINTS.get(epoll, event.u64)?;
        labels.level(id).map(|level| Rank { level, can_wait: by_level })
    };
    let ReorderResult { retained, left } = reorder(events, rank, in_a_row.load(Ordering::Relaxed));
    in_a_row.store(left, Ordering::Relaxed);
    retained as c_int
}

/// Yields the core shared with the stack, if a yield is due.
fn give_way(labels: &LabelReader) {
    thread_local! { static YIELDING: Cell<YieldPolicy> = const { Cell::new(YieldPolicy::new()) } }
    if labels.core().is_none_or(|core| affinity::current_core() != Some(core)) {
        return;
    }
    // A thread that is ending need not yield.
    let _ = YIELDING.try_with(|cell| {
        let mut yielding = cell.get();
        if yielding.is_due() {
            let clock = Monotonic::new();
            let before = clock.now();
            std::thread::yield_now();
            yielding.on_return(clock.now().since(before));
        }
        cell.set(yielding);
    });
}

/// epoll_wait(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    ms: c_int,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    let call = |max| next!(epoll_wait(epoll, events, max, ms) as Real);
    // SAFETY: the program's arguments; `call` is the C library's own.
    unsafe { wait(epoll, events, max, call) }
}

/// epoll_pwait(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    let call = |max| next!(epoll_pwait(epoll, events, max, ms, mask) as Real);
    // SAFETY: the program's arguments; `call` is the C library's own.
    unsafe { wait(epoll, events, max, call) }
}

/// epoll_pwait2(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        *const timespec,
        *const sigset_t,
    ) -> c_int;
    let call = |max| next!(epoll_pwait2(epoll, events, max, timeout, mask) as Real, or fail(Errno::NOSYS));
    // SAFETY: the program's arguments; `call` is the C library's own.
    unsafe { wait(epoll, events, max, call) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_from_before_a_socket_was_ours_is_known_by_its_events() {
        // No real descriptor, so no other test uses the set.
        let (set, word) = (c_int::MAX, 77);
        let flags = [(0, true), (libc::EPOLLET, false), (libc::EPOLLONESHOT, false)];
        for (flag, by_level) in flags {
            keep(set, word, Some(8), (libc::EPOLLIN | flag) as u32);
            assert_eq!(HINTS.get(set, word), Some(Hint { id: 8, by_level }), "{flag:#x}");
        }
        note(set, -1, word, libc::EPOLLIN as u32);
        assert_eq!(HINTS.get(set, word), None, "no stack socket, no entry");
    }
}
