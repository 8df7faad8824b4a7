//! Removal of closed sockets before a request for their address.
//!
//! A program may close a socket and bind its address again at once. Both may happen in one poll,
//! after epoll events were read, so sockets on the requested port are checked again.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::{SocketEvent, SocketServer};

impl SocketServer {
    /// Removes sockets on `port` that are closed.
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

/// epoll flags of an end whose peer is closed; `None` if it is open.
fn left(end: &OwnedFd) -> Option<epoll::EventFlags> {
    let mut ends = [PollFd::new(end, PollFlags::RDHUP)];
    poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
    // poll and epoll use the same bits.
    let flags = epoll::EventFlags::from_bits_truncate(i64::from(ends[0].revents().bits()) as u32);
    (!flags.is_empty()).then_some(flags)
}
