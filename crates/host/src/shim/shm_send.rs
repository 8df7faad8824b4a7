//! What programs write, on the shorter way: memory that they share with the stack.
//!
//! Each connection has an outbox of [`BYTES`] in one file, which all programs of a desk
//! have mapped. What a program writes goes there while the stack is awake, and costs
//! the program a copy and the stack another; it goes through the pair, as ever,
//! whenever there is any doubt: the stack sleeps, and only the kernel wakes it; there is no room;
//! something is on its way through the pair, so that this would overtake it; another thread writes, or
//! the stack gives memory back; the connection is being opened, or its program has shut it down. So all that
//! `poll`, blocking calls and signals know of the pair stays true, and what the library does
//! not see (`sendfile`, another process, a descriptor that was passed on) keeps
//! its place: [`ShmSendBuffers::put`] asks whether the pair is empty, and the stack closes an outbox
//! and empties it before it reads the pair.
//!
//! What stands in the file is hostile: the stack looks at it as at a packet. A
//! program can spoil what others of the same desk write, as it can by their descriptors.
//! The first [`OUTBOXES`] connections have one. A program maps [`CHUNK`] bytes of the file when it has a
//! connection whose outbox lies there. Memory is used where something was written: a page of each, and
//! beyond the first pages some [`HELD_MAX`], for what empties while there is more than that gives it back.
//! What programs have touched beyond what they said to have written the stack finds in the size of the file, at
//! which it looks now and then, and takes away from outboxes that are empty or nobody's.
//! Source: ADR 0025; the lock-free order in `slot`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create, stat};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::mapping::Mapping;
use buffer::{Memory, Taken, UNBROKEN};

mod buffer;

/// Bytes that an outbox holds.
pub const BYTES: usize = SLOT - DATA;
/// Connections that have an outbox.
pub const OUTBOXES: usize = 1 << 14;
/// Bytes that outboxes may hold on to while they are empty, besides their first pages.
pub const HELD_MAX: usize = 64 << 20;
/// Bytes that a program maps at once.
pub const CHUNK: usize = 16 * SLOT;

/// The file: the process namespace of the stack, then marks of connections, then a page for each of its stacks
/// (their count is in the file's length), then the outboxes.
const PID_NAMESPACE: [usize; 2] = [0, 8];
/// The size of the file is looked at once in so many times that the stack gives back, or might.
const LOOK_EVERY: u32 = 1024;
/// Outboxes that are looked into at once, where the file is too large.
const SWEPT: usize = 64;

const PAGE: usize = 4096;
/// Marks, a bit for each outbox: whether a program has accepted (or opened) its connection, and whether more
/// is to follow what was written last (`MSG_MORE`).
const ACCEPTED: usize = PAGE;
const MORE: usize = ACCEPTED + OUTBOXES / 8;
const _: () = assert!(MORE + OUTBOXES / 8 == 2 * PAGE);
/// In a stack's page: whether it sleeps; which words of the next have bits; and a bit for
/// each outbox that was written to.
const SLEEPS: usize = 0;
const SOME: usize = 64;
const WRITTEN: usize = 128;
const WORDS: usize = OUTBOXES / 64;
const _: () = assert!(WORDS.is_multiple_of(64) && SOME + WORDS / 8 <= WRITTEN && WRITTEN + WORDS * 8 <= PAGE);
/// An outbox: its word, its lock, and from here on its bytes.
const SLOT: usize = 64 * 1024;
const DATA: usize = 64;
/// Bytes of it in its first page.
const FIRST: usize = PAGE - DATA;

/// All outboxes, from either side.
#[derive(Debug)]
pub struct ShmSendBuffers {
    /// Bytes before the first of them.
    head: Mapping,
    stacks: usize,
    /// Where each chunk of them is mapped, if it is.
    chunks: Box<[AtomicPtr<u8>]>,
    side: Side,
}

/// What one side has that the other has not.
#[derive(Debug)]
enum Side {
    Stack(Kept),
    /// A page in which a process notes its number, as the stack knows it, or that the stack does not
    /// know it; zero in a process that has not.
    Program(Option<Mapping>),
}

/// State of the stack's side.
#[derive(Debug)]
struct Kept {
    /// All chunks.
    all: Mapping,
    file: OwnedFd,
    /// State of each outbox.
    known: Box<[Known]>,
    /// Bytes beyond first pages that have memory.
    held: AtomicUsize,
    /// How often it might have looked at the file's size, and where it looks into outboxes next.
    looks: AtomicU32,
    swept: AtomicUsize,
}

