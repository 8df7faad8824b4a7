//! Protocol of one send buffer: the order of memory accesses.
//!
//! A state word has the connection's generation, a closed bit, a taking bit, and the start and end
//! of unread bytes. A writer takes the lock or uses the pair: no process waits, so a killed process
//! blocks none. It copies its bytes after the unread ones and then moves the end by
//! compare-and-exchange of the word, which fails if the buffer was closed meanwhile or belongs to
//! another connection. Only the stack reads and closes; a read after closing returns all bytes
//! written before. A writer sees a change only when it exchanges the word, and misses a close
//! followed by an open. The stack therefore holds the lock for changes that must not happen during
//! a copy, such as releasing memory.
//!
//! A writer withdraws its bytes if the stack sleeps, but never during a read: the stack sets the
//! taking bit before it reads and clears it when it moves the start. Without the bit, a withdrawn
//! write followed by one of the same length would restore the word that the stack has read, and the
//! stack would return the withdrawn bytes.
//!
//! The lock has its holder's process ID. If the holder dies, the stack breaks the lock when the
//! next connection begins. The lock of a live process is not broken, because it may still copy: the
//! buffer stays closed, and the connection uses the pair.
//!
//! [`Memory`] separates the protocol from the memory, so that the same code runs in shared memory
//! and under loom, which tries all orders of accesses.

/// Memory of a send buffer, and the sleep flag of its stack.
pub(super) trait Memory {
    /// Capacity in bytes.
    const BYTES: usize;

    /// Loads the word (acquire).
    fn word(&self) -> u64;
    /// Replaces the word if it is `from` (acquire and release).
    fn exchange(&self, from: u64, to: u64) -> Result<(), u64>;
    /// Sets bits (acquire and release); returns the new word.
    fn set(&self, bits: u64) -> u64;
    /// Clears bits (acquire and release).
    fn clear(&self, bits: u64);
    /// Takes the lock for `holder`, not 0, if it is free. Either this process sees the word of
    /// [`begin`], or [`begin`] sees this holder: both sides are sequentially consistent.
    fn lock(&self, holder: u32) -> bool;
    /// Holder of the lock, 0 if it is free; see [`lock`](Self::lock).
    fn holder(&self) -> u32;
    /// Releases the lock if `holder` has it; true if it did.
    fn unlock(&self, holder: u32) -> bool;
    /// Copies `bytes` to offset `at`.
    fn write(&self, at: usize, bytes: &[u8]);
    /// Copies the bytes from offset `at` on.
    fn read(&self, at: usize, bytes: &mut [u8]);
    /// Reports a write to the stack.
    fn note(&self);
    /// True if the stack sleeps; ordered after all earlier writes of any process.
    fn sleeps(&self) -> bool;
}

/// Layout of the word: the generation without its two highest bits, the taking bit, the closed bit,
/// end, start.
const FIELD: u32 = 16;
const PLACE: u64 = (1 << FIELD) - 1;
const CLOSED: u64 = 1 << (2 * FIELD);
const TAKING: u64 = CLOSED << 1;
const GENERATION: u32 = 2 * FIELD + 2;
/// Maximum number of attempts of the stack to change the word: a writer causes one or two, and a
/// hostile program must not block the stack.
const TRIES: usize = 64;
/// Holder of a lock that is never broken: the stack, or a process of another PID namespace.
pub(super) const UNBROKEN: u32 = u32::MAX;

/// Fields of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    generation: u32,
    taking: bool,
    closed: bool,
    start: usize,
    end: usize,
}

impl State {
    /// Decodes a word; `None` if it is invalid, as from a hostile program.
    fn of<M: Memory>(word: u64) -> Option<Self> {
        const { assert!(M::BYTES as u64 <= PLACE, "a place has its bits") };
        let offset = |shift: u32| (word >> shift & PLACE) as usize;
        let (start, end) = (offset(0), offset(FIELD));
        let (taking, closed) = (word & TAKING != 0, word & CLOSED != 0);
        let state = Self { generation: (word >> GENERATION) as u32, taking, closed, start, end };
        (start <= end && end <= M::BYTES).then_some(state)
    }

    /// Decodes a word of `generation`.
    fn of_generation<M: Memory>(word: u64, generation: u32) -> Option<Self> {
        Self::of::<M>(word).filter(|state| state.generation == kept(generation))
    }

    fn word(self) -> u64 {
        let bits = if self.taking { TAKING } else { 0 } | if self.closed { CLOSED } else { 0 };
        u64::from(self.generation) << GENERATION | bits | (self.end as u64) << FIELD | self.start as u64
    }
}

