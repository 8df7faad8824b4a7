//! The time by which layers count: the only clock that this crate reads.
//!
//! Monotonic, so that setting a machine's clock changes nothing. Another one
//! can be given; the timers that cut a wait short are tokio's in either case,
//! set for spans that the given clock measured.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use queueing::Time;
use tokio::time::Instant;

/// A source of time.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> Time + Send + Sync>>);

impl Clock {
    /// The clock that `now` reads; it must not run backwards.
    #[must_use]
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    /// The time now. By default tokio's monotonic clock, which is the
    /// system's unless a test has paused it.
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

/// The epoch: well before the first look, since a paused clock may lag.
static START: LazyLock<Instant> = LazyLock::new(|| {
    let now = std::time::Instant::now();
    Instant::from_std(now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now))
});
