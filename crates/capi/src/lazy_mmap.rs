//! What is mapped when it is needed first, and stays as long as the program.
//!
//! Not behind a lock: one that is held while another thread forks is held for ever in the child.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Perhaps mapped.
pub(crate) struct Mapped<T> {
    place: AtomicPtr<T>,
    /// The limit of address space (RLIMIT_AS) under which there was no memory for it.
    refused: AtomicU64,
}

/// There was memory so far. A limit has no such value, or none at all.
const NEVER: u64 = u64::MAX;

impl<T: 'static> Mapped<T> {
    pub(crate) const fn new() -> Self {
        Self { place: AtomicPtr::new(std::ptr::null_mut()), refused: AtomicU64::new(NEVER) }
    }

    /// It, once it is mapped.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or what `get_or` made, which lives as long as the program.
        unsafe { self.place.load(Ordering::Acquire).as_ref() }
    }

    /// It; `map` makes it where nobody has before. Where there was no memory for it, `map` is not called again
    /// under the same limit: it may ask another process each time.
    pub(crate) fn get_or(&self, map: impl FnOnce() -> Option<Result<T, Errno>>) -> Option<&'static T> {
        self.get().or_else(|| {
            let refused = self.refused.load(Ordering::Relaxed);
            if refused != NEVER && refused == limit() {
                return None;
            }
            let made = map()?.inspect_err(|errno| {
                if *errno == Errno::NOMEM {
                    self.refused.store(limit(), Ordering::Relaxed);
                }
            });
            let new = Box::into_raw(Box::new(made.ok()?));
            let (set, null) = (Ordering::AcqRel, std::ptr::null_mut());
            if self.place.compare_exchange(null, new, set, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, and nobody else knows of ours.
                drop(unsafe { Box::from_raw(new) });
            }
            self.get()
        })
    }
}

/// The limit of address space; without one, the largest there can be.
fn limit() -> u64 {
    getrlimit(Resource::As).current.unwrap_or(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_memory_is_not_asked_for_again() {
        let mapped = Mapped::<u32>::new();
        let mut asked = 0;
        let mut ask = |says: Option<Result<u32, Errno>>| {
            let before = asked;
            let got = mapped.get_or(|| {
                asked += 1;
                says
            });
            (got.copied(), asked - before)
        };
        assert_eq!(ask(None), (None, 1), "there is nobody to ask");
        assert_eq!(ask(Some(Err(Errno::MFILE))), (None, 1), "that may pass");
        assert_eq!(ask(Some(Err(Errno::NOMEM))), (None, 1));
        assert_eq!(ask(Some(Ok(7))), (None, 0), "the limit is the same");
        mapped.refused.store(1 << 40, Ordering::Relaxed);
        assert_eq!(ask(Some(Ok(7))), (Some(7), 1), "it is another");
        assert_eq!(ask(Some(Ok(8))), (Some(7), 0));
    }
}
