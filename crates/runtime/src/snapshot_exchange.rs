//! Non-blocking snapshot exchange: an observer posts a buffer, the server fills it in its next
//! loop.
//!
//! It also carries data the other way: the server takes out of the buffer what the observer put in.
//! The server never waits for the observer. It reads one flag per loop and touches the buffer only
//! after a request; while the observer holds the lock, it tries again in the next loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Exchange of one buffer; see the module.
#[derive(Debug, Default)]
pub struct SnapshotExchange<T> {
    asked: AtomicBool,
    shelf: Mutex<Shelf<T>>,
}

#[derive(Debug)]
struct Shelf<T> {
    there: Option<Box<T>>,
    filled: bool,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { there: None, filled: false }
    }
}

impl<T> SnapshotExchange<T> {
    /// Posts `there` for the server to fill or to take from; replaces an unanswered request.
    pub fn request(&self, there: Box<T>) {
        let mut shelf = self.shelf();
        *shelf = Shelf { there: Some(there), filled: false };
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The filled buffer, once the server has filled it.
    pub fn take(&self) -> Option<Box<T>> {
        let mut shelf = self.shelf();
        let filled = std::mem::take(&mut shelf.filled);
        if filled { shelf.there.take() } else { None }
    }

    /// Server side: fills the posted buffer if one was requested.
    #[inline]
    pub fn fill_if_requested(&self, fill: impl FnOnce(&mut T)) {
        if self.asked.load(Ordering::Relaxed) {
            self.fill(fill);
        }
    }

    #[cold]
    fn fill(&self, fill: impl FnOnce(&mut T)) {
        let Ok(mut shelf) = self.shelf.try_lock() else { return };
        if let Some(there) = &mut shelf.there {
            fill(there);
            shelf.filled = true;
        }
        self.asked.store(false, Ordering::Relaxed);
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_filled_once() {
        let hatch = SnapshotExchange::default();
        hatch.fill_if_requested(|_: &mut u32| unreachable!("nothing was requested"));
        hatch.request(Box::new(0));
        assert_eq!(hatch.take(), None, "the server has not looped yet");
        hatch.fill_if_requested(|there| *there = 7);
        hatch.fill_if_requested(|_| unreachable!("the request was answered"));
        assert_eq!(hatch.take().as_deref(), Some(&7));
        assert_eq!(hatch.take(), None);
    }

    #[test]
    fn a_server_does_not_wait_for_a_locked_buffer() {
        let hatch = SnapshotExchange::default();
        hatch.request(Box::new(0));
        let used = hatch.shelf();
        hatch.fill_if_requested(|_: &mut u32| unreachable!("the lock is held"));
        drop(used);
        hatch.fill_if_requested(|there| *there = 1);
        assert_eq!(hatch.take().as_deref(), Some(&1));
    }
}
