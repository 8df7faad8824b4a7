//! Label table: shared memory in which programs read the labels of their connections without a
//! request.
//!
//! It is one file with a record per connection: the priority of the data received last, and the
//! private bytes shared with the classifiers. The stack writes ([`LabelTable`]), programs read
//! ([`LabelReader`]), and the file's seals enforce it. The upper half of a connection's number is
//! its record's index, the lower half its generation, so a reused record is not mistaken.
//! Connections beyond [`LINES`] have no record. UDP sockets share records of their own
//! ([`of_mailbox`]). Source: ADPS M5, M6, M7.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use queueing::CoreId;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::udp_table::made;
use host::mapping::Mapping;

/// Private bytes of the program (ADPS M5; of 64 the first 16 are the classifiers').
pub const PRIVATE: usize = 48;
/// Number of connections with a record.
pub const LINES: usize = 1 << 16;
/// Number of records of UDP sockets; the newer of two that collide has the record.
const MAILBOX_LINES: u64 = 1 << 12;
/// First index of a UDP socket's record in numbers, far above any connection's.
pub(super) const MAILBOX_FIRST: u64 = 1 << 29;
/// Level of data without a label.
pub const LEVEL_LAST: u8 = 7;

/// Record: two cache lines of eight words, one read with every event, one for the path.
const WORD: usize = 8;
const LINE: usize = 16 * WORD;
/// File: a record for the table, one for each connection, then those of UDP sockets.
const LEN: usize = LINE * (LINES + MAILBOX_LINES as usize + 1);
/// Word of the table's record: the stack's core, plus one.
const CORE: usize = 1;
/// First word of a record: generation (upper half), this flag if it is in use, and its level.
const USED: u64 = 1 << 8;
/// The connection has ended; programs may still have its socket.
const ENDED: u64 = 1 << 9;
/// The UDP socket has a peer.
const CONNECTED: u64 = 1 << 10;
/// Sequence number of the private bytes: odd during a write (seqlock).
const TURN: usize = 7;
/// First word of [`FlowStats`].
const FLOW: usize = 8;

/// Statistics of a connection as of its last segment received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStats {
    /// Smoothed round-trip time in nanoseconds; 0 before the first sample.
    pub rtt_ns: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent and acknowledged.
    pub sent: u64,
    /// Segments retransmitted of the latest thousands of segments sent, 0.0..=1.0.
    pub loss: f32,
}

/// Mapped file, on either side.
#[derive(Debug)]
struct Lines(Mapping);

impl Lines {
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        // SAFETY: `at` checks bounds and alignment; the memory is mapped as long as `self`, and
        // both sides access it atomically.
        unsafe { self.0.at::<AtomicU64>(line * LINE + word * WORD).as_ref() }
    }

    /// Levels that any connection has had, one bit each.
    fn levels(&self) -> &AtomicU64 {
        self.word(0, 0)
    }

    /// Record of connection `id`, or of an [`of_mailbox`] number, if it has one.
    fn of(id: u64) -> Option<usize> {
        let line = match id >> 32 {
            line @ MAILBOX_FIRST.. => LINES as u64 + line - MAILBOX_FIRST,
            line => Some(line).filter(|&line| line < LINES as u64)?,
        };
        usize::try_from(line + 1).ok().filter(|&line| line < LEN / LINE)
    }
}

/// Number of UDP socket `id` in the label table.
#[must_use]
pub fn of_mailbox(id: u64) -> u64 {
    let nth = made(id);
    (MAILBOX_FIRST + nth % MAILBOX_LINES) << 32 | nth & u64::from(u32::MAX)
}

/// Writer, in the stack.
#[derive(Debug)]
pub struct LabelTable {
    lines: Lines,
    file: OwnedFd,
}

