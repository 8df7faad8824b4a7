//! What a program may know of its connections without asking: labels.
//!
//! One file of shared memory with a line for each connection: how urgent is
//! what it was handed last, and the private bytes that it shares with the
//! classifiers. The stack writes ([`LabelTable`]), programs read ([`LabelReader`]), and
//! the file's seal keeps it so. A connection's number tells its line (the
//! upper half) and whose the line is now (the lower half), so that a line that
//! is used again deceives nobody. Beyond [`LINES`] connections have no line.
//! Sockets for datagrams share lines of their own ([`of_mailbox`]).
//! Source: ADPS M5, M6, M7.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use queueing::CoreId;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::udp_table::made;
use crate::mapping::Mapping;

/// Private bytes that are the program's (ADPS M5; of 64 the first 16 are the classifiers').
pub const PRIVATE: usize = 48;
/// Connections that have a line.
pub const LINES: usize = 1 << 16;
/// Lines of sockets for datagrams; of two that fall together the newer has the line.
const MAILBOX_LINES: u64 = 1 << 12;
/// Where those begin in numbers, far above any connection's.
pub(super) const MAILBOX_FIRST: u64 = 1 << 29;
/// The level of what nobody has called urgent.
pub const LEVEL_LAST: u8 = 7;

/// Two cache lines of eight words: what is read with every event, and the path.
const WORD: usize = 8;
const LINE: usize = 16 * WORD;
/// The file: a line for all, then one for each connection, then those of sockets for datagrams.
const LEN: usize = LINE * (LINES + MAILBOX_LINES as usize + 1);
/// Where the file's own line says on which core the stack is: its number and one.
const CORE: usize = 1;
/// A line's first word: whose it is (upper half), whether it is anybody's, and its level.
const USED: u64 = 1 << 8;
/// The connection has ended; programs may still have its socket.
const ENDED: u64 = 1 << 9;
/// The socket for datagrams has a peer.
const CONNECTED: u64 = 1 << 10;
/// Odd while the private bytes change.
const TURN: usize = 7;
/// Where [`Flow`] starts.
const FLOW: usize = 8;

/// What a connection has been like, as of what came last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Smoothed round-trip time in nanoseconds; 0 before the first sample.
    pub rtt_ns: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent and acknowledged.
    pub sent: u64,
    /// Segments retransmitted of the latest thousands of segments sent, 0.0..=1.0.
    pub loss: f32,
}

/// The memory, from either side.
#[derive(Debug)]
struct Lines(Mapping);

impl Lines {
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        // SAFETY: `at` checks that it lies inside and is aligned; the memory
        // is mapped as long as this is, and both sides use it atomically.
        unsafe { self.0.at::<AtomicU64>(line * LINE + word * WORD).as_ref() }
    }

    /// The levels that connections have had, one bit each.
    fn levels(&self) -> &AtomicU64 {
        self.word(0, 0)
    }

    /// The line of connection `id`, or of what [`of_mailbox`] says, if it has one.
    fn of(id: u64) -> Option<usize> {
        let line = match id >> 32 {
            line @ MAILBOX_FIRST.. => LINES as u64 + line - MAILBOX_FIRST,
            line => Some(line).filter(|&line| line < LINES as u64)?,
        };
        usize::try_from(line + 1).ok().filter(|&line| line < LEN / LINE)
    }
}

/// The number by which the labels of socket `id` for datagrams are found.
#[must_use]
pub fn of_mailbox(id: u64) -> u64 {
    let nth = made(id);
    (MAILBOX_FIRST + nth % MAILBOX_LINES) << 32 | nth & u64::from(u32::MAX)
}

/// The stack's side.
#[derive(Debug)]
pub struct LabelTable {
    lines: Lines,
    file: OwnedFd,
}

