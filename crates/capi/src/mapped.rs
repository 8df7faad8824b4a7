//! What is mapped when it is needed first, and stays as long as the program.
//!
//! Not behind a lock: one that is held while another thread forks is held for ever in the child.

use std::sync::atomic::{AtomicPtr, Ordering};

/// Perhaps mapped.
pub(crate) struct Mapped<T>(AtomicPtr<T>);

impl<T: 'static> Mapped<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// It, once it is mapped.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or what `get_or` made, which lives as long as the program.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// It; `map` makes it where nobody has before.
    pub(crate) fn get_or(&self, map: impl FnOnce() -> Option<T>) -> Option<&'static T> {
        self.get().or_else(|| {
            let new = Box::into_raw(Box::new(map()?));
            let (set, null) = (Ordering::AcqRel, std::ptr::null_mut());
            if self.0.compare_exchange(null, new, set, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, and nobody else knows of ours.
                drop(unsafe { Box::from_raw(new) });
            }
            self.get()
        })
    }
}
