//! Open-loop pacing: requests are sent at their planned times, independent of answers.

use std::time::{Duration, Instant};

use queueing::Span;

use crate::Planned;
use crate::work::wake_exactly;

/// Calls `send` for each request of `plan` at its planned time after `start`, on the calling
/// thread; `send` must not block. Returns the largest delay.
pub fn send_all(start: Instant, plan: &[Planned], mut send: impl FnMut(usize, &Planned)) -> Span {
    wake_exactly();
    let mut delay_max = Span::ZERO;
    for (request, planned) in plan.iter().enumerate() {
        let send_at = start + Duration::from(planned.send_at);
        std::thread::sleep(send_at.saturating_duration_since(Instant::now()));
        send(request, planned);
        delay_max = delay_max.max(since(send_at));
    }
    delay_max
}

/// Time since `instant`; zero if it is in the future.
#[must_use]
pub fn since(instant: Instant) -> Span {
    Span::from_nanos(u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
