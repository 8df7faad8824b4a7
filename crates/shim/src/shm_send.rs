//! Shared-memory send buffers: the path of bytes from programs to the stack that avoids the socket
//! pair.
//!
//! Each connection has a buffer of [`BYTES`] in one file, which all programs of a socket server
//! map. While the stack is awake, a write goes there and costs one copy on each side. It goes
//! through the pair if the stack sleeps (only the kernel wakes it), if the buffer is full, if bytes
//! in the pair would be overtaken, if another thread writes or the stack releases memory, or if the
//! connection is in its handshake or shut down. The kernel's `poll`, blocking calls and signals on
//! the pair therefore stay correct, and writes that bypass the library (`sendfile`, other
//! processes, passed descriptors) keep their order: [`ShmSendBuffers::put`] checks that the pair is
//! empty, and the stack closes and empties a buffer before it reads the pair.
//!
//! The file's content is untrusted, as packets are. A program can corrupt the data of other
//! programs of the same server, as it can through their descriptors.
//!
//! The first [`OUTBOXES`] connections have a buffer. A program maps a chunk of [`CHUNK`] bytes when
//! it has a connection with a buffer in it. A written buffer uses one page; pages beyond the first
//! of all buffers are limited to about [`HELD_MAX`], because a buffer that empties above that limit
//! releases its own. Memory that programs touch without reporting a write shows in the file's size,
//! which the stack checks now and then; it then releases memory of empty and unused buffers.
//! Source: ADR 0025, ADR 0064; the lock-free protocol is in `buffer`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create, stat};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use buffer::{Memory, Taken, UNBROKEN};
use host::mapping::Mapping;

mod buffer;

/// Capacity of a buffer in bytes.
pub const BYTES: usize = SLOT - DATA;
/// Number of connections with a buffer.
pub const OUTBOXES: usize = 1 << 14;
/// Maximum memory that empty buffers keep beyond their first pages, in bytes.
pub const HELD_MAX: usize = 64 << 20;
/// Bytes that a program maps at a time.
pub const CHUNK: usize = 16 * SLOT;

/// File layout: the stack's PID namespace, then flags of connections, then a page for each stack
/// (their count follows from the file's length), then the buffers.
const PID_NAMESPACE: [usize; 2] = [0, 8];
/// The file's size is checked once in this many releases or opportunities to release.
const LOOK_EVERY: u32 = 1024;
/// Number of buffers swept per check, if the file is too large.
const SWEPT: usize = 64;

const PAGE: usize = 4096;
/// Flags, one bit per buffer: a program has accepted (or opened) the connection; the last write had
/// `MSG_MORE`.
const ACCEPTED: usize = PAGE;
const MORE: usize = ACCEPTED + OUTBOXES / 8;
const _: () = assert!(MORE + OUTBOXES / 8 == 2 * PAGE);
/// A stack's page: its sleep counter; a summary bitmap of the next field; a bitmap of buffers
/// written to.
const SLEEPS: usize = 0;
const SOME: usize = 64;
const WRITTEN: usize = 128;
const WORDS: usize = OUTBOXES / 64;
const _: () = assert!(WORDS.is_multiple_of(64) && SOME + WORDS / 8 <= WRITTEN && WRITTEN + WORDS * 8 <= PAGE);
/// A buffer: its state word, its lock, and from [`DATA`] on its bytes.
const SLOT: usize = 64 * 1024;
const DATA: usize = 64;
/// Bytes of a buffer in its first page.
const FIRST: usize = PAGE - DATA;

/// All send buffers, on either side.
#[derive(Debug)]
pub struct ShmSendBuffers {
    /// Mapping of the file before the buffers.
    head: Mapping,
    stacks: usize,
    /// Mapped chunks; null if not mapped.
    chunks: Box<[AtomicPtr<u8>]>,
    side: Side,
}

/// State of one side.
#[derive(Debug)]
enum Side {
    Stack(Kept),
    /// A page with this process's ID in the stack's PID namespace, or [`UNBROKEN`]; zero until
    /// it is determined, and after a fork.
    Program(Option<Mapping>),
}