impl LabelTable {
    /// A board without connections.
    ///
    /// # Errors
    /// When there is no descriptor or no memory left.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create("greenwave-labels", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LEN as u64)?;
        let lines = Lines(Mapping::shared(&file, LEN, true)?.without_dumps());
        // Nobody else can write, or make it shorter under those who read.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self { lines, file })
    }

    /// The file, for programs.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Connection `id` begins: not urgent, its private bytes all zero.
    pub fn begin(&self, id: u64) {
        let Some(line) = Lines::of(id) else { return };
        self.write_private(line, &[0; PRIVATE]);
        self.write_flow(line, &Flow::default());
        self.state(line).store(id << 32 | USED | u64::from(LEVEL_LAST), Ordering::Release);
    }

    /// What `id` is handed next is as urgent as `level`, 0..=7, and its private bytes are these.
    pub fn tell(&self, id: u64, level: u8, private: &[u8; PRIVATE]) {
        let Some(line) = Lines::of(id) else { return };
        let before = self.state(line).load(Ordering::Relaxed);
        let kept = if before >> 32 == id & u64::from(u32::MAX) { before & (ENDED | CONNECTED) } else { 0 };
        let state = id << 32 | USED | kept | u64::from(level.min(LEVEL_LAST));
        if before != state {
            self.state(line).store(state, Ordering::Release);
        }
        let bit = 1 << level.min(LEVEL_LAST);
        if self.lines.levels().load(Ordering::Relaxed) & bit == 0 {
            self.lines.levels().fetch_or(bit, Ordering::Release);
        }
        self.write_private(line, private);
    }

    /// Socket `id` for datagrams is connected, or not any more.
    pub fn connect(&self, id: u64, connected: bool) {
        let Some(line) = Lines::of(id).filter(|_| self.is_open(id)) else { return };
        match connected {
            true => self.state(line).fetch_or(CONNECTED, Ordering::Release),
            false => self.state(line).fetch_and(!CONNECTED, Ordering::Release),
        };
    }

    /// Connection `id` has ended.
    pub fn end(&self, id: u64) {
        if let Some(line) = Lines::of(id).filter(|_| self.is_open(id)) {
            self.state(line).fetch_or(ENDED, Ordering::Release);
        }
    }

    /// True if connection `id` has begun and not ended; unknown of one without a line, which counts as open.
    pub fn is_open(&self, id: u64) -> bool {
        let Some(line) = Lines::of(id) else { return true };
        let state = self.state(line).load(Ordering::Acquire);
        state >> 32 == id & u64::from(u32::MAX) && state & (USED | ENDED) == USED
    }

    /// The stack runs on `core`.
    pub fn on(&self, core: CoreId) {
        let word = self.lines.word(0, CORE);
        let here = u64::from(core.0) + 1;
        if word.load(Ordering::Relaxed) != here {
            word.store(here, Ordering::Relaxed);
        }
    }

    /// What connection `id` has been like.
    pub fn flow(&self, id: u64, flow: &Flow) {
        if let Some(line) = Lines::of(id) {
            self.write_flow(line, flow);
        }
    }

    /// Each figure by itself: they are read as they are, not as of one instant.
    fn write_flow(&self, line: usize, flow: &Flow) {
        let words = [flow.rtt_ns, flow.received, flow.sent, flow.loss.to_bits().into()];
        for (at, word) in words.into_iter().enumerate() {
            self.lines.word(line, FLOW + at).store(word, Ordering::Relaxed);
        }
    }

    fn state(&self, line: usize) -> &AtomicU64 {
        self.lines.word(line, 0)
    }

    fn write_private(&self, line: usize, private: &[u8; PRIVATE]) {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| private[at * WORD + byte]));
        let place = |at: usize| self.lines.word(line, at + 1);
        if (0..PRIVATE / WORD).all(|at| place(at).load(Ordering::Relaxed) == word(at)) {
            return;
        }
        let turn = self.lines.word(line, TURN);
        let before = turn.load(Ordering::Relaxed);
        turn.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        (0..PRIVATE / WORD).for_each(|at| place(at).store(word(at), Ordering::Relaxed));
        turn.store((before | 1).wrapping_add(1), Ordering::Release);
    }
}

/// A program's side.
#[derive(Debug)]
pub struct LabelReader(Lines);

