//! Our end of the socket pair that is a program's connection.
//!
//! It never blocks. The kernel keeps the bytes, the bound of what waits, and
//! the count of who still has the other end: when the last process has closed
//! it, or was killed, this end is told.
//!
//! A program's socket is not writable while its handshake is under way, and
//! only the kernel can say so to `poll` and `epoll`. Until then its end has
//! the smallest buffer there is, filled with bytes that nobody wants; when the
//! connection is open they are taken away and the buffer gets its size, for which the
//! desk keeps the program's end once more, for a while. Where
//! the handshake fails, our end closes with bytes unread, which is an error at
//! the other.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::label_table::{Flow, LabelTable, PRIVATE};
use super::shm_send::ShmSendBuffers;

/// Our end.
///
/// What the program writes is in its outbox, in the pair, or in both: then the outbox has what
/// was written first ([`outbox`](super::outbox)).
#[derive(Debug)]
pub struct ConnPair {
    end: OwnedFd,
    /// As the desk knows it.
    id: u64,
    /// Where it is watched.
    watch: Arc<OwnedFd>,
    /// Where programs read how urgent it is.
    board: Arc<LabelTable>,
    /// Where they may have left what they write.
    outboxes: Arc<ShmSendBuffers>,
    /// There may be something in the pair; and its end is.
    arrived: bool,
    ends: bool,
    /// The program has closed its end with bytes unread, or its listener before it had accepted this.
    reset: bool,
    /// Its handshake is under way.
    filled: Option<Filled>,
}

/// Memory that all pipes of a desk share with programs.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) board: Arc<LabelTable>,
    pub(super) outboxes: Arc<ShmSendBuffers>,
}

/// What is in the pair while the handshake of its connection is under way.
#[derive(Debug)]
struct Filled {
    /// Bytes that nobody wants.
    filler: usize,
    /// What the size of the program's buffer is to be, in bytes.
    send_buffer: usize,
}

/// A connection is looked at when there is more than before.
pub(super) const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

/// Bytes that a program's end is filled with at once; the smallest buffer
/// takes no more.
const FILLER: usize = 8192;

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
    /// It closed its end with bytes unread, or its listener without having accepted it.
    Reset,
}

impl ConnPair {
    pub(super) fn new(end: OwnedFd, id: u64, watch: Arc<OwnedFd>, shared: Shared) -> Self {
        let Shared { board, outboxes } = shared;
        board.begin(id);
        outboxes.begin(id);
        outboxes.open(id);
        Self { end, id, watch, board, outboxes, arrived: false, ends: false, reset: false, filled: None }
    }

    /// What is handed over next is as urgent as `level`, 0..=7; and what the
    /// program's private bytes are now.
    pub fn tell(&self, level: u8, private: &[u8; PRIVATE]) {
        self.board.tell(self.id, level, private);
    }

    /// What the connection has been like.
    pub fn flow(&self, flow: &Flow) {
        self.board.flow(self.id, flow);
    }