/// What the stack knows of an outbox, whatever stands in it.
#[derive(Debug, Default)]
struct Known {
    /// The connection's generation.
    owner: AtomicU32,
    /// A connection has it, and it may be opened.
    lives: AtomicBool,
    /// Where what was written reached at most since its memory was given back.
    reach: AtomicUsize,
}

/// One of them, which starts at `start`.
struct Outbox<'a> {
    all: &'a ShmSendBuffers,
    start: NonNull<u8>,
    nth: usize,
}

/// Whether the stack sleeps, as it was when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepFlag(u64);

impl ShmSendBuffers {
    /// The stack's side, of `stacks` stacks at one desk, and the file for programs.
    ///
    /// # Errors
    /// When there is no descriptor or no memory left.
    pub fn new(stacks: u16) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("greenwave-outboxes", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (head(stacks.into()) + OUTBOXES * SLOT) as u64)?;
        // Nobody can make it shorter under those who have it mapped.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let stacks = usize::from(stacks);
        let head = Mapping::shared(&file, head(stacks), true)?.without_dumps();
        let all = Mapping::part(&file, self::head(stacks), OUTBOXES * SLOT)?.without_dumps();
        let kept = Kept {
            file: file.try_clone()?,
            known: (0..OUTBOXES).map(|_| Known::default()).collect(),
            held: AtomicUsize::new(0),
            looks: AtomicU32::new(0),
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

    /// A program's side: what [`new`](Self::new) has made. None of them is [reached](Self::reach) yet.
    ///
    /// # Errors
    /// When it is no such file, or there is no memory left.
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

    /// True if nothing is to be mapped for connection `id`: its outbox is, or it has none.
    #[must_use]
    pub fn is_reached(&self, id: u64) -> bool {
        nth(id).is_none_or(|nth| !self.chunks[nth * SLOT / CHUNK].load(Ordering::Relaxed).is_null())
    }

    /// True if the process has address space for one more to be [reached](Self::reach).
    #[must_use]
    pub fn has_room(&self) -> bool {
        Mapping::has_room(CHUNK)
    }

    /// Maps the outbox of connection `id`, of the same file. Without that its bytes take the pair.
    ///
    /// # Errors
    /// When there is no memory, or no address space, left.
    pub fn reach(&self, file: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        let Some(nth) = nth(id) else { return Ok(()) };
        let chunk = nth * SLOT / CHUNK;
        let mapping = Mapping::modest(file, head(self.stacks) + chunk * CHUNK, CHUNK, true)?;
        let (start, null) = (mapping.at::<u8>(0).as_ptr(), std::ptr::null_mut());
        let set = Ordering::AcqRel;
        // Where another thread was first, it goes again.
        if self.chunks[chunk].compare_exchange(null, start, set, Ordering::Relaxed).is_ok() {
            mapping.leak();
        }
        Ok(())
    }

    /// That of connection `id`, if it has one.
    fn get(&self, id: u64) -> Option<Outbox<'_>> {
        self.nth(nth(id)?)
    }

