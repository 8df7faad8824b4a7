//! Non-blocking snapshot exchange: an observer posts a buffer, the server fills it in its next
//! loop.
//!
//! It also carries data the other way: the server takes data that the observer put into the buffer.
//! The server never waits for the observer. It reads one flag per loop and touches the buffer only
//! after a request; while the observer holds the lock, it tries again in the next loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Exchange of one buffer; see the module.
#[derive(Debug, Default)]
pub struct SnapshotExchange<T> {
    requested: AtomicBool,
    slot: Mutex<Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    buffer: Option<Box<T>>,
    filled: bool,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { buffer: None, filled: false }
    }
}

impl<T> SnapshotExchange<T> {
    /// Posts `buffer` for the server to fill or to take from; replaces an unanswered request.
    pub fn request(&self, buffer: Box<T>) {
        let mut slot = self.slot();
        *slot = Slot { buffer: Some(buffer), filled: false };
        self.requested.store(true, Ordering::Relaxed);
    }

    /// The filled buffer, once the server has filled it.
    pub fn take(&self) -> Option<Box<T>> {
        let mut slot = self.slot();
        let filled = std::mem::take(&mut slot.filled);
        if filled { slot.buffer.take() } else { None }
    }

    /// Server side: fills the posted buffer if one was requested.
    #[inline]
    pub fn fill_if_requested(&self, fill: impl FnOnce(&mut T)) {
        if self.requested.load(Ordering::Relaxed) {
            self.fill(fill);
        }
    }

    #[cold]
    fn fill(&self, fill: impl FnOnce(&mut T)) {
        let Ok(mut slot) = self.slot.try_lock() else { return };
        if let Some(buffer) = &mut slot.buffer {
            fill(buffer);
            slot.filled = true;
        }
        self.requested.store(false, Ordering::Relaxed);
    }

    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_filled_once() {
        let exchange = SnapshotExchange::default();
        exchange.fill_if_requested(|_: &mut u32| unreachable!("nothing was requested"));
        exchange.request(Box::new(0));
        assert_eq!(exchange.take(), None, "the server has not looped yet");
        exchange.fill_if_requested(|buffer| *buffer = 7);
        exchange.fill_if_requested(|_| unreachable!("the request was answered"));
        assert_eq!(exchange.take().as_deref(), Some(&7));
        assert_eq!(exchange.take(), None);
    }

    #[test]
    fn a_server_does_not_wait_for_a_locked_buffer() {
        let exchange = SnapshotExchange::default();
        exchange.request(Box::new(0));
        let used = exchange.slot();
        exchange.fill_if_requested(|_: &mut u32| unreachable!("the lock is held"));
        drop(used);
        exchange.fill_if_requested(|buffer| *buffer = 1);
        assert_eq!(exchange.take().as_deref(), Some(&1));
    }
}
