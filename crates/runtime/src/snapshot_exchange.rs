//! A hatch in a running server's wall: who asks is given what the server shows,
//! or leaves there what it is to take, and the server never waits for whoever asks.
//!
//! A server's thread looks at one flag each time round. Only when somebody has
//! asked does it fill what lies on the shelf, and where the shelf is being
//! used at that moment it tries again the next time round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
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
    /// Asks the server to fill `there`, or to take what it holds. What was asked
    /// before and is not taken yet is forgotten.
    pub fn request(&self, there: Box<T>) {
        let mut shelf = self.shelf();
        *shelf = Shelf { there: Some(there), filled: false };
        self.asked.store(true, Ordering::Relaxed);
    }

    /// What the server has filled, once it has.
    pub fn take(&self) -> Option<Box<T>> {
        let mut shelf = self.shelf();
        let filled = std::mem::take(&mut shelf.filled);
        if filled { shelf.there.take() } else { None }
    }

    /// The server's side: fills what lies there, if somebody has asked.
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
    fn who_asks_is_answered_once() {
        let hatch = SnapshotExchange::default();
        hatch.fill_if_requested(|_: &mut u32| unreachable!("nobody has asked"));
        hatch.request(Box::new(0));
        assert_eq!(hatch.take(), None, "the server has not come by");
        hatch.fill_if_requested(|there| *there = 7);
        hatch.fill_if_requested(|_| unreachable!("it was answered"));
        assert_eq!(hatch.take().as_deref(), Some(&7));
        assert_eq!(hatch.take(), None);
    }

    #[test]
    fn a_server_does_not_wait_for_a_shelf_in_use() {
        let hatch = SnapshotExchange::default();
        hatch.request(Box::new(0));
        let used = hatch.shelf();
        hatch.fill_if_requested(|_: &mut u32| unreachable!("the shelf is in use"));
        drop(used);
        hatch.fill_if_requested(|there| *there = 1);
        assert_eq!(hatch.take().as_deref(), Some(&1));
    }
}
