//! Sleeping until a descriptor is ready.

use std::os::fd::AsFd;

use queueing::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether `fd` becomes ready for `flags` within `span`. An interrupted sleep
/// is a short one; the caller looks again.
pub(crate) fn within(fd: &impl AsFd, flags: PollFlags, span: Span) -> bool {
    const SECOND: u64 = 1_000_000_000;
    let ns = span.as_nanos();
    let timeout = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
    poll(&mut [PollFd::new(fd, flags)], Some(&timeout)).is_ok_and(|n| n > 0)
}