/// State of the stack's side.
#[derive(Debug)]
struct Kept {
    /// Mapping of all buffers.
    all: Mapping,
    file: OwnedFd,
    /// State of each buffer.
    known: Box<[Known]>,
    /// Bytes in use beyond first pages.
    held: AtomicUsize,
    /// Number of opportunities to check the size, and the next buffer to sweep.
    calls: AtomicU32,
    swept: AtomicUsize,
}

/// Trusted state of a buffer.
#[derive(Debug, Default)]
struct Known {
    /// Generation of the connection.
    owner: AtomicU32,
    /// In use by a connection, and may be opened.
    lives: AtomicBool,
    /// Highest end of written bytes since memory was released.
    reach: AtomicUsize,
}

/// Send buffer of a connection.
struct Outbox<'a> {
    all: &'a ShmSendBuffers,
    start: NonNull<u8>,
    nth: usize,
}

/// Identifier of one sleep of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepFlag(u64);

impl ShmSendBuffers {
    /// Creates the stack's side, for `stacks` stacks of one server, and the file for programs.
    ///
    /// # Errors
    /// No descriptor or no memory left.
    pub fn new(stacks: u16) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("greenwave-outboxes", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (head(stacks.into()) + OUTBOXES * SLOT) as u64)?;
        // No process can truncate the file under other mappings.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let stacks = usize::from(stacks);
        let head = Mapping::shared(&file, head(stacks), true)?.without_dumps();
        let all = Mapping::part(&file, self::head(stacks), OUTBOXES * SLOT)?.without_dumps();
        let kept = Kept {
            file: file.try_clone()?,
            known: (0..OUTBOXES).map(|_| Known::default()).collect(),
            held: AtomicUsize::new(0),
            calls: AtomicU32::new(0),
            swept: AtomicUsize::new(0),
            all,
        };
        let chunk = |at: usize| AtomicPtr::new(kept.all.at::<u8>(at * CHUNK).as_ptr());
        let chunks = (0..OUTBOXES * SLOT / CHUNK).map(chunk).collect();
        let outboxes = Self { head, stacks, chunks, side: Side::Stack(kept) };
        for (at, word) in PID_NAMESPACE.into_iter().zip(pid_namespace().unwrap_or_default()) {
            outboxes.word(at).store(word, Ordering::Relaxed);
        }
        Ok((outboxes, file))
    }

    /// Maps the program's side of [`new`](Self::new). Its buffers are not [mapped](Self::reach)
    /// yet.
    ///
    /// # Errors
    /// The file has another size, or there is no memory left.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        let size = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        let stacks = size.saturating_sub(head(0) + OUTBOXES * SLOT) / PAGE;
        if stacks == 0 || size != head(stacks) + OUTBOXES * SLOT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let head = Mapping::modest(file, 0, head(stacks), true)?;
        let chunks = (0..OUTBOXES * SLOT / CHUNK).map(|_| AtomicPtr::default()).collect();
        Ok(Self { head, stacks, chunks, side: Side::Program(Mapping::wiped_on_fork().ok()) })
    }

    /// True if the buffer of connection `id` is mapped, or it has none.
    #[must_use]
    pub fn is_reached(&self, id: u64) -> bool {
        nth(id).is_none_or(|nth| !self.chunks[nth * SLOT / CHUNK].load(Ordering::Relaxed).is_null())
    }

    /// True if the process has address space for one more [`reach`](Self::reach).
    #[must_use]
    pub fn has_room(&self) -> bool {
        Mapping::has_room(CHUNK)
    }

    /// Maps the buffer of connection `id`; until then its bytes take the pair.
    ///
    /// # Errors
    /// No memory or address space left.
    pub fn reach(&self, file: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        let Some(nth) = nth(id) else { return Ok(()) };
        let chunk = nth * SLOT / CHUNK;
        let mapping = Mapping::modest(file, head(self.stacks) + chunk * CHUNK, CHUNK, true)?;
        let (start, null) = (mapping.at::<u8>(0).as_ptr(), std::ptr::null_mut());
        let set = Ordering::AcqRel;
        // If another thread was first, this mapping is dropped.
        if self.chunks[chunk].compare_exchange(null, start, set, Ordering::Relaxed).is_ok() {
            mapping.leak();
        }
        Ok(())
    }

    /// Buffer of connection `id`, if it has one.
    fn get(&self, id: u64) -> Option<Outbox<'_>> {
        self.nth(nth(id)?)
    }

    fn nth(&self, nth: usize) -> Option<Outbox<'_>> {
        let chunk = NonNull::new(self.chunks[nth * SLOT / CHUNK].load(Ordering::Acquire))?;
        // SAFETY: the chunk is mapped, and the offset is inside.
        let start = unsafe { chunk.add(nth * SLOT % CHUNK) };
        Some(Outbox { all: self, start, nth })
    }

    /// Buffer of connection `id`, if it is still in use by it, and its trusted state. Stack side.
    fn own_outbox(&self, id: u64) -> Option<(Outbox<'_>, &Known)> {
        let (outbox, Side::Stack(kept)) = (self.get(id)?, &self.side) else { return None };
        let known = &kept.known[outbox.nth];
        let is_its = known.lives.load(Ordering::Relaxed) && known.owner.load(Ordering::Relaxed) == id as u32;
        is_its.then_some((outbox, known))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` checks bounds and alignment; the memory is mapped as long as `self`, and
        // both sides access it atomically.
        unsafe { self.head.at::<AtomicU64>(at).as_ref() }
    }

    /// Word of a stack's page.
    fn of_stack(&self, stack: usize, at: usize) -> &AtomicU64 {
        assert!(stack < self.stacks, "stack {stack} of {}", self.stacks);
        self.word((2 + stack) * PAGE + at)
    }

    /// Word and bit of the flag of buffer `nth` in `marks`.
    fn mark(&self, marks: usize, nth: usize) -> (&AtomicU64, u64) {
        (self.word(marks + nth / 64 * 8), 1 << (nth % 64))
    }

    /// Sets or clears a flag of connection `id`, if it has a buffer.
    fn set_mark(&self, marks: usize, id: u64, is_set: bool) {
        let Some((word, bit)) = nth(id).map(|nth| self.mark(marks, nth)) else { return };
        if (word.load(Ordering::Acquire) & bit != 0) == is_set {
            return;
        }
        match is_set {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    fn is_marked(&self, marks: usize, id: u64) -> Option<bool> {
        let (word, bit) = self.mark(marks, nth(id)?);
        Some(word.load(Ordering::Acquire) & bit != 0)
    }

    /// Records that a program has accepted connection `id`, or opens it: it no longer depends on
    /// the listener. Either side.
    pub fn accept(&self, id: u64) {
        self.set_mark(ACCEPTED, id, true);
    }

    /// True if a program has accepted connection `id`. A connection without a buffer counts as
    /// accepted.
    #[must_use]
    pub fn is_accepted(&self, id: u64) -> bool {
        self.is_marked(ACCEPTED, id).unwrap_or(true)
    }

    /// Sets or clears `MSG_MORE` for the next write to connection `id`. Called by the program.
    pub fn set_more(&self, id: u64, more: bool) {
        self.set_mark(MORE, id, more);
    }

    /// True if the last write to connection `id` had `MSG_MORE`; clears the flag, because the next
    /// write may bypass the library.
    #[must_use]
    pub fn take_more(&self, id: u64) -> bool {
        let more = self.is_marked(MORE, id) == Some(true);
        self.set_mark(MORE, id, false);
        more
    }

    /// Begins connection `id`: its buffer is empty and closed, and it is not accepted. Stack side,
    /// as all that follow except [`put`](Self::put).
    pub fn begin(&self, id: u64) {
        self.set_mark(ACCEPTED, id, false);
        self.set_mark(MORE, id, false);
        if let (Some(outbox), Side::Stack(kept)) = (self.get(id), &self.side) {
            let known = &kept.known[outbox.nth];
            known.owner.store(id as u32, Ordering::Relaxed);
            known.lives.store(buffer::begin(&outbox, id as u32, is_gone), Ordering::Relaxed);
        }
    }

    /// Opens the buffer of connection `id` for writes.
    pub fn open(&self, id: u64) {
        if let Some((outbox, _)) = self.own_outbox(id) {
            buffer::open(&outbox);
        }
    }

    /// Closes the buffer of connection `id` for writes.
    pub fn close(&self, id: u64) {
        if let Some((outbox, _)) = self.own_outbox(id) {
            buffer::close(&outbox);
        }
    }

    /// Reads bytes written to connection `id` into `into`; returns their number.
    #[must_use]
    pub fn take(&self, id: u64, into: &mut [u8]) -> usize {
        let (Some((outbox, known)), Side::Stack(kept)) = (self.own_outbox(id), &self.side) else { return 0 };
        let Taken { len, end } = buffer::take(&outbox, into);
        let before = known.reach.load(Ordering::Relaxed);
        if end > before {
            known.reach.store(end, Ordering::Relaxed);
            kept.held.fetch_add(beyond(end) - beyond(before), Ordering::Relaxed);
        }
        len
    }

    /// Releases the memory of an empty buffer beyond its first page, if the buffers hold too much
    /// and no process writes to it. A concurrent writer finds the lock taken.
    pub fn relieve(&self, id: u64) {
        let (Some((outbox, known)), Side::Stack(kept)) = (self.own_outbox(id), &self.side) else { return };
        if kept.holds_much(known) {
            buffer::give_back(&outbox, || kept.give_back(outbox.nth));
        }
        self.examine(kept);
    }

    /// Ends connection `id`: closes its buffer, and releases its memory if the buffers hold too
    /// much. A write in progress has no effect, because the buffer is not opened again for this
    /// connection.
    pub fn end(&self, id: u64) {
        self.close(id);
        let (Some((outbox, known)), Side::Stack(kept)) = (self.own_outbox(id), &self.side) else { return };
        known.lives.store(false, Ordering::Relaxed);
        if buffer::is_empty(&outbox) && kept.holds_much(known) {
            kept.give_back(outbox.nth);
        }
        self.examine(kept);
    }

    /// Checks the size of the file now and then. If the size is larger than the reported writes
    /// explain, each call releases the memory of some empty or unused buffers.
    fn examine(&self, kept: &Kept) {
        let number = kept.calls.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(LOOK_EVERY) && kept.is_crowded() {
            self.sweep(kept, SWEPT);
        }
    }

    /// Releases unneeded memory of the next `count` buffers.
    fn sweep(&self, kept: &Kept, count: usize) {
        let first = kept.swept.fetch_add(count, Ordering::Relaxed);
        for nth in (first..first + count).map(|nth| nth % OUTBOXES) {
            let Some(outbox) = self.nth(nth) else { continue };
            if kept.known[nth].lives.load(Ordering::Relaxed) {
                buffer::give_back(&outbox, || kept.give_back(nth));
            } else {
                kept.give_back(nth);
            }
        }
        // Continues at the next call.
        if kept.is_crowded() {
            kept.calls.store(0, Ordering::Relaxed);
        }
    }

    /// Calls `tell` for each connection of stack `stack` with new writes; true if there are any.
    pub fn written(&self, stack: u16, mut tell: impl FnMut(u64)) -> bool {
        let Side::Stack(kept) = &self.side else { return false };
        let stack = usize::from(stack);
        let mut any = false;
        for above in 0..WORDS / 64 {
            let some = self.of_stack(stack, SOME + above * 8);
            if some.load(Ordering::Relaxed) == 0 {
                continue;
            }
            for word in bits(some.swap(0, Ordering::AcqRel)) {
                let word = above * 64 + word;
                for bit in bits(self.of_stack(stack, WRITTEN + word * 8).swap(0, Ordering::AcqRel)) {
                    let nth = (word * 64 + bit) * self.stacks + stack;
                    if let Some(known) = kept.known.get(nth) {
                        any = true;
                        tell((nth as u64) << 32 | u64::from(known.owner.load(Ordering::Relaxed)));
                    }
                }
            }
        }
        any
    }

    /// Announces that stack `stack` will sleep until the kernel wakes it; `false` if there are new
    /// writes, in which case it stays awake.
    #[must_use]
    pub fn sleep(&self, stack: u16) -> bool {
        let stack = usize::from(stack);
        self.of_stack(stack, SLEEPS).fetch_or(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let some =
            (0..WORDS / 64).any(|above| self.of_stack(stack, SOME + above * 8).load(Ordering::Relaxed) != 0);
        if some {
            self.wake(stack as u16);
        }
        !some
    }

    /// Announces that stack `stack` is awake.
    pub fn wake(&self, stack: u16) {
        // The counter may be even already, if a writer has woken the stack; the next sleep has
        // another number anyway.
        let awake = |asleep: u64| Some((asleep | 1).wrapping_add(1));
        let _ = self.of_stack(stack.into(), SLEEPS).fetch_update(Ordering::AcqRel, Ordering::Relaxed, awake);
    }

    /// Writes all `pieces` to connection `id`, or nothing; true if written. `is_alone` checks that
    /// the pair is empty. Called by the program.
    pub fn put<'a>(
        &self,
        id: u64,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        is_alone: impl FnOnce() -> bool,
    ) -> bool {
        self.get(id).is_some_and(|outbox| buffer::put(&outbox, id as u32, self.process(), pieces, is_alone))
    }

    /// Number of this process in the stack's PID namespace; [`UNBROKEN`] if it is in another one.
    fn process(&self) -> u32 {
        let Side::Program(Some(noted)) = &self.side else { return UNBROKEN };
        // SAFETY: the page is mapped as long as `self`, and the process's threads access it
        // atomically.
        let noted = unsafe { noted.at::<AtomicU32>(0).as_ref() };
        match noted.load(Ordering::Relaxed) {
            0 => {
                let stacks = PID_NAMESPACE.map(|at| self.word(at).load(Ordering::Relaxed));
                let is_same = pid_namespace() == Some(stacks);
                let number = if is_same { getpid().as_raw_pid().cast_unsigned() } else { UNBROKEN };
                noted.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }

    /// Current sleep of connection `id`'s stack, if it sleeps. Called by the program.
    #[must_use]
    pub fn asleep(&self, id: u64) -> Option<SleepFlag> {
        let outbox = self.get(id)?;
        let asleep = self.of_stack(outbox.stack(), SLEEPS).load(Ordering::Acquire);
        (asleep & 1 != 0).then_some(SleepFlag(asleep))
    }

    /// Records that the stack of connection `id` was woken through the pair. If it is still the
    /// same sleep, later writes need not wake it again. Called by the program.
    pub fn woken(&self, id: u64, SleepFlag(before): SleepFlag) {
        if let Some(outbox) = self.get(id) {
            let asleep = self.of_stack(outbox.stack(), SLEEPS);
            let _ =
                asleep.compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl Kept {
    /// Releases the memory of a buffer beyond its first page.
    fn give_back(&self, nth: usize) {
        // If the kernel refuses, the memory stays in use.
        if self.all.discard(nth * SLOT + PAGE, SLOT - PAGE).is_ok() {
            let reach = self.known[nth].reach.swap(0, Ordering::Relaxed);
            self.held.fetch_sub(beyond(reach), Ordering::Relaxed);
        }
    }

    /// True if all buffers hold too much, and this one has a part in it.
    fn holds_much(&self, known: &Known) -> bool {
        self.held.load(Ordering::Relaxed) > HELD_MAX && beyond(known.reach.load(Ordering::Relaxed)) > 0
    }

    /// True if the file uses more memory than reported writes explain and the limit allows.
    fn is_crowded(&self) -> bool {
        let allowed = HELD_MAX.max(self.held.load(Ordering::Relaxed)) + OUTBOXES * PAGE + SWEPT * SLOT;
        fstat(&self.file).is_ok_and(|file| file.st_blocks as usize * 512 > allowed)
    }
}

/// True if the process with this number has ended.
fn is_gone(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Device and inode of this process's PID namespace.
fn pid_namespace() -> Option<[u64; 2]> {
    stat("/proc/self/ns/pid").ok().map(|file| [file.st_dev, file.st_ino])
}

/// Index of connection `id`'s buffer, if it has one.
fn nth(id: u64) -> Option<usize> {
    usize::try_from(id >> 32).ok().filter(|&nth| nth < OUTBOXES)
}

/// Bytes of the file before the buffers.
const fn head(stacks: usize) -> usize {
    (2 + stacks) * PAGE
}

/// Bytes up to `reach` that are beyond the first page.
fn beyond(reach: usize) -> usize {
    reach.saturating_sub(FIRST)
}

/// Indices of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

impl Outbox<'_> {
    /// Stack of the buffer.
    fn stack(&self) -> usize {
        self.nth % self.all.stacks
    }

    fn state(&self) -> &AtomicU64 {
        // SAFETY: a buffer starts with this word, in memory that is mapped as long as `all`, and
        // both sides access it atomically.
        unsafe { self.start.cast::<AtomicU64>().as_ref() }
    }

    fn latch(&self) -> &AtomicU32 {
        // SAFETY: as above; the lock follows the word.
        unsafe { self.start.add(8).cast::<AtomicU32>().as_ref() }
    }

    /// Address of `len` bytes at offset `at`.
    fn bytes(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= BYTES, "{len} bytes at {at} are outside a send buffer");
        // SAFETY: they are inside this buffer.
        unsafe { self.start.add(DATA + at).as_ptr() }
    }
}

impl Memory for Outbox<'_> {
    const BYTES: usize = BYTES;

    fn word(&self) -> u64 {
        self.state().load(Ordering::SeqCst)
    }

    fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
        self.state().compare_exchange(from, to, Ordering::SeqCst, Ordering::Acquire).map(|_| ())
    }

    fn set(&self, bits: u64) -> u64 {
        self.state().fetch_or(bits, Ordering::AcqRel) | bits
    }

    fn clear(&self, bits: u64) {
        self.state().fetch_and(!bits, Ordering::AcqRel);
    }

    // Both, and `word`, are sequentially consistent: see `Memory::lock`.
    fn lock(&self, holder: u32) -> bool {
        self.latch().compare_exchange(0, holder, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn holder(&self) -> u32 {
        self.latch().load(Ordering::SeqCst)
    }

    fn unlock(&self, holder: u32) -> bool {
        self.latch().compare_exchange(holder, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: `bytes` checks the bounds. Only the holder of the lock writes there, and the
        // reader reads only what the word covers. A hostile program may break both rules; the
        // result is still plain bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes(at, bytes.len()), bytes.len()) };
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as above; bytes covered by the word are not overwritten before they are read.
        unsafe {
            std::ptr::copy_nonoverlapping(self.bytes(at, bytes.len()), bytes.as_mut_ptr(), bytes.len())
        };
    }

    fn note(&self) {
        let (stack, nth) = (self.stack(), self.nth / self.all.stacks);
        let word = nth / 64;
        self.all.of_stack(stack, WRITTEN + word * 8).fetch_or(1 << (nth % 64), Ordering::AcqRel);
        self.all.of_stack(stack, SOME + word / 64 * 8).fetch_or(1 << (word % 64), Ordering::AcqRel);
    }

    fn sleeps(&self) -> bool {
        fence(Ordering::SeqCst);
        self.all.of_stack(self.stack(), SLEEPS).load(Ordering::Relaxed) & 1 != 0
    }
}

#[cfg(test)]
mod tests;
