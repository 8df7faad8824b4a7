//! Simulated work: holds a thread for an exact time without using a core.
//!
//! Services on one machine thus do not steal each other's cores; queues, threads, network and
//! scheduler around the work are real. The runtime's timer has a resolution of a millisecond
//! only. Dropping the future stops the work, as with asynchronous work.

use std::num::NonZeroU64;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use queueing::Span;

/// Works for `span`; dropping the future stops it.
pub async fn work(span: Span) {
    let (held, dropped) = channel::<()>();
    let ends = Instant::now() + Duration::from(span);
    let worked = tokio::task::spawn_blocking(move || {
        wake_exactly();
        // Nothing is ever sent: this returns on timeout, or when `held` is dropped.
        let _ = dropped.recv_timeout(ends.saturating_duration_since(Instant::now()));
    });
    let _ = worked.await;
    drop(held);
}

/// Sets the timer slack of this thread to 1 ns; the default of 50 µs would prolong sleeps.
pub fn wake_exactly() {
    // Kernels without this setting sleep longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
