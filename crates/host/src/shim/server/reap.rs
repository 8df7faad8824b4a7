//! Who has left since the desk last looked.
//!
//! A program that closes a socket may give its address to the next one at once. What
//! it asks for then may be read in the same round as an earlier request, after
//! the desk has looked who is gone: so it looks again where the address would be.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::{SocketEvent, SocketServer};

impl SocketServer {
    /// Lets go of what nobody has any more at `port`.
    pub(super) fn notice_leavers(&mut self, port: u16, into: &mut Vec<SocketEvent>) {
        let listeners = self.listeners.at(port).map(|listener| (listener.id, &listener.end));
        let mailboxes = self.mailboxes.at(port).map(|mailbox| (mailbox.id, &mailbox.end));
        let left = |(id, end)| Some((id, left(end)?));
        let leavers: Vec<_> = listeners.chain(mailboxes).filter_map(left).collect();
        for (id, flags) in leavers {
            self.on_event(id, flags, into);
        }
    }
}

/// What `epoll` would say of an end whose other end is closed; `None` where that is open.
fn left(end: &OwnedFd) -> Option<epoll::EventFlags> {
    let mut ends = [PollFd::new(end, PollFlags::RDHUP)];
    poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
    // Both have the same bits.
    let flags = epoll::EventFlags::from_bits_truncate(i64::from(ends[0].revents().bits()) as u32);
    (!flags.is_empty()).then_some(flags)
}
