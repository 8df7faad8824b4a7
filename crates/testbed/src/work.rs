//! Work: a wait of exactly so long, with a thread held.
//!
//! It takes no core, so that services on one machine do not steal each
//! other's; queues, threads, wire and scheduler around it are real. A timer of
//! the runtime would do by the millisecond only. Who stops waiting for the
//! work stops it, as dropping a handler does with work that is asynchronous.

use std::num::NonZeroU64;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use queueing::Span;

/// Works for `span`; it stops when the future is dropped.
pub async fn work(span: Span) {
    let (held, dropped) = channel::<()>();
    let ends = Instant::now() + Duration::from(span);
    let worked = tokio::task::spawn_blocking(move || {
        wake_exactly();
        // Nothing is ever sent: this returns at the end, or when `held` is gone.
        let _ = dropped.recv_timeout(ends.saturating_duration_since(Instant::now()));
    });
    let _ = worked.await;
    drop(held);
}

/// Asks the kernel not to let this thread sleep longer than it said, for which
/// it otherwise takes 50 µs.
pub fn wake_exactly() {
    // Where the kernel has no such setting sleeps are as long as they are.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
