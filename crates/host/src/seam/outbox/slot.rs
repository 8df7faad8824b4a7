//! One outbox: the order of accesses that keeps its bytes whole.
//!
//! A word says whose the outbox is, whether it is closed, and which of its bytes are
//! written and not taken. Who writes holds the lock, or goes through the pair: nobody
//! waits, so nobody who is killed is waited for. He copies his bytes behind the written
//! ones and then moves their end by exchanging the whole word, which fails if the
//! outbox was closed meanwhile or is another connection's now. The stack alone takes,
//! and closes: what it takes after it has closed is all that was written before. Who copies is told of
//! nothing until he exchanges the word, and one that was closed and opened meanwhile is the same: what must
//! not happen under him, as memory that goes back, the stack does while it has the lock.
//! [`Memory`] keeps the order apart from where the bytes lie, so that the same code runs in
//! shared memory and under loom, which tries every order of accesses.

/// Where an outbox lies, and the flag of the stack that empties it.
pub(super) trait Memory {
    /// Bytes that it holds.
    const BYTES: usize;

    /// The word, acquired.
    fn word(&self) -> u64;
    /// Sets it if it is still `from`, acquired and released.
    fn exchange(&self, from: u64, to: u64) -> Result<(), u64>;
    /// Sets bits, likewise.
    fn set(&self, bits: u64);
    /// Clears bits, likewise.
    fn clear(&self, bits: u64);
    /// Takes the lock, if nobody has it.
    fn lock(&self) -> bool;
    /// Gives it back.
    fn unlock(&self);
    /// Copies `bytes` to place `at`.
    fn write(&self, at: usize, bytes: &[u8]);
    /// Copies the bytes from place `at` on.
    fn read(&self, at: usize, bytes: &mut [u8]);
    /// Notes for the stack that something was written.
    fn note(&self);
    /// Whether the stack sleeps: read after all that was written before, by anybody.
    fn sleeps(&self) -> bool;
}

/// The word: the connection's generation but for its first bit, then whether it is closed, then where the
/// bytes end and where they start.
const FIELD: u32 = 16;
const PLACE: u64 = (1 << FIELD) - 1;
const CLOSED: u64 = 1 << (2 * FIELD);
const GENERATION: u32 = 2 * FIELD + 1;
/// How often the stack looks again at what changes under it: who writes does so once or twice, and
/// a hostile program is not to keep it.
const TRIES: usize = 64;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    generation: u32,
    closed: bool,
    start: usize,
    end: usize,
}

impl State {
    /// `None` where it makes no sense, as what hostile programs write.
    fn of<M: Memory>(word: u64) -> Option<Self> {
        const { assert!(M::BYTES as u64 <= PLACE, "a place has its bits") };
        let place = |shift: u32| (word >> shift & PLACE) as usize;
        let (start, end) = (place(0), place(FIELD));
        let closed = word & CLOSED != 0;
        (start <= end && end <= M::BYTES).then_some(Self { generation: generation(word), closed, start, end })
    }

    fn word(self) -> u64 {
        let closed = if self.closed { CLOSED } else { 0 };
        u64::from(self.generation) << GENERATION | closed | (self.end as u64) << FIELD | self.start as u64
    }
}

/// Whose outbox it is, by its word.
fn generation(word: u64) -> u32 {
    (word >> GENERATION) as u32
}

/// A connection's generation as words have it.
fn kept(generation: u32) -> u32 {
    generation & u32::MAX >> 1
}

/// It is `generation`'s, empty and closed, whoever had it. The stack's side.
pub(super) fn begin(memory: &impl Memory, generation: u32) {
    let next = State { generation: kept(generation), closed: true, start: 0, end: 0 }.word();
    let mut word = memory.word();
    for _ in 0..TRIES {
        match memory.exchange(word, next) {
            Ok(()) => return,
            Err(other) => word = other,
        }
    }
}

/// Nothing more is written to it, if it is `generation`'s. The stack's side.
pub(super) fn close(memory: &impl Memory, generation: u32) {
    if self::generation(memory.word()) == kept(generation) {
        memory.set(CLOSED);
    }
}

/// It is written to again, likewise. The stack's side.
pub(super) fn open(memory: &impl Memory, generation: u32) {
    if self::generation(memory.word()) == kept(generation) {
        memory.clear(CLOSED);
    }
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// So many bytes.
    pub(super) len: usize,
    /// Where what was written ended.
    pub(super) end: usize,
}

/// Takes what `generation` has written, as much as `into` holds. The stack's side.
pub(super) fn take<M: Memory>(memory: &M, generation: u32, into: &mut [u8]) -> Taken {
    for _ in 0..TRIES {
        let word = memory.word();
        let Some(state) = State::of::<M>(word).filter(|state| state.generation == kept(generation)) else {
            return Taken::default();
        };
        let len = (state.end - state.start).min(into.len());
        if len == 0 {
            return Taken::default();
        }
        memory.read(state.start, &mut into[..len]);
        // Meanwhile there may be more, or the last of it was taken back.
        if memory.exchange(word, State { start: state.start + len, ..state }.word()).is_ok() {
            return Taken { len, end: state.end };
        }
    }
    Taken::default()
}

/// Whether it is `generation`'s and there is nothing to take. The stack's side.
pub(super) fn is_empty<M: Memory>(memory: &M, generation: u32) -> bool {
    let state = State::of::<M>(memory.word()).filter(|state| state.generation == kept(generation));
    state.is_some_and(|state| state.start == state.end)
}

/// Has `give` give its memory back, if it is `generation`'s, there is nothing to take and nobody writes: until
/// that is done nobody does. The stack's side, which does not wait for the lock either.
pub(super) fn give_back<M: Memory>(memory: &M, generation: u32, give: impl FnOnce()) {
    if !memory.lock() {
        return;
    }
    if is_empty(memory, generation) {
        give();
    }
    memory.unlock();
}

/// Writes all `pieces` for `generation`, or nothing; whether it did. `is_alone` says
/// that nothing is on another way which came before. The program's side.
pub(super) fn put<'a, M: Memory>(
    memory: &M,
    generation: u32,
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
    is_alone: impl FnOnce() -> bool,
) -> bool {
    if memory.sleeps() || !memory.lock() {
        return false;
    }
    let done = put_locked(memory, generation, pieces, is_alone);
    memory.unlock();
    done
}

fn put_locked<'a, M: Memory>(
    memory: &M,
    generation: u32,
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
    is_alone: impl FnOnce() -> bool,
) -> bool {
    let writable =
        |word| State::of::<M>(word).filter(|state| state.generation == kept(generation) && !state.closed);
    let Some(mut before) = writable(memory.word()) else { return false };
    let len = pieces.clone().fold(0_usize, |len, piece| len.saturating_add(piece.len()));
    // Of an empty one the first bytes are used again: they are in the cache.
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
            // Some of what was there was taken; or it is closed now.
            Err(other) => match writable(other) {
                Some(other) => before = other,
                None => return false,
            },
        }
    };
    memory.note();
    if !memory.sleeps() {
        return true;
    }
    // The stack may not have seen it before it fell asleep: only the pair wakes it.
    let empty = State { end: at, ..after };
    memory.exchange(after.word(), empty.word()).is_err()
}

#[cfg(test)]
mod tests;
