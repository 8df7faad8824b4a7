//! Clock of the layers, the only clock that this crate reads.
//!
//! Monotonic, so setting the system time has no effect. Replaceable. Timeouts always use
//! tokio's timers, with spans measured by this clock.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use queueing::Time;
use tokio::time::Instant;

/// Source of time.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> Time + Send + Sync>>);

impl Clock {
    /// Clock that calls `now`, which must not run backwards.
    #[must_use]
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    /// Current time. Default: tokio's monotonic clock, which is the system's unless a test
    /// has paused it.
    #[must_use]
    pub fn now(&self) -> Time {
        match &self.0 {
            Some(now) => now(),
            None => {
                let ago = Instant::now().saturating_duration_since(*START);
                Time::from_nanos(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(given)" } else { "Clock(monotonic)" })
    }
}

/// Epoch, well before the first reading, since a paused clock may lag.
static START: LazyLock<Instant> = LazyLock::new(|| {
    let now = std::time::Instant::now();
    Instant::from_std(now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now))
});