    /// Our end of a connection that is being opened, `theirs` being the
    /// program's; `send_buffer` in bytes is the program's wish, 0 for none.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn filled(mut self, theirs: &OwnedFd, send_buffer: u32) -> Result<Self, Errno> {
        self.outboxes.close(self.id);
        self.outboxes.accept(self.id);
        // The kernel tells twice what it was told (socket(7)).
        let usual = socket_send_buffer_size(theirs)? / 2;
        let send_buffer = if send_buffer == 0 { usual } else { send_buffer as usize };
        set_socket_send_buffer_size(theirs, 1)?;
        let mut filler = 0;
        loop {
            match send(theirs, &[0; FILLER], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => filler += taken,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        self.filled = Some(Filled { filler, send_buffer });
        Ok(self)
    }

    /// The handshake is complete: the program may write. `theirs` is the program's end, where that is
    /// still to be had.
    pub(super) fn open(&mut self, theirs: Option<&OwnedFd>) {
        let Some(Filled { mut filler, send_buffer }) = self.filled.take() else { return };
        let mut scrap = [0; FILLER];
        while filler > 0 {
            let len = filler.min(FILLER);
            match recv(&self.end, &mut scrap[..len], RecvFlags::DONTWAIT) {
                Ok((taken @ 1.., _)) => filler -= taken,
                _ => break,
            }
        }
        // Without, or refused, it stays small, and the connection slow.
        if let Some(theirs) = theirs {
            let _ = set_socket_send_buffer_size(theirs, send_buffer);
        }
        self.outboxes.open(self.id);
    }

    /// True if the program has said that more follows what it wrote last (`MSG_MORE`); once.
    #[must_use]
    pub fn take_more(&self) -> bool {
        self.outboxes.take_more(self.id)
    }

    /// Hands `bytes` (not none) to the program, as many as there is room for.
    pub fn write(&self, bytes: &[u8]) -> Wrote {
        match send(&self.end, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => Wrote::Some(taken),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Wrote::Full,
            Err(_) => Wrote::Gone,
        }
    }

    /// The pair has been seen to be readable: [`read`](Self::read) looks there, too, until
    /// it has found all; where it `ends`, until it has found that.
    pub fn arrived(&mut self, ends: bool) {
        self.arrived = true;
        self.ends |= ends;
    }

    /// Takes what the program has written into `bytes` (not none).
    pub fn read(&mut self, bytes: &mut [u8]) -> Read {
        if self.reset {
            return Read::Reset;
        }
        if !self.arrived {
            let len = self.outboxes.take(self.id, bytes);
            if len > 0 && len < bytes.len() {
                self.outboxes.relieve(self.id);
            }
            return some(len);
        }
        // What is written from here on takes the pair, behind what is in the outbox.
        self.outboxes.close(self.id);
        let len = self.outboxes.take(self.id, bytes);
        let room = bytes.len() - len;
        if room == 0 {
            return Read::Some(len);
        }
        match recv(&self.end, &mut bytes[len..], RecvFlags::DONTWAIT) {
            // It ended with its listener, in the accept queue: the kernel resets such a connection.
            Ok((0, _)) if len == 0 && !self.outboxes.is_accepted(self.id) => {
                self.reset = true;
                Read::Reset
            }
            Ok((0, _)) if len == 0 => Read::End,
            Ok((0, _)) => Read::Some(len),
            Ok((taken, _)) => {
                if taken < room && !self.ends {
                    self.found_all();
                }
                Read::Some(len + taken)
            }
            Err(Errno::AGAIN) => {
                self.found_all();
                some(len)
            }
            Err(Errno::INTR) => some(len),
            Err(_) => {
                self.reset = true;
                if len == 0 { Read::Reset } else { Read::Some(len) }
            }
        }
    }

    /// The pair is empty: what comes next is told.
    fn found_all(&mut self) {
        self.arrived = false;
        self.outboxes.open(self.id);
    }

    /// Tells the program that after what it was handed nothing comes.
    pub fn finish(&self) {
        // A program that is gone need not be told.
        let _ = shutdown(&self.end, Shutdown::Write);
    }

    /// Whether the program has yet to read some of what it was handed (unix(7), SIOCOUTQ).
    pub fn is_unread(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is ours, and the kernel writes one int to where `bytes` is.
        let done = unsafe { libc::ioctl(self.end.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        done == 0 && bytes > 0
    }

    /// Whether room is worth telling, from now on.
    pub fn want_room(&self, wanted: bool) {
        let flags = if wanted { READABLE | epoll::EventFlags::OUT } else { READABLE };
        // It is watched since it was offered.
        let _ = epoll::modify(&*self.watch, &self.end, epoll::EventData::new_u64(self.id), flags);
    }
}

impl Drop for ConnPair {
    fn drop(&mut self) {
        // Nobody empties it any more: who writes is to hear of it, by the pair.
        self.outboxes.end(self.id);
        self.board.end(self.id);
    }
}

/// So many bytes.
fn some(len: usize) -> Read {
    if len == 0 { Read::Nothing } else { Read::Some(len) }
}
