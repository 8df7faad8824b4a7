//! State of a task and level of its wake-up, in one atomic word.
//!
//! A task is idle, queued, or being polled. A wake-up has a level. It queues an idle task, may
//! raise a queued one, and queues a task under poll again afterwards. State and level change
//! together, so no wake-up is lost between them, whichever threads wake; `tests/task_state.rs`
//! checks that with this file's code.

use super::sync::{AtomicU8, Ordering};

/// State word of one task.
#[derive(Debug)]
pub(crate) struct State(AtomicU8);

/// Action for the caller of a wake-up.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeAction {
    /// Put the task into its executor's inject queue.
    Queue,
    /// None: it is queued at least as urgently, under poll, or ended.
    Nothing,
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const POLLED: u8 = 2;
const ENDED: u8 = 3;
const STATE: u8 = 3;
/// Above the state: most urgent level of its wake-ups, 0..=7, or [`NO_LEVEL`].
const LEVEL_SHIFT: u32 = 2;
const NO_LEVEL: u8 = 8;

const fn word(state: u8, level: u8) -> u8 {
    state | level << LEVEL_SHIFT
}

impl State {
    /// A task that is queued at `level` from the start.
    pub fn queued(level: u8) -> Self {
        Self(AtomicU8::new(word(QUEUED, level)))
    }

    /// Wakes the task at `level`.
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
            // Also writes an unchanged value, so that the next poll sees all writes before this
            // wake-up.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return woken,
                Err(now) => seen = now,
            }
        }
    }

    /// Level at which the task is queued, if it is queued.
    pub fn queued_at(&self) -> Option<u8> {
        let seen = self.0.load(Ordering::Acquire);
        (seen & STATE == QUEUED).then_some(seen >> LEVEL_SHIFT)
    }

    /// Starts a poll; `false` unless it is queued.
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

    /// Ends a poll of an unfinished task; after a wake-up meanwhile, it is queued again.
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

    /// Ends the task.
    pub fn end(&self) {
        self.0.store(word(ENDED, NO_LEVEL), Ordering::Release);
    }
}