/// Generation as stored in words.
fn kept(generation: u32) -> u32 {
    generation & u32::MAX >> 2
}

/// Begins `generation`, with an empty, closed buffer. True if it may be opened: no live process, by
/// `is_gone`, still writes for an earlier one. Stack side, as all that follow except [`put`].
#[must_use]
pub(super) fn begin(memory: &impl Memory, generation: u32, is_gone: impl FnOnce(u32) -> bool) -> bool {
    let generation = kept(generation);
    let empty = State { generation, taking: false, closed: true, start: 0, end: 0 }.word();
    let mut word = memory.word();
    for _ in 0..TRIES {
        match memory.exchange(word, empty) {
            Ok(()) => {
                let holder = memory.holder();
                return holder == 0 || is_gone(holder) && memory.unlock(holder);
            }
            Err(other) => word = other,
        }
    }
    false
}

/// Closes the buffer for writes.
pub(super) fn close(memory: &impl Memory) {
    memory.set(CLOSED);
}

/// Opens the buffer for writes.
pub(super) fn open(memory: &impl Memory) {
    memory.clear(CLOSED);
}

/// Result of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Number of bytes read.
    pub(super) len: usize,
    /// End of the written bytes.
    pub(super) end: usize,
}

/// Reads written bytes, as many as `into` holds.
pub(super) fn take<M: Memory>(memory: &M, into: &mut [u8]) -> Taken {
    if into.is_empty() || is_empty(memory) {
        return Taken::default();
    }
    let (mut word, mut len) = (memory.set(TAKING), 0);
    for _ in 0..TRIES {
        let Some(state) = State::of::<M>(word) else { break };
        let most = (state.end - state.start).min(into.len());
        if most < len {
            break;
        }
        // No process withdraws these bytes or moves the start; more may have been written.
        memory.read(state.start + len, &mut into[len..most]);
        len = most;
        match memory.exchange(word, State { start: state.start + len, taking: false, ..state }.word()) {
            Ok(()) => return Taken { len, end: state.end },
            Err(other) => word = other,
        }
    }
    memory.clear(TAKING);
    Taken::default()
}

/// True if there are no bytes to read.
pub(super) fn is_empty<M: Memory>(memory: &M) -> bool {
    State::of::<M>(memory.word()).is_none_or(|state| state.start == state.end)
}

/// Calls `give` to release memory, if the buffer is empty and no process writes, and prevents
/// writes until it returns. The stack does not wait for the lock.
pub(super) fn give_back<M: Memory>(memory: &M, give: impl FnOnce()) {
    if !memory.lock(UNBROKEN) {
        return;
    }
    if is_empty(memory) {
        give();
    }
    memory.unlock(UNBROKEN);
}

/// Writes all `pieces` for `generation`, or nothing; true if written. `holder` is the process;
/// `is_alone` checks that no earlier bytes are in the pair. Program side.
pub(super) fn put<'a, M: Memory>(
    memory: &M,
    generation: u32,
    holder: u32,
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
    is_alone: impl FnOnce() -> bool,
) -> bool {
    if memory.sleeps() || !memory.lock(holder) {
        return false;
    }
    let done = put_locked(memory, generation, pieces, is_alone);
    memory.unlock(holder);
    done
}

fn put_locked<'a, M: Memory>(
    memory: &M,
    generation: u32,
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
    is_alone: impl FnOnce() -> bool,
) -> bool {
    let open = |word| State::of_generation::<M>(word, generation).filter(|state| !state.closed);
    let Some(mut before) = open(memory.word()) else { return false };
    let len = pieces.clone().fold(0_usize, |len, piece| len.saturating_add(piece.len()));
    // An empty buffer is filled from its start, which is in the cache.
    let at = if before.start == before.end { 0 } else { before.end };
    if len > M::BYTES - at || !is_alone() {
        return false;
    }
    let mut end = at;
    for piece in pieces {
        memory.write(end, piece);
        end += piece.len();
    }
    let after = loop {
        let start = if at == 0 { 0 } else { before.start };
        let after = State { start, end, ..before };
        match memory.exchange(before.word(), after.word()) {
            Ok(()) => break after,
            // Some bytes were read meanwhile, or the buffer is closed.
            Err(other) => match open(other) {
                Some(other) => before = other,
                None => return false,
            },
        }
    };
    memory.note();
    if !memory.sleeps() {
        return true;
    }
    // The stack may have fallen asleep without seeing the write, and only the pair wakes it. During
    // a read it sees the write before the read ends.
    after.taking || memory.exchange(after.word(), State { end: at, ..after }.word()).is_err()
}

#[cfg(test)]
mod tests;
