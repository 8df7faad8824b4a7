//! Test helper that waits for a condition.
//!
//! For a moment, a child forked by another test has a copy of every descriptor before it execs: a
//! closed descriptor may still be open there.

use std::time::{Duration, Instant};

/// Polls until `is` holds.
#[track_caller]
pub(crate) fn soon(mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(30), "the condition does not become true");
        std::thread::yield_now();
    }
}
