//! Waiting, in tests, for what happens soon and not at once.
//!
//! The child of another test that has forked and not yet run its program has a copy of every
//! descriptor for a moment: what nobody here has any more may be there still.

use std::time::{Duration, Instant};

/// Looks until `is` holds.
#[track_caller]
pub(crate) fn soon(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not happen");
        std::thread::yield_now();
    }
}
