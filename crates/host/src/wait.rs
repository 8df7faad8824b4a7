//! Sleep until a descriptor is ready or another thread wakes the sleeper.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use net::device::Waker;
use queueing::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Wake-up from another thread; a sleep that begins later ends at once.
#[derive(Debug)]
pub struct EventFd {
    eventfd: Arc<OwnedFd>,
    /// Descriptor that prevents sleep while it is readable.
    watched: Option<OwnedFd>,
}

impl EventFd {
    /// An eventfd without a pending wake-up.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let rung = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok(Self { eventfd: rung, watched: None })
    }

    /// Ends the current sleep and prevents others while `fd` is readable.
    pub fn watch(&mut self, fd: OwnedFd) {
        self.watched = Some(fd);
    }

    /// Sleeps until `fd` is ready for `flags` or a wake-up, at most for `span`. An interrupted sleep
    /// returns early; the caller checks again.
    pub fn within(&self, fd: &impl AsFd, flags: PollFlags, span: Span) {
        const SECOND: u64 = 1_000_000_000;
        let ns = span.as_nanos();
        let timeout = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
        let rung = PollFd::new(&*self.eventfd, PollFlags::IN);
        let watched = self.watched.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds = [PollFd::new(fd, flags), rung.clone(), watched.clone().unwrap_or(rung)];
        let polled = if watched.is_some() { &mut fds[..] } else { &mut fds[..2] };
        let _ = poll(polled, Some(&timeout));
        if !fds[1].revents().is_empty() {
            // Any number of wake-ups ends one sleep.
            let _ = rustix::io::read(&*self.eventfd, &mut [0; 8]);
        }
    }

    /// Handle that wakes the sleeper.
    pub fn waker(&self) -> Waker {
        let eventfd = self.eventfd.clone();
        Arc::new(move || {
            let _ = rustix::io::write(&*eventfd, &1u64.to_ne_bytes());
        })
    }
}
