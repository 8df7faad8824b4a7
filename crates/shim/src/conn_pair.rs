//! The stack's end of the socket pair of a program's connection.
//!
//! It never blocks. The kernel buffers the bytes, bounds them, and reports when the last process
//! with the program's end has closed it or was killed.
//!
//! A program's socket is not writable during the handshake, and only the kernel can report that to
//! `poll` and `epoll`. Until then the program's end has the smallest send buffer, filled with
//! padding. When the connection is open the padding is removed and the buffer gets its size, for
//! which the socket server keeps a copy of the program's end for a while. If the handshake fails,
//! the stack's end closes with bytes unread, which the kernel reports as an error at the program's
//! end.

use std::cell::OnceCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::label_table::{FlowStats, LabelTable, PRIVATE};
use super::late_data::LateData;
use super::shm_send::ShmSendBuffers;

/// The stack's end of a connection's pair.
///
/// Bytes from the program are in its shared-memory send buffer, in the pair, or in both. In the
/// last case those in the send buffer were written first ([`shm_send`](super::shm_send)).
#[derive(Debug)]
pub struct ConnPair {
    end: OwnedFd,
    /// Number of the connection.
    id: u64,
    /// The epoll set in which the pair is registered.
    watch: Arc<OwnedFd>,
    /// Label table, read by programs.
    label_table: Arc<LabelTable>,
    /// Send buffers, written by programs.
    outboxes: Arc<ShmSendBuffers>,
    /// The pair may have bytes; and the end of the stream.
    arrived: bool,
    ends: bool,
    /// The program has closed its end with bytes unread, or its listener before accepting the
    /// connection.
    reset: bool,
    late: Arc<LateData>,
    /// End to which late data is written, once the program has shut down reading.
    late_end: OnceCell<OwnedFd>,
    /// Set during the handshake.
    filled: Option<Filled>,
}

/// Shared memory common to all connections of a socket server.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) label_table: Arc<LabelTable>,
    pub(super) outboxes: Arc<ShmSendBuffers>,
    pub(super) late: Arc<LateData>,
}

/// Padding in the pair during the handshake.
#[derive(Debug)]
struct Filled {
    /// Bytes of padding.
    filler: usize,
    /// Size of the program's send buffer after the handshake, in bytes.
    send_buffer: usize,
}

/// Edge-triggered: reported when more arrives.
pub(super) const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

/// Padding written per call; the smallest buffer takes no more.
const FILLER: usize = 8192;

/// Result of writing to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// Number of bytes written.
    Some(usize),
    /// The pair is full.
    Full,
    /// The program reads no more.
    Gone,
}

/// Result of reading from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramRead {
    /// Number of bytes read.
    Some(usize),
    /// Nothing to read now.
    Nothing,
    /// End of stream.
    End,
    /// The program closed its end with bytes unread, or its listener without accepting the
    /// connection.
    Reset,
}

impl ConnPair {
    pub(super) fn new(end: OwnedFd, id: u64, watch: Arc<OwnedFd>, shared: Shared) -> Self {
        let Shared { label_table, outboxes, late } = shared;
        label_table.begin(id);
        outboxes.begin(id);
        outboxes.open(id);
        Self {
            end,
            id,
            watch,
            label_table,
            outboxes,
            arrived: false,
            ends: false,
            reset: false,
            late,
            late_end: OnceCell::new(),
            filled: None,
        }
    }

    /// Publishes the priority `level`, 0..=7, of the data written next, and the program's private
    /// bytes.
    pub fn tell(&self, level: u8, private: &[u8; PRIVATE]) {
        self.label_table.tell(self.id, level, private);
    }

    /// Publishes statistics of the connection.
    pub fn flow(&self, flow: &FlowStats) {
        self.label_table.flow(self.id, flow);
    }

