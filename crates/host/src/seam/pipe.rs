//! Our end of the socket pair that is a program's connection.
//!
//! It never blocks. The kernel keeps the bytes, the bound of what waits, and
//! the count of who still has the other end: when the last process has closed
//! it, or was killed, this end is told.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::labels::{Board, PRIVATE};

/// Our end.
#[derive(Debug)]
pub struct Pipe {
    end: OwnedFd,
    /// As the desk knows it.
    id: u64,
    /// Where it is watched.
    watch: Arc<OwnedFd>,
    /// Where programs read how urgent it is.
    board: Arc<Board>,
}

/// A connection is looked at when there is more than before.
pub(super) const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

/// What became of bytes for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The first so many are with the program.
    Some(usize),
    /// There is no room now.
    Full,
    /// The program reads no more.
    Gone,
}

/// What the program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes.
    Some(usize),
    /// Nothing now.
    Nothing,
    /// And it will write nothing more.
    End,
    /// It closed its end with bytes unread.
    Reset,
}

impl Pipe {
    pub(super) fn new(end: OwnedFd, id: u64, watch: Arc<OwnedFd>, board: Arc<Board>) -> Self {
        board.begin(id);
        Self { end, id, watch, board }
    }

    /// What is handed over next is as urgent as `level`, 0..=7; and what the
    /// program's private bytes are now.
    pub fn tell(&self, level: u8, private: &[u8; PRIVATE]) {
        self.board.tell(self.id, level, private);
    }

    /// Hands `bytes` (not none) to the program, as many as there is room for.
    pub fn write(&self, bytes: &[u8]) -> Wrote {
        match send(&self.end, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => Wrote::Some(taken),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Wrote::Full,
            Err(_) => Wrote::Gone,
        }
    }

    /// Takes what the program has written into `bytes` (not none).
    pub fn read(&self, bytes: &mut [u8]) -> Read {
        match recv(&self.end, bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::End,
            Ok((taken, _)) => Read::Some(taken),
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            Err(_) => Read::Reset,
        }
    }

    /// Tells the program that after what it was handed nothing comes.
    pub fn finish(&self) {
        // A program that is gone need not be told.
        let _ = shutdown(&self.end, Shutdown::Write);
    }

    /// Whether room is worth telling, from now on.
    pub fn want_room(&self, wanted: bool) {
        let flags = if wanted { READABLE | epoll::EventFlags::OUT } else { READABLE };
        // It is watched since it was offered.
        let _ = epoll::modify(&*self.watch, &self.end, epoll::EventData::new_u64(self.id), flags);
    }
}
