//! Open-loop pacing: requests are sent at their planned times, independent of answers.

use std::time::{Duration, Instant};

use queueing::Span;

use crate::Planned;
use crate::work::wake_exactly;

/// Calls `send` for each request of `plan` at its planned time after `zero`, on the calling
/// thread; `send` must not block. Returns the largest delay.
pub fn send_all(zero: Instant, plan: &[Planned], mut send: impl FnMut(usize, &Planned)) -> Span {
    wake_exactly();
    let mut latest = Span::ZERO;
    for (request, planned) in plan.iter().enumerate() {
        let birth = zero + Duration::from(planned.birth);
        std::thread::sleep(birth.saturating_duration_since(Instant::now()));
        send(request, planned);
        latest = latest.max(since(birth));
    }
    latest
}

/// Time since `instant`; zero if it is in the future.
#[must_use]
pub fn since(instant: Instant) -> Span {
    Span::from_nanos(u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
