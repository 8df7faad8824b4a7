//! Where a task is, and how urgently it was woken: one word.
//!
//! A task is idle, queued, or being polled. A wake-up carries a level. It
//! queues an idle task; of a queued one it may better the place; one that
//! comes while the task is polled queues it again afterwards. State and level
//! change together, so no wake-up is lost between them, whichever threads
//! wake: that is what `tests/task_state.rs` checks, with this file's own code.

use super::sync::{AtomicU8, Ordering};

/// The word of one task.
#[derive(Debug)]
pub(crate) struct State(AtomicU8);

/// What whoever woke a task has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeAction {
    /// Put it into its executor's inbox.
    Queue,
    /// Nothing: it is queued as well as that already, is polled, or has ended.
    Nothing,
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const POLLED: u8 = 2;
const ENDED: u8 = 3;
const STATE: u8 = 3;
/// Above the state: the most urgent level it was woken at, 0..=7, or nobody's.
const LEVEL_SHIFT: u32 = 2;
const NO_LEVEL: u8 = 8;

const fn word(state: u8, level: u8) -> u8 {
    state | level << LEVEL_SHIFT
}

impl State {
    /// A task that is queued from the start, at `level`.
    pub fn queued(level: u8) -> Self {
        Self(AtomicU8::new(word(QUEUED, level)))
    }

    /// Somebody wakes it at `level`.
    pub fn wake(&self, level: u8) -> WakeAction {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (state, before) = (seen & STATE, seen >> LEVEL_SHIFT);
            let (next, woken) = match state {
                IDLE => (word(QUEUED, level), WakeAction::Queue),
                QUEUED if level < before => (word(QUEUED, level), WakeAction::Queue),
                POLLED if level < before => (word(POLLED, level), WakeAction::Nothing),
                QUEUED | POLLED => (seen, WakeAction::Nothing),
                _ => return WakeAction::Nothing,
            };
            // Writes even what is there already: whoever polls next sees what
            // came before this wake-up.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return woken,
                Err(now) => seen = now,
            }
        }
    }

    /// The level at which it is queued, if it is.
    pub fn queued_at(&self) -> Option<u8> {
        let seen = self.0.load(Ordering::Acquire);
        (seen & STATE == QUEUED).then_some(seen >> LEVEL_SHIFT)
    }

    /// Starts polling; `false` unless it is queued.
    pub fn begin(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & STATE == QUEUED {
            let next = word(POLLED, NO_LEVEL);
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Polling is over and the task is not; whether it was woken meanwhile and
    /// so is queued again.
    pub fn pause(&self) -> WakeAction {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let level = seen >> LEVEL_SHIFT;
            let (next, woken) = match level {
                NO_LEVEL => (word(IDLE, NO_LEVEL), WakeAction::Nothing),
                _ => (word(QUEUED, level), WakeAction::Queue),
            };
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return woken,
                Err(now) => seen = now,
            }
        }
    }

    /// The task is over.
    pub fn end(&self) {
        self.0.store(word(ENDED, NO_LEVEL), Ordering::Release);
    }
}