impl LabelTable {
    /// Creates an empty table.
    ///
    /// # Errors
    /// No descriptor or no memory left.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create("greenwave-labels", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LEN as u64)?;
        let lines = Lines(Mapping::shared(&file, LEN, true)?.without_dumps());
        // No other process can write, or truncate the file under its readers.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self { lines, file })
    }

    /// File for programs.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Begins the record of connection `id`: lowest priority, private bytes zero.
    pub fn begin(&self, id: u64) {
        let Some(line) = Lines::of(id) else { return };
        self.write_private(line, &[0; PRIVATE]);
        self.write_flow(line, &FlowStats::default());
        self.state(line).store(id << 32 | USED | u64::from(LEVEL_LAST), Ordering::Release);
    }

    /// Sets the level, 0..=7, of data that `id` receives next, and its private bytes.
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

    /// Sets the connected flag of UDP socket `id`.
    pub fn connect(&self, id: u64, connected: bool) {
        let Some(line) = Lines::of(id).filter(|_| self.is_open(id)) else { return };
        match connected {
            true => self.state(line).fetch_or(CONNECTED, Ordering::Release),
            false => self.state(line).fetch_and(!CONNECTED, Ordering::Release),
        };
    }

    /// Marks connection `id` as ended.
    pub fn end(&self, id: u64) {
        if let Some(line) = Lines::of(id).filter(|_| self.is_open(id)) {
            self.state(line).fetch_or(ENDED, Ordering::Release);
        }
    }

    /// True if connection `id` has begun and not ended. A connection without a record counts as
    /// open.
    pub fn is_open(&self, id: u64) -> bool {
        let Some(line) = Lines::of(id) else { return true };
        let state = self.state(line).load(Ordering::Acquire);
        state >> 32 == id & u64::from(u32::MAX) && state & (USED | ENDED) == USED
    }

    /// Publishes the stack's core.
    pub fn on(&self, core: CoreId) {
        let word = self.lines.word(0, CORE);
        let value = u64::from(core.0) + 1;
        if word.load(Ordering::Relaxed) != value {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Publishes statistics of connection `id`.
    pub fn flow(&self, id: u64, flow: &FlowStats) {
        if let Some(line) = Lines::of(id) {
            self.write_flow(line, flow);
        }
    }

    /// Each word is written by itself: readers may see words of different updates.
    fn write_flow(&self, line: usize, flow: &FlowStats) {
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
        let word_at = |at: usize| self.lines.word(line, at + 1);
        if (0..PRIVATE / WORD).all(|at| word_at(at).load(Ordering::Relaxed) == word(at)) {
            return;
        }
        let turn = self.lines.word(line, TURN);
        let before = turn.load(Ordering::Relaxed);
        turn.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        (0..PRIVATE / WORD).for_each(|at| word_at(at).store(word(at), Ordering::Relaxed));
        turn.store((before | 1).wrapping_add(1), Ordering::Release);
    }
}

/// Reader, in a program.
#[derive(Debug)]
pub struct LabelReader(Lines);

impl LabelReader {
    /// Maps [`LabelTable::file`].
    ///
    /// # Errors
    /// The file is not a label table, or there is no memory left.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        if rustix::fs::fstat(file)?.st_size != LEN as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self(Lines(Mapping::modest(file, 0, LEN, false)?)))
    }

    /// True if connections have had different levels; until then there is nothing to reorder.
    #[must_use]
    pub fn differ(&self) -> bool {
        self.0.levels().load(Ordering::Relaxed).count_ones() > 1
    }

    /// The stack's last core, if known.
    #[must_use]
    pub fn core(&self) -> Option<CoreId> {
        let core = self.0.word(0, CORE).load(Ordering::Relaxed).checked_sub(1)?;
        u16::try_from(core).ok().map(CoreId)
    }

    /// Level, 0..=7, of the data that connection `id` received last; `None` if it has no record or
    /// the record was reused.
    #[must_use]
    pub fn level(&self, id: u64) -> Option<u8> {
        let state = self.0.word(Lines::of(id)?, 0).load(Ordering::Acquire);
        let is_its = state >> 32 == id & u64::from(u32::MAX) && state & USED != 0;
        is_its.then_some((state & 0xff) as u8)
    }

    /// True if UDP socket `id` is connected; `None` as for [`level`](Self::level).
    #[must_use]
    pub fn is_connected(&self, id: u64) -> Option<bool> {
        self.level(id)?;
        Some(self.0.word(Lines::of(id)?, 0).load(Ordering::Acquire) & CONNECTED != 0)
    }

    /// Statistics of connection `id`; `None` as for [`level`](Self::level).
    #[must_use]
    pub fn flow(&self, id: u64) -> Option<FlowStats> {
        let line = Lines::of(id)?;
        let word = |at: usize| self.0.word(line, FLOW + at).load(Ordering::Relaxed);
        let (rtt_ns, received, sent) = (word(0), word(1), word(2));
        let flow = FlowStats { rtt_ns, received, sent, loss: f32::from_bits(word(3) as u32) };
        fence(Ordering::Acquire);
        self.level(id).map(|_| flow)
    }

    /// Private bytes of connection `id`; `None` as for [`level`](Self::level), or if they changed
    /// during every attempt.
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

    /// Number of the `nth` connection in record `line`.
    fn id(line: u64, nth: u64) -> u64 {
        line << 32 | nth
    }

    //~ programs: programs read on which core the stack runs
    #[test]
    fn programs_read_on_which_core_the_stack_is() {
        let label_table = LabelTable::new().unwrap();
        let labels = LabelReader::map(label_table.file()).unwrap();
        assert_eq!(labels.core(), None);
        label_table.begin(id(0, 1));
        for core in [3, 0, u16::MAX] {
            label_table.on(CoreId(core));
            assert_eq!((labels.core(), labels.level(id(0, 1))), (Some(CoreId(core)), Some(7)));
        }
    }

    #[test]
    fn programs_read_what_the_stack_tells_of_their_connections() {
        let label_table = LabelTable::new().unwrap();
        let labels = LabelReader::map(label_table.file()).unwrap();
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (None, None));
        label_table.begin(id(3, 1));
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (Some(7), Some([0; PRIVATE])));
        let private: [u8; PRIVATE] = std::array::from_fn(|at| at as u8);
        label_table.tell(id(3, 1), 2, &private);
        assert_eq!((labels.level(id(3, 1)), labels.private(id(3, 1))), (Some(2), Some(private)));
        assert!(!labels.differ(), "one level so far");
        let flow = FlowStats { rtt_ns: 5, received: 6, sent: 7, loss: 0.5 };
        assert_eq!(labels.flow(id(3, 1)), Some(FlowStats::default()));
        label_table.flow(id(3, 1), &flow);
        assert_eq!((labels.flow(id(3, 1)), labels.flow(id(3, 2))), (Some(flow), None));
        label_table.tell(id(3, 1), 5, &private);
        assert!(labels.differ());
    }

    #[test]
    fn a_reused_line_contains_nothing_of_its_former_connection() {
        let label_table = LabelTable::new().unwrap();
        let labels = LabelReader::map(label_table.file()).unwrap();
        label_table.begin(id(0, 1));
        label_table.tell(id(0, 1), 0, &[1; PRIVATE]);
        label_table.begin(id(0, 2));
        assert_eq!((labels.level(id(0, 1)), labels.private(id(0, 1))), (None, None));
        assert_eq!((labels.level(id(0, 2)), labels.private(id(0, 2))), (Some(7), Some([0; PRIVATE])));
        let beyond = id(LINES as u64, 1);
        label_table.begin(beyond);
        label_table.tell(beyond, 0, &[1; PRIVATE]);
        assert_eq!(labels.level(beyond), None);
    }

    #[test]
    fn sockets_for_datagrams_have_lines_of_their_own() {
        let label_table = LabelTable::new().unwrap();
        let labels = LabelReader::map(label_table.file()).unwrap();
        let mut mailboxes = UdpTable::default();
        let ids: Vec<u64> = (0..=MAILBOX_LINES).map(|_| of_mailbox(mailboxes.number(53))).collect();
        let (first, second, last) = (ids[0], ids[1], ids[MAILBOX_LINES as usize]);
        for (id, level) in [(first, 1), (second, 2), (id(LINES as u64 - 1, 1), 3)] {
            label_table.begin(id);
            label_table.tell(id, level, &[0; PRIVATE]);
        }
        assert_eq!((labels.level(first), labels.level(second)), (Some(1), Some(2)));
        assert_eq!(labels.level(id(LINES as u64 - 1, 1)), Some(3));
        label_table.begin(last);
        assert_eq!((labels.level(first), labels.level(last)), (None, Some(7)), "they share a record");
        assert_eq!((labels.is_connected(first), labels.is_connected(second)), (None, Some(false)));
        label_table.connect(second, true);
        label_table.tell(second, 5, &[0; PRIVATE]);
        assert_eq!((labels.is_connected(second), labels.level(second)), (Some(true), Some(5)));
        label_table.connect(second, false);
        assert_eq!((labels.is_connected(second), labels.level(second)), (Some(false), Some(5)));
        assert!(ids.iter().all(|id| id >> 62 == 0));
    }

    #[test]
    fn only_the_stack_writes() {
        let label_table = LabelTable::new().unwrap();
        assert!(Mapping::shared(label_table.file(), LEN, true).is_err());
        assert!(ftruncate(label_table.file(), 0).is_err());
        let other = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        assert!(LabelReader::map(other.as_fd()).is_err());
    }
}