impl LabelReader {
    /// What [`LabelTable::file`] holds.
    ///
    /// # Errors
    /// When it is no such file, or there is no memory left.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        if rustix::fs::fstat(file)?.st_size != LEN as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self(Lines(Mapping::modest(file, 0, LEN, false)?)))
    }

    /// Whether connections have differed in urgency so far; until then there
    /// is nothing to order.
    #[must_use]
    pub fn differ(&self) -> bool {
        self.0.levels().load(Ordering::Relaxed).count_ones() > 1
    }

    /// On which core the stack has run last, once it has.
    #[must_use]
    pub fn core(&self) -> Option<CoreId> {
        let core = self.0.word(0, CORE).load(Ordering::Relaxed).checked_sub(1)?;
        u16::try_from(core).ok().map(CoreId)
    }

    /// How urgent is what connection `id` was handed last, 0..=7; `None` when
    /// it has no line, or is gone.
    #[must_use]
    pub fn level(&self, id: u64) -> Option<u8> {
        let state = self.0.word(Lines::of(id)?, 0).load(Ordering::Acquire);
        let is_its = state >> 32 == id & u64::from(u32::MAX) && state & USED != 0;
        is_its.then_some((state & 0xff) as u8)
    }

    /// True if socket `id` for datagrams is connected; `None` as for [`level`](Self::level).
    #[must_use]
    pub fn is_connected(&self, id: u64) -> Option<bool> {
        self.level(id)?;
        Some(self.0.word(Lines::of(id)?, 0).load(Ordering::Acquire) & CONNECTED != 0)
    }

    /// What it has been like; `None` as for [`level`](Self::level).
    #[must_use]
    pub fn flow(&self, id: u64) -> Option<Flow> {
        let line = Lines::of(id)?;
        let word = |at: usize| self.0.word(line, FLOW + at).load(Ordering::Relaxed);
        let (rtt_ns, received, sent) = (word(0), word(1), word(2));
        let flow = Flow { rtt_ns, received, sent, loss: f32::from_bits(word(3) as u32) };
        fence(Ordering::Acquire);
        self.level(id).map(|_| flow)
    }

    /// Its private bytes; `None` as for [`level`](Self::level), and while they
    /// change each time one looks.
    #[must_use]
    pub fn private(&self, id: u64) -> Option<[u8; PRIVATE]> {
        const LOOKS: u32 = 1000;
        let line = Lines::of(id)?;
        for _ in 0..LOOKS {
            let before = self.0.word(line, TURN).load(Ordering::Acquire);
            let mut private = [0; PRIVATE];
            for (at, bytes) in private.chunks_exact_mut(WORD).enumerate() {
                bytes.copy_from_slice(&self.0.word(line, at + 1).load(Ordering::Relaxed).to_ne_bytes());
            }
            fence(Ordering::Acquire);
            if before & 1 == 0 && self.0.word(line, TURN).load(Ordering::Relaxed) == before {
                return self.level(id).map(|_| private);
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::udp_table::UdpTable;
    use super::*;

    /// Connection in line `line` that is its `nth`.
    fn id(line: u64, nth: u64) -> u64 {
        line << 32 | nth
    }

    #[test]
    fn programs_read_on_which_core_the_stack_is() {
        let board = LabelTable::new().unwrap();
        let labels = LabelReader::map(board.file()).unwrap();
        assert_eq!(labels.core(), None);
        board.begin(id(0, 1));
        for core in [3, 0, u16::MAX] {
            board.on(CoreId(core));
            assert_eq!((labels.core(), labels.level(id(0, 1))), (Some(CoreId(core)), Some(7)));
        }
    }

    #[test]
    fn programs_read_what_the_stack_tells_of_their_connections() {
        let board = LabelTable::new().unwrap();
        let labels = LabelReader::map(board.file()).unwrap();
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (None, None));
        board.begin(id(3, 1));
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (Some(7), Some([0; PRIVATE])));
        let private: [u8; PRIVATE] = std::array::from_fn(|at| at as u8);
        board.tell(id(3, 1), 2, &private);
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (Some(2), Some(private)));
        assert!(!labels.differ(), "one level so far");
        let flow = Flow { rtt_ns: 5, received: 6, sent: 7, loss: 0.5 };
        assert_eq!(labels.flow(id(3, 1)), Some(Flow::default()));
        board.flow(id(3, 1), &flow);
        assert_eq!((labels.flow(id(3, 1)), labels.flow(id(3, 2))), (Some(flow), None));
        board.tell(id(3, 1), 5, &private);
        assert!(labels.differ());
    }

    #[test]
    fn a_line_that_is_used_again_tells_nothing_of_who_had_it() {
        let board = LabelTable::new().unwrap();
        let labels = LabelReader::map(board.file()).unwrap();
        board.begin(id(0, 1));
        board.tell(id(0, 1), 0, &[1; PRIVATE]);
        board.begin(id(0, 2));
        assert_eq!((labels.level(id(0, 1)), labels.private(id(0, 1))), (None, None));
        assert_eq!((labels.level(id(0, 2)), labels.private(id(0, 2))), (Some(7), Some([0; PRIVATE])));
        let beyond = id(LINES as u64, 1);
        board.begin(beyond);
        board.tell(beyond, 0, &[1; PRIVATE]);
        assert_eq!(labels.level(beyond), None);
    }

    #[test]
    fn sockets_for_datagrams_have_lines_of_their_own() {
        let board = LabelTable::new().unwrap();
        let labels = LabelReader::map(board.file()).unwrap();
        let mut mailboxes = UdpTable::default();
        let ids: Vec<u64> = (0..=MAILBOX_LINES).map(|_| of_mailbox(mailboxes.number(53))).collect();
        let (first, second, last) = (ids[0], ids[1], ids[MAILBOX_LINES as usize]);
        for (id, level) in [(first, 1), (second, 2), (id(LINES as u64 - 1, 1), 3)] {
            board.begin(id);
            board.tell(id, level, &[0; PRIVATE]);
        }
        assert_eq!((labels.level(first), labels.level(second)), (Some(1), Some(2)));
        assert_eq!(labels.level(id(LINES as u64 - 1, 1)), Some(3));
        board.begin(last);
        assert_eq!((labels.level(first), labels.level(last)), (None, Some(7)), "they fall together");
        assert_eq!((labels.is_connected(first), labels.is_connected(second)), (None, Some(false)));
        board.connect(second, true);
        board.tell(second, 5, &[0; PRIVATE]);
        assert_eq!((labels.is_connected(second), labels.level(second)), (Some(true), Some(5)));
        board.connect(second, false);
        assert_eq!((labels.is_connected(second), labels.level(second)), (Some(false), Some(5)));
        assert!(ids.iter().all(|id| id >> 62 == 0));
    }

    #[test]
    fn only_the_stack_writes() {
        let board = LabelTable::new().unwrap();
        assert!(Mapping::shared(board.file(), LEN, true).is_err());
        assert!(ftruncate(board.file(), 0).is_err());
        let other = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        assert!(LabelReader::map(other.as_fd()).is_err());
    }
}