    /// Fills the pair of a connection that is being opened. `program_end` is the program's end;
    /// `send_buffer` is its size in bytes after the handshake, 0 for the default.
    ///
    /// # Errors
    /// An error of the system calls.
    pub(super) fn filled(mut self, program_end: &OwnedFd, send_buffer: u32) -> Result<Self, Errno> {
        self.outboxes.close(self.id);
        self.outboxes.accept(self.id);
        // The kernel reports twice the value set (socket(7)).
        let usual = socket_send_buffer_size(program_end)? / 2;
        let send_buffer = if send_buffer == 0 { usual } else { send_buffer as usize };
        set_socket_send_buffer_size(program_end, 1)?;
        let mut filler = 0;
        loop {
            match send(program_end, &[0; FILLER], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => filler += taken,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        self.filled = Some(Filled { filler, send_buffer });
        Ok(self)
    }

    /// Ends the handshake: the program may write. `program_end` is the program's end, if the server
    /// still has it.
    pub(super) fn open(&mut self, program_end: Option<&OwnedFd>) {
        let Some(Filled { mut filler, send_buffer }) = self.filled.take() else { return };
        let mut scrap = [0; FILLER];
        while filler > 0 {
            let len = filler.min(FILLER);
            match recv(&self.end, &mut scrap[..len], RecvFlags::DONTWAIT) {
                Ok((taken @ 1.., _)) => filler -= taken,
                _ => break,
            }
        }
        // Otherwise the buffer stays small, and the connection slow.
        if let Some(program_end) = program_end {
            let _ = set_socket_send_buffer_size(program_end, send_buffer);
        }
        self.outboxes.open(self.id);
    }

    /// True if the program wrote with `MSG_MORE` last; resets the flag.
    #[must_use]
    pub fn take_more(&self) -> bool {
        self.outboxes.take_more(self.id)
    }

    /// Writes `bytes` (not empty) to the program, as many as fit.
    pub fn write(&self, bytes: &[u8]) -> Wrote {
        let to = match self.late_end.get() {
            Some(_) if self.is_hung_up() => return Wrote::Gone,
            late => late.unwrap_or(&self.end),
        };
        match send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => Wrote::Some(taken),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Wrote::Full,
            Err(Errno::PIPE) if self.late_end.get().is_none() && !self.is_hung_up() => {
                match self.late.open(self.id) {
                    Some(end) if self.watch_late(&end) => {
                        let _ = self.late_end.set(end);
                        self.write(bytes)
                    }
                    _ => Wrote::Gone,
                }
            }
            Err(_) => Wrote::Gone,
        }
    }

    /// Registers `end` for [`want_room`](Self::want_room); false if the kernel has no memory.
    fn watch_late(&self, end: &OwnedFd) -> bool {
        epoll::add(&*self.watch, end, epoll::EventData::new_u64(self.id), epoll::EventFlags::ET).is_ok()
    }

    /// True if the program has closed its end, or shut down both sides.
    fn is_hung_up(&self) -> bool {
        let mut ends = [PollFd::new(&self.end, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ends, Some(&now)) != Ok(0)
    }

    /// Reports that the pair was readable: [`read`](Self::read) reads it, too, until it is empty,
    /// or to the end of the stream if it `ends`.
    pub fn arrived(&mut self, ends: bool) {
        self.arrived = true;
        self.ends |= ends;
    }

    /// Reads bytes from the program into `bytes` (not empty).
    pub fn read(&mut self, bytes: &mut [u8]) -> ProgramRead {
        if self.reset {
            return ProgramRead::Reset;
        }
        if !self.arrived {
            let len = self.outboxes.take(self.id, bytes);
            if len > 0 && len < bytes.len() {
                self.outboxes.relieve(self.id);
            }
            return some(len);
        }
        // Later writes take the pair, after the bytes in the send buffer.
        self.outboxes.close(self.id);
        let len = self.outboxes.take(self.id, bytes);
        let room = bytes.len() - len;
        if room == 0 {
            return ProgramRead::Some(len);
        }
        match recv(&self.end, &mut bytes[len..], RecvFlags::DONTWAIT) {
            // The connection ended in the accept queue of a closed listener: the kernel's TCP
            // resets it.
            Ok((0, _)) if len == 0 && !self.outboxes.is_accepted(self.id) => {
                self.reset = true;
                ProgramRead::Reset
            }
            Ok((0, _)) if len == 0 => ProgramRead::End,
            Ok((0, _)) => ProgramRead::Some(len),
            Ok((taken, _)) => {
                if taken < room && !self.ends {
                    self.found_all();
                }
                ProgramRead::Some(len + taken)
            }
            Err(Errno::AGAIN) => {
                self.found_all();
                some(len)
            }
            Err(Errno::INTR) => some(len),
            Err(_) => {
                self.reset = true;
                if len == 0 { ProgramRead::Reset } else { ProgramRead::Some(len) }
            }
        }
    }

    /// The pair is empty: epoll will report the next bytes.
    fn found_all(&mut self) {
        self.arrived = false;
        self.outboxes.open(self.id);
    }

    /// Ends the stream to the program.
    pub fn finish(&self) {
        // Fails only if the program is gone.
        let _ = shutdown(&self.end, Shutdown::Write);
    }

    /// True if the program has not read everything written (unix(7), SIOCOUTQ).
    pub fn is_unread(&self) -> bool {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the kernel writes one int to `bytes`.
        let done = unsafe { libc::ioctl(self.end.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        done == 0 && bytes > 0
    }

    /// Enables or disables reports of free space in the pair.
    pub fn want_room(&self, wanted: bool) {
        let (file, usual) = match self.late_end.get() {
            Some(late) => (late, epoll::EventFlags::ET),
            None => (&self.end, READABLE),
        };
        let flags = if wanted { usual | epoll::EventFlags::OUT } else { usual };
        // It has been registered since it was offered, or shut down.
        let _ = epoll::modify(&*self.watch, file, epoll::EventData::new_u64(self.id), flags);
    }
}

impl Drop for ConnPair {
    fn drop(&mut self) {
        // The send buffer is read no more: writers must get an error, from the pair.
        self.outboxes.end(self.id);
        self.label_table.end(self.id);
        if self.late_end.get().is_some() {
            self.late.end(self.id);
        }
    }
}

/// `len` bytes read.
fn some(len: usize) -> ProgramRead {
    if len == 0 { ProgramRead::Nothing } else { ProgramRead::Some(len) }
}
