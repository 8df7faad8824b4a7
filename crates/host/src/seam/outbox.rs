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
//! its place: [`Outboxes::put`] asks whether the pair is empty, and the stack closes an outbox
//! and empties it before it reads the pair.
//!
//! What stands in the file is hostile: the stack looks at it as at a packet. A
//! program can spoil what others of the same desk write, as it can by their descriptors.
//! The first [`OUTBOXES`] connections have one. Memory is used where something was written: a page of each, and
//! beyond the first pages some [`HELD_MAX`], for what empties while there is more than that gives it back.
//! Source: ADR 0025; the lock-free order in `slot`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::mapping::Mapping;
use slot::{Memory, Taken};

mod slot;

/// Bytes that an outbox holds.
pub const BYTES: usize = SLOT - DATA;
/// Connections that have an outbox.
pub const OUTBOXES: usize = 1 << 14;
/// Bytes that outboxes may hold on to while they are empty, besides their first pages.
pub const HELD_MAX: usize = 64 << 20;

/// The file: how many stacks there are, then a page for each, then the outboxes.
const PAGE: usize = 4096;
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
pub struct Outboxes {
    memory: Mapping,
    stacks: usize,
    /// What the stack's side knows of them; a program's side has nothing of it.
    known: Box<[Known]>,
    /// Bytes beyond first pages that have memory.
    held: AtomicUsize,
}

/// What the stack knows of an outbox, whatever stands in it.
#[derive(Debug, Default)]
struct Known {
    /// The connection's generation.
    owner: AtomicU32,
    /// Where what was written reached at most since its memory was given back.
    reach: AtomicUsize,
}

/// One of them.
struct Outbox<'a> {
    all: &'a Outboxes,
    at: usize,
    nth: usize,
}

/// Whether the stack sleeps, as it was when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asleep(u64);

