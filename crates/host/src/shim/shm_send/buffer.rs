//! One outbox: the order of accesses that keeps its bytes whole.
//!
//! A word says whose the outbox is, whether it is closed, which of its bytes are
//! written and not taken, and whether the stack is taking them. Who writes holds the lock, or goes through the
//! pair: nobody waits, so nobody who is killed is waited for. He copies his bytes behind the written
//! ones and then moves their end by exchanging the whole word, which fails if the
//! outbox was closed meanwhile or is another connection's now. The stack alone takes,
//! and closes: what it takes after it has closed is all that was written before. Who copies is told of
//! nothing until he exchanges the word, and one that was closed and opened meanwhile is the same: what must
//! not happen under him, as memory that goes back, the stack does while it has the lock.
//!
//! Bytes are taken back when the stack sleeps, but never while it takes: it sets a bit of the word before it
//! reads, and clears it when it moves the start. Without the bit a write of the same length, after one that
//! was taken back, would give the word that the stack has read, and the stack would take the bytes of the first.
//!
//! The lock says which process has it. One that ends with the lock leaves it locked: the stack breaks that
//! lock when the next connection begins. A lock whose process lives is not broken, as that process may
//! yet copy: the outbox stays closed, and the connection takes the pair.
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
    /// Sets bits, likewise; the word that has them.
    fn set(&self, bits: u64) -> u64;
    /// Clears bits, likewise.
    fn clear(&self, bits: u64);
    /// Takes the lock for `holder`, not 0, if nobody has it. Either this sees the word as
    /// [`begin`] has left it, or [`begin`] sees this holder: both sides order the one before the other.
    fn lock(&self, holder: u32) -> bool;
    /// The holder of the lock, 0 if nobody has it; see [`lock`](Self::lock).
    fn holder(&self) -> u32;
    /// Gives it back, if it is still `holder`'s; whether it was.
    fn unlock(&self, holder: u32) -> bool;
    /// Copies `bytes` to place `at`.
    fn write(&self, at: usize, bytes: &[u8]);
    /// Copies the bytes from place `at` on.
    fn read(&self, at: usize, bytes: &mut [u8]);
    /// Notes for the stack that something was written.
    fn note(&self);
    /// Whether the stack sleeps: read after all that was written before, by anybody.
    fn sleeps(&self) -> bool;
}

/// The word: the connection's generation but for its first two bits, then whether the stack is taking, whether
/// it is closed, and where the bytes end and where they start.
const FIELD: u32 = 16;
const PLACE: u64 = (1 << FIELD) - 1;
const CLOSED: u64 = 1 << (2 * FIELD);
const TAKING: u64 = CLOSED << 1;
const GENERATION: u32 = 2 * FIELD + 2;
/// How often the stack looks again at what changes under it: who writes does so once or twice, and
/// a hostile program is not to keep it.
const TRIES: usize = 64;
/// The holder of a lock that is never broken: the stack, and a process whose number is not known.
pub(super) const UNBROKEN: u32 = u32::MAX;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    generation: u32,
    taking: bool,
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
        let (taking, closed) = (word & TAKING != 0, word & CLOSED != 0);
        let state = Self { generation: (word >> GENERATION) as u32, taking, closed, start, end };
        (start <= end && end <= M::BYTES).then_some(state)
    }

    /// The same of `generation`'s, if it is that.
    fn of_generation<M: Memory>(word: u64, generation: u32) -> Option<Self> {
        Self::of::<M>(word).filter(|state| state.generation == kept(generation))
    }

    fn word(self) -> u64 {
        let bits = if self.taking { TAKING } else { 0 } | if self.closed { CLOSED } else { 0 };
        u64::from(self.generation) << GENERATION | bits | (self.end as u64) << FIELD | self.start as u64
    }
}

/// A connection's generation as words have it.
fn kept(generation: u32) -> u32 {
    generation & u32::MAX >> 2
}

/// It is `generation`'s, empty and closed, whoever had it. Whether it may be opened: not
/// while a process writes to it that is not gone, by `is_gone`. The stack's side, as all that follows
/// but [`put`].
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

/// Nothing more is written to it.
pub(super) fn close(memory: &impl Memory) {
    memory.set(CLOSED);
}

/// It is written to again.
pub(super) fn open(memory: &impl Memory) {
    memory.clear(CLOSED);
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// So many bytes.
    pub(super) len: usize,
    /// Where what was written ended.
    pub(super) end: usize,
}

/// Takes what was written, as much as `into` holds.
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
        // Nobody takes back or moves the start of what is there; but there may be more by now.
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

/// True if there is nothing to take.
pub(super) fn is_empty<M: Memory>(memory: &M) -> bool {
    State::of::<M>(memory.word()).is_none_or(|state| state.start == state.end)
}

/// Has `give` give its memory back, if there is nothing to take and nobody writes: until
/// that is done nobody does. The stack does not wait for the lock either.
pub(super) fn give_back<M: Memory>(memory: &M, give: impl FnOnce()) {
    if !memory.lock(UNBROKEN) {
        return;
    }
    if is_empty(memory) {
        give();
    }
    memory.unlock(UNBROKEN);
}

/// Writes all `pieces` for `generation`, or nothing; whether it did. `holder` is the process, and `is_alone`
/// says that nothing is on another way which came before. The program's side.
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
    // The stack may not have seen it before it fell asleep: only the pair wakes it. While it takes it sees this
    // before it is done.
    after.taking || memory.exchange(after.word(), State { end: at, ..after }.word()).is_err()
}

#[cfg(test)]
mod tests;
