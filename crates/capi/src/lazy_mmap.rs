//! Global that is mapped on first use and lives as long as the program.
//!
//! It takes no lock: a lock held by another thread during fork is never released in the child.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// A global that may not be mapped yet.
pub(crate) struct Mapped<T> {
    pointer: AtomicPtr<T>,
    /// Address-space limit (RLIMIT_AS) under which mapping failed with `ENOMEM`.
    refused: AtomicU64,
}

/// Mapping has not failed. No limit has this value.
const NEVER: u64 = u64::MAX;

impl<T: 'static> Mapped<T> {
    pub(crate) const fn new() -> Self {
        Self { pointer: AtomicPtr::new(std::ptr::null_mut()), refused: AtomicU64::new(NEVER) }
    }

    /// The value, once it is mapped.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or made by `get_or`, and never freed.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// The value; `map` makes it on first use. After `ENOMEM`, `map` is not called again under the
    /// same limit, because it may send a request to another process each time.
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
            if self.pointer.compare_exchange(null, new, set, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, and `new` is not shared.
                drop(unsafe { Box::from_raw(new) });
            }
            self.get()
        })
    }
}

/// Address-space limit; the largest possible value if there is none.
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
        assert_eq!(ask(None), (None, 1), "no server");
        assert_eq!(ask(Some(Err(Errno::MFILE))), (None, 1), "EMFILE is retried");
        assert_eq!(ask(Some(Err(Errno::NOMEM))), (None, 1));
        assert_eq!(ask(Some(Ok(7))), (None, 0), "same limit");
        mapped.refused.store(1 << 40, Ordering::Relaxed);
        assert_eq!(ask(Some(Ok(7))), (Some(7), 1), "another limit");
        assert_eq!(ask(Some(Ok(8))), (Some(7), 0));
    }
}