    fn nth(&self, nth: usize) -> Option<Outbox<'_>> {
        let chunk = NonNull::new(self.chunks[nth * SLOT / CHUNK].load(Ordering::Acquire))?;
        // SAFETY: the chunk is mapped, and this is one of those in it.
        let start = unsafe { chunk.add(nth * SLOT % CHUNK) };
        Some(Outbox { all: self, start, nth })
    }

    /// The same, if it is still that connection's; and what the stack knows of it. The stack's side.
    fn mine(&self, id: u64) -> Option<(Outbox<'_>, &Known)> {
        let (outbox, Side::Stack(kept)) = (self.get(id)?, &self.side) else { return None };
        let known = &kept.known[outbox.nth];
        let is_its = known.lives.load(Ordering::Relaxed) && known.owner.load(Ordering::Relaxed) == id as u32;
        is_its.then_some((outbox, known))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` checks that it lies inside and is aligned; the memory
        // is mapped as long as this is, and both sides use it atomically.
        unsafe { self.head.at::<AtomicU64>(at).as_ref() }
    }

    /// A word of stack `stack`'s page.
    fn of_stack(&self, stack: usize, at: usize) -> &AtomicU64 {
        assert!(stack < self.stacks, "stack {stack} of {}", self.stacks);
        self.word((2 + stack) * PAGE + at)
    }

    /// The word of `marks` that has the mark of outbox `nth`, and the mark's bit.
    fn mark(&self, marks: usize, nth: usize) -> (&AtomicU64, u64) {
        (self.word(marks + nth / 64 * 8), 1 << (nth % 64))
    }

    /// Sets a mark of connection `id`, if it has an outbox.
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

    /// A program has accepted connection `id`, or opens it: its end is no longer the listener's. Either side.
    pub fn accept(&self, id: u64) {
        self.set_mark(ACCEPTED, id, true);
    }

    /// True if a program has accepted connection `id`; of one that has no outbox that is not known, and it counts
    /// as accepted.
    #[must_use]
    pub fn is_accepted(&self, id: u64) -> bool {
        self.is_marked(ACCEPTED, id).unwrap_or(true)
    }

    /// Says whether `more` is to follow what is written next to connection `id` (`MSG_MORE`). A program's side.
    pub fn set_more(&self, id: u64, more: bool) {
        self.set_mark(MORE, id, more);
    }

    /// True if more is to follow what was written to connection `id`; once, as what comes next may come by a
    /// way that says nothing.
    #[must_use]
    pub fn take_more(&self, id: u64) -> bool {
        let more = self.is_marked(MORE, id) == Some(true);
        self.set_mark(MORE, id, false);
        more
    }

    /// Connection `id` begins: its outbox is empty, and closed, and nobody has accepted it. The stack's side, as all
    /// that follows but [`put`](Self::put).
    pub fn begin(&self, id: u64) {
        self.set_mark(ACCEPTED, id, false);
        self.set_mark(MORE, id, false);
        if let (Some(outbox), Side::Stack(kept)) = (self.get(id), &self.side) {
            let known = &kept.known[outbox.nth];
            known.owner.store(id as u32, Ordering::Relaxed);
            known.lives.store(buffer::begin(&outbox, id as u32, is_gone), Ordering::Relaxed);
        }
    }

    /// What programs write to connection `id` may go there from now on.
    pub fn open(&self, id: u64) {
        if let Some((outbox, _)) = self.mine(id) {
            buffer::open(&outbox);
        }
    }

    /// And no more.
    pub fn close(&self, id: u64) {
        if let Some((outbox, _)) = self.mine(id) {
            buffer::close(&outbox);
        }
    }

    /// Takes what programs have written to connection `id`, as much as `into` holds; how
    /// many bytes that were.
    #[must_use]
    pub fn take(&self, id: u64, into: &mut [u8]) -> usize {
        let (Some((outbox, known)), Side::Stack(kept)) = (self.mine(id), &self.side) else { return 0 };
        let Taken { len, end } = buffer::take(&outbox, into);
        let before = known.reach.load(Ordering::Relaxed);
        if end > before {
            known.reach.store(end, Ordering::Relaxed);
            kept.held.fetch_add(beyond(end) - beyond(before), Ordering::Relaxed);
        }
        len
    }

    /// Gives the memory of an empty outbox back, but for its first page, where all hold too much and nobody
    /// writes just then; who wants to meanwhile finds its lock taken.
    pub fn relieve(&self, id: u64) {
        let (Some((outbox, known)), Side::Stack(kept)) = (self.mine(id), &self.side) else { return };
        if kept.holds_much(known) {
            buffer::give_back(&outbox, || kept.give_back(outbox.nth));
        }
        self.look(kept);
    }

    /// Connection `id` ends: its outbox is closed, and its memory given back where all hold too much. What
    /// somebody still copies to it counts for nothing, as it is not opened again for this connection.
    pub fn end(&self, id: u64) {
        self.close(id);
        let (Some((outbox, known)), Side::Stack(kept)) = (self.mine(id), &self.side) else { return };
        known.lives.store(false, Ordering::Relaxed);
        if buffer::is_empty(&outbox) && kept.holds_much(known) {
            kept.give_back(outbox.nth);
        }
        self.look(kept);
    }

    /// Looks now and then at the size of the file. Where that is more than it can be by what was said to be
    /// written, some outboxes that are empty or nobody's give theirs back, each time until it is not.
    fn look(&self, kept: &Kept) {
        let look = kept.looks.fetch_add(1, Ordering::Relaxed);
        if look.is_multiple_of(LOOK_EVERY) && kept.is_crowded() {
            self.sweep(kept, SWEPT);
        }
    }

    /// Has the next `count` outboxes give back what they need not hold.
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
        // It goes on at the next chance.
        if kept.is_crowded() {
            kept.looks.store(0, Ordering::Relaxed);
        }
    }

    /// Tells of each connection of stack `stack` that was written to since; whether any was.
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

    /// Stack `stack` is about to sleep, and only the kernel wakes it; `false` where something was
    /// written meanwhile, and it stays awake.
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

    /// Stack `stack` is awake.
    pub fn wake(&self, stack: u16) {
        // It may be even by now, as who wrote has woken it; the next sleep is another number in any case.
        let awake = |asleep: u64| Some((asleep | 1).wrapping_add(1));
        let _ = self.of_stack(stack.into(), SLEEPS).fetch_update(Ordering::AcqRel, Ordering::Relaxed, awake);
    }

    /// Writes all `pieces` to connection `id`, or nothing; whether it did. `is_alone` says that
    /// the pair is empty. A program's side.
    pub fn put<'a>(
        &self,
        id: u64,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        is_alone: impl FnOnce() -> bool,
    ) -> bool {
        self.get(id).is_some_and(|outbox| buffer::put(&outbox, id as u32, self.process(), pieces, is_alone))
    }

    /// The number of this process, as the stack knows it; [`UNBROKEN`] where it does not.
    fn process(&self) -> u32 {
        let Side::Program(Some(noted)) = &self.side else { return UNBROKEN };
        // SAFETY: the page is mapped as long as this is, and its threads use it atomically.
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

    /// Whether the stack of connection `id` sleeps. A program's side.
    #[must_use]
    pub fn asleep(&self, id: u64) -> Option<SleepFlag> {
        let outbox = self.get(id)?;
        let asleep = self.of_stack(outbox.stack(), SLEEPS).load(Ordering::Acquire);
        (asleep & 1 != 0).then_some(SleepFlag(asleep))
    }

    /// The stack of connection `id`, which slept, was sent something through the pair: if that
    /// sleep is the same, it is over, and what is written now need not wake it once more. A program's side.
    pub fn woken(&self, id: u64, SleepFlag(before): SleepFlag) {
        if let Some(outbox) = self.get(id) {
            let asleep = self.of_stack(outbox.stack(), SLEEPS);
            let _ =
                asleep.compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl Kept {
    /// Gives the memory of an outbox back, but for its first page.
    fn give_back(&self, nth: usize) {
        // Where the kernel refuses, it is held on to.
        if self.all.discard(nth * SLOT + PAGE, SLOT - PAGE).is_ok() {
            let reach = self.known[nth].reach.swap(0, Ordering::Relaxed);
            self.held.fetch_sub(beyond(reach), Ordering::Relaxed);
        }
    }

    /// True if an outbox holds something of too much.
    fn holds_much(&self, known: &Known) -> bool {
        self.held.load(Ordering::Relaxed) > HELD_MAX && beyond(known.reach.load(Ordering::Relaxed)) > 0
    }

    /// True if the file has more memory than what was said to be written explains, and than may be held on to.
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

/// The device and the number of the file that stands for this process's namespace of process numbers.
fn pid_namespace() -> Option<[u64; 2]> {
    stat("/proc/self/ns/pid").ok().map(|file| [file.st_dev, file.st_ino])
}

/// The how many-th outbox connection `id` has, if it has one.
fn nth(id: u64) -> Option<usize> {
    usize::try_from(id >> 32).ok().filter(|&nth| nth < OUTBOXES)
}

/// Bytes of the file before the outboxes.
const fn head(stacks: usize) -> usize {
    (2 + stacks) * PAGE
}

/// Bytes beyond the first page of what reaches so far.
fn beyond(reach: usize) -> usize {
    reach.saturating_sub(FIRST)
}

/// The places of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

impl Outbox<'_> {
    /// Whose it is, of several.
    fn stack(&self) -> usize {
        self.nth % self.all.stacks
    }

    fn state(&self) -> &AtomicU64 {
        // SAFETY: an outbox starts with it, in memory that is mapped as long as `all` is, and both sides use
        // it atomically.
        unsafe { self.start.cast::<AtomicU64>().as_ref() }
    }

    fn latch(&self) -> &AtomicU32 {
        // SAFETY: as above; it follows.
        unsafe { self.start.add(8).cast::<AtomicU32>().as_ref() }
    }

    /// Where `len` bytes from place `at` on lie.
    fn bytes(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= BYTES, "{len} bytes at {at} are not in an outbox");
        // SAFETY: they lie in this outbox.
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

    // These two, and the word, in one order for all: see `Memory::lock`.
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
        // SAFETY: `bytes` says that there is room; who holds the lock alone writes there, and
        // nobody reads it before it is said to be written. A hostile program may do both, and
        // then the bytes are whatever it likes: they are bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes(at, bytes.len()), bytes.len()) };
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as above; what was said to be written nobody writes again before it is taken.
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