impl Outboxes {
    /// The stack's side, of `stacks` stacks at one desk, and the file for programs.
    ///
    /// # Errors
    /// When there is no descriptor or no memory left.
    pub fn new(stacks: u16) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("greenwave-outboxes", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len(stacks.into()) as u64)?;
        // Nobody can make it shorter under those who have it mapped.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let known = (0..OUTBOXES).map(|_| Known::default()).collect();
        Ok((Self::of(file.as_fd(), stacks.into(), known)?, file))
    }

    /// A program's side: what [`new`](Self::new) has made.
    ///
    /// # Errors
    /// When it is no such file, or there is no memory left.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        let stacks = size.saturating_sub(len(0)) / PAGE;
        if stacks == 0 || size != len(stacks) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::of(file, stacks, Box::default())
    }

    fn of(file: BorrowedFd<'_>, stacks: usize, known: Box<[Known]>) -> io::Result<Self> {
        let memory = Mapping::shared(file, len(stacks), true)?;
        Ok(Self { memory, stacks, known, held: AtomicUsize::new(0) })
    }

    /// That of connection `id`, if it has one.
    fn get(&self, id: u64) -> Option<Outbox<'_>> {
        let nth = usize::try_from(id >> 32).ok().filter(|&nth| nth < OUTBOXES)?;
        Some(Outbox { all: self, at: (1 + self.stacks) * PAGE + nth * SLOT, nth })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` checks that it lies inside and is aligned; the memory
        // is mapped as long as this is, and both sides use it atomically.
        unsafe { self.memory.at::<AtomicU64>(at).as_ref() }
    }

    /// A word of stack `stack`'s page.
    fn of_stack(&self, stack: usize, at: usize) -> &AtomicU64 {
        assert!(stack < self.stacks, "stack {stack} of {}", self.stacks);
        self.word((1 + stack) * PAGE + at)
    }

    /// Connection `id` begins: its outbox is empty, and closed. The stack's side, as all
    /// that follows but [`put`](Self::put).
    pub fn begin(&self, id: u64) {
        if let Some(outbox) = self.get(id) {
            self.known[outbox.nth].owner.store(id as u32, Ordering::Relaxed);
            slot::begin(&outbox, id as u32);
        }
    }

    /// What programs write to connection `id` may go there from now on.
    pub fn open(&self, id: u64) {
        if let Some(outbox) = self.get(id) {
            slot::open(&outbox, id as u32);
        }
    }

    /// And no more.
    pub fn close(&self, id: u64) {
        if let Some(outbox) = self.get(id) {
            slot::close(&outbox, id as u32);
        }
    }

    /// Takes what programs have written to connection `id`, as much as `into` holds; how
    /// many bytes that were.
    #[must_use]
    pub fn take(&self, id: u64, into: &mut [u8]) -> usize {
        let Some(outbox) = self.get(id) else { return 0 };
        let Taken { len, end } = slot::take(&outbox, id as u32, into);
        let reach = &self.known[outbox.nth].reach;
        let before = reach.load(Ordering::Relaxed);
        if end > before {
            reach.store(end, Ordering::Relaxed);
            self.held.fetch_add(beyond(end) - beyond(before), Ordering::Relaxed);
        }
        len
    }

    /// Gives the memory of an empty outbox back, but for its first page, where all hold too much and nobody
    /// writes just then; who wants to meanwhile finds its lock taken.
    pub fn relieve(&self, id: u64) {
        if self.holds_much(id)
            && let Some(outbox) = self.get(id)
        {
            slot::give_back(&outbox, id as u32, || self.give_back(&outbox));
        }
    }

    /// Connection `id` ends: its outbox is closed, and its memory given back where all hold too much. What
    /// somebody still copies to it counts for nothing, as it is not opened again for this connection.
    pub fn end(&self, id: u64) {
        self.close(id);
        let Some(outbox) = self.get(id).filter(|outbox| slot::is_empty(outbox, id as u32)) else { return };
        if self.holds_much(id) {
            self.give_back(&outbox);
        }
    }

    /// Gives the memory of `outbox` back, but for its first page.
    fn give_back(&self, outbox: &Outbox<'_>) {
        // Where the kernel refuses, it is held on to.
        if self.memory.give_back(outbox.at + PAGE, SLOT - PAGE).is_ok() {
            let reach = self.known[outbox.nth].reach.swap(0, Ordering::Relaxed);
            self.held.fetch_sub(beyond(reach), Ordering::Relaxed);
        }
    }

    /// Whether the outbox of `id` holds something of too much.
    fn holds_much(&self, id: u64) -> bool {
        let reach = |outbox: Outbox<'_>| self.known[outbox.nth].reach.load(Ordering::Relaxed);
        self.held.load(Ordering::Relaxed) > HELD_MAX && beyond(self.get(id).map_or(0, reach)) > 0
    }

    /// Tells of each connection of stack `stack` that was written to since; whether any was.
    pub fn written(&self, stack: u16, mut tell: impl FnMut(u64)) -> bool {
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
                    if let Some(known) = self.known.get(nth) {
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
        self.get(id).is_some_and(|outbox| slot::put(&outbox, id as u32, pieces, is_alone))
    }

    /// Whether the stack of connection `id` sleeps. A program's side.
    #[must_use]
    pub fn asleep(&self, id: u64) -> Option<Asleep> {
        let outbox = self.get(id)?;
        let asleep = self.of_stack(outbox.stack(), SLEEPS).load(Ordering::Acquire);
        (asleep & 1 != 0).then_some(Asleep(asleep))
    }

    /// The stack of connection `id`, which slept, was sent something through the pair: if that
    /// sleep is the same, it is over, and what is written now need not wake it once more. A program's side.
    pub fn woken(&self, id: u64, Asleep(before): Asleep) {
        if let Some(outbox) = self.get(id) {
            let asleep = self.of_stack(outbox.stack(), SLEEPS);
            let _ =
                asleep.compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// The file's length in bytes for so many stacks.
const fn len(stacks: usize) -> usize {
    (1 + stacks) * PAGE + OUTBOXES * SLOT
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
        self.all.word(self.at)
    }

    fn latch(&self) -> &AtomicU32 {
        // SAFETY: as for `Outboxes::word`.
        unsafe { self.all.memory.at::<AtomicU32>(self.at + 8).as_ref() }
    }

    /// Where `len` bytes from place `at` on lie.
    fn bytes(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= BYTES, "{len} bytes at {at} are not in an outbox");
        // SAFETY: they lie in this outbox, which lies in the mapping.
        unsafe { self.all.memory.start().as_ptr().add(self.at + DATA + at) }
    }
}

impl Memory for Outbox<'_> {
    const BYTES: usize = BYTES;

    fn word(&self) -> u64 {
        self.state().load(Ordering::Acquire)
    }

    fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
        self.state().compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }

    fn set(&self, bits: u64) {
        self.state().fetch_or(bits, Ordering::AcqRel);
    }

    fn clear(&self, bits: u64) {
        self.state().fetch_and(!bits, Ordering::AcqRel);
    }

    fn lock(&self) -> bool {
        self.latch().compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn unlock(&self) {
        self.latch().store(0, Ordering::Release);
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
