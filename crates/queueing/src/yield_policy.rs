//! Policy for calling `sched_yield` between units of work.
//!
//! A stack and a program that share a core both have work. If each yields after
//! a unit of work, neither waits for the kernel's time slice of some
//! milliseconds. But `sched_yield` does not choose the next thread: a CPU-bound
//! third thread gets a slice each time. If yields usually last longer than
//! [`LATE`], the policy stops yielding for a while, which doubles each time.
//! The caller reads the clock and makes the system call.

use crate::Span;

/// Policy state.
#[derive(Clone, Copy, Debug, Default)]
pub struct YieldPolicy {
    /// Moving average of the time away from the core, in nanoseconds.
    away_mean_ns: u64,
    /// Units of work before the next yield.
    pause_left: u32,
    /// Length of the last pause between yields, in units of work.
    pause: u32,
}

/// Duration from which a yield counts as late: longer than the peer's unit of work, much shorter
/// than a time slice.
const LATE: Span = Span::from_micros(500);
/// Upper limit of one sample, such as when the machine itself was suspended.
const LATE_MAX: Span = Span::from_millis(4);
/// Inverse of the weight of one sample in the average: small enough that one late return changes
/// nothing.
const SAMPLES: u64 = 16;
/// Initial number of units of work between yields after a late return.
const PAUSE_MIN: u32 = 64;
/// Maximum number of units of work between yields after late returns.
const PAUSE_MAX: u32 = 4096;

impl YieldPolicy {
    /// Policy that yields after every unit of work.
    #[must_use]
    pub const fn new() -> Self {
        Self { away_mean_ns: 0, pause_left: 0, pause: 0 }
    }

    /// True if the core should be yielded after this unit of work.
    #[must_use]
    pub const fn is_due(&mut self) -> bool {
        if self.pause_left > 0 {
            self.pause_left -= 1;
            return false;
        }
        true
    }

    /// Records a yield that lasted `away`.
    pub fn on_return(&mut self, away: Span) {
        self.away_mean_ns = (self.away_mean_ns * (SAMPLES - 1) + away.min(LATE_MAX).as_nanos()) / SAMPLES;
        self.pause = match away >= LATE {
            _ if self.away_mean_ns < LATE.as_nanos() => 0,
            true => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
            // A yield may miss the CPU-bound thread: it shortens the pause by less than half.
            false => self.pause * 3 / 4,
        };
        self.pause_left = self.pause;
    }
}

//~ programs: a CPU-bound neighbor stops the yields of a shared core, which resume when it ends
#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Span = Span::from_micros(200);
    const SLICE: Span = Span::from_millis(4);

    /// Number of yields in `units` units of work, where the nth lasts `away(n)`.
    fn yields(policy: &mut YieldPolicy, units: u32, away: impl Fn(u32) -> Span) -> u32 {
        (0..units).fold(0, |yields, _| {
            let is_due = policy.is_due();
            if is_due {
                policy.on_return(away(yields));
            }
            yields + u32::from(is_due)
        })
    }

    #[test]
    fn short_yields_are_taken_every_time() {
        assert_eq!(yields(&mut YieldPolicy::new(), 1000, |_| SOON), 1000);
    }

    #[test]
    fn a_single_late_return_changes_nothing() {
        let away = |nth| if nth % 100 == 50 { Span::from_secs(1) } else { SOON };
        assert_eq!(yields(&mut YieldPolicy::new(), 1000, away), 1000);
    }

    #[test]
    fn a_cpu_bound_neighbour_stops_the_yields() {
        assert!(yields(&mut YieldPolicy::new(), 100_000, |_| SLICE) < 50);
        // One yield in three costs a slice.
        let third = |nth| if nth % 3 == 0 { SLICE } else { SOON };
        let yields = yields(&mut YieldPolicy::new(), 100_000, third);
        assert!(yields < 2000, "{yields}");
    }

    #[test]
    fn yields_resume_when_the_neighbour_stops() {
        let mut policy = YieldPolicy::new();
        yields(&mut policy, 100_000, |_| SLICE);
        yields(&mut policy, 20_000, |_| SOON);
        assert_eq!(yields(&mut policy, 1000, |_| SOON), 1000);
    }
}
