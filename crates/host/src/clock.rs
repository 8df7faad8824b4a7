//! The kernel's monotonic clock.
//!
//! Not the time stamp counter: reading that by hand gains some ten
//! nanoseconds and has to be calibrated per machine; the vDSO does it already.

use queueing::{Clock, Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds; [`Clock::compute`] spins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Monotonic {
    /// A clock; all instances read the same time.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// Cost of one reading: the minimum of many, for subtraction from measurements.
    #[must_use]
    pub fn cost(self) -> Span {
        const READINGS: u64 = 64;
        let round = |_| {
            let start = self.now();
            let end = (1..READINGS).fold(start, |_, _| self.now());
            end.since(start) / (READINGS - 1)
        };
        (0..64).map(round).min().unwrap_or_default()
    }
}

/// CPU time of the calling thread. It stands still while others have the core, so a measurement on one
/// thread is the same on a busy machine. A reading is a system call.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTime;

impl Clock for Monotonic {
    fn now(&self) -> Time {
        read(ClockId::Monotonic)
    }

    fn compute(&self, span: Span) {
        spin(self, span);
    }
}

impl Clock for ThreadTime {
    fn now(&self) -> Time {
        read(ClockId::ThreadCPUTime)
    }

    fn compute(&self, span: Span) {
        spin(self, span);
    }
}

fn read(id: ClockId) -> Time {
    let now = clock_gettime(id);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn spin(clock: &impl Clock, span: Span) {
    let end = clock.now() + span;
    while clock.now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let clock = Monotonic::new();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn computing_uses_up_at_least_the_span() {
        let clock = Monotonic::new();
        for span in [Span::ZERO, Span::from_nanos(700), Span::from_micros(20)] {
            let start = clock.now();
            clock.compute(span);
            assert!(clock.now().since(start) >= span);
        }
    }
}
