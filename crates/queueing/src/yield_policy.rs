//! Whether to give the core away between two pieces of work.
//!
//! A stack and a program that share a core both have work, and the kernel
//! changes between the two when a slice ends, some milliseconds later. Where
//! each gives the core away after a piece of work, nobody waits longer than
//! that piece takes. `sched_yield` does not say to whom the core goes: whoever
//! computes beside the two has a slice of it each time. So who is usually away
//! for longer than [`LATE`] keeps the core for a while, twice as long each
//! time. Time comes from the caller; the system call is the caller's too.

use crate::Span;

/// What became of it so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct YieldPolicy {
    /// How long the core is usually away, in nanoseconds.
    usual_ns: u64,
    /// Pieces of work before it is given away again.
    keeps: u32,
    /// How many they were last time.
    kept: u32,
}

/// Longer than the other's piece of work; much shorter than a slice.
const LATE: Span = Span::from_micros(500);
/// One that is later, such as when the machine itself stood still, counts as this.
const LATE_MAX: Span = Span::from_millis(4);
/// One time's share of what is usual: one in so many, so that one alone is no habit.
const SHARE: u64 = 16;
/// Pieces of work for which the core is kept, at first and at most.
const KEEPS: u32 = 64;
const KEEPS_MAX: u32 = 4096;

impl YieldPolicy {
    /// Nobody was late yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { usual_ns: 0, keeps: 0, kept: 0 }
    }

    /// After a piece of work: whether to give the core away now.
    #[must_use]
    pub const fn is_due(&mut self) -> bool {
        if self.keeps > 0 {
            self.keeps -= 1;
            return false;
        }
        true
    }

    /// The core was given away, and came back after so long.
    pub fn on_back(&mut self, away: Span) {
        self.usual_ns = (self.usual_ns * (SHARE - 1) + away.min(LATE_MAX).as_nanos()) / SHARE;
        self.kept = match away >= LATE {
            _ if self.usual_ns < LATE.as_nanos() => 0,
            true => (self.kept * 2).clamp(KEEPS, KEEPS_MAX),
            // Who computes is not always next: that takes back less than half.
            false => self.kept * 3 / 4,
        };
        self.keeps = self.kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Span = Span::from_micros(200);
    const SLICE: Span = Span::from_millis(4);

    /// How often of `pieces` the core was given away, where it comes back after what `away` says
    /// for each time.
    fn given(yielding: &mut YieldPolicy, pieces: u32, away: impl Fn(u32) -> Span) -> u32 {
        (0..pieces).fold(0, |given, _| {
            let is_due = yielding.is_due();
            if is_due {
                yielding.on_back(away(given));
            }
            given + u32::from(is_due)
        })
    }

    #[test]
    fn who_is_back_soon_gives_way_each_time() {
        assert_eq!(given(&mut YieldPolicy::new(), 1000, |_| SOON), 1000);
    }

    #[test]
    fn one_that_is_late_changes_nothing_however_late() {
        let away = |nth| if nth % 100 == 50 { Span::from_secs(1) } else { SOON };
        assert_eq!(given(&mut YieldPolicy::new(), 1000, away), 1000);
    }

    #[test]
    fn beside_somebody_who_computes_the_core_is_kept() {
        assert!(given(&mut YieldPolicy::new(), 100_000, |_| SLICE) < 50);
        // A slice for one time in three.
        let third = |nth| if nth % 3 == 0 { SLICE } else { SOON };
        let given = given(&mut YieldPolicy::new(), 100_000, third);
        assert!(given < 2000, "{given}");
    }

    #[test]
    fn when_nobody_computes_any_more_way_is_given_again() {
        let mut yielding = YieldPolicy::new();
        given(&mut yielding, 100_000, |_| SLICE);
        given(&mut yielding, 20_000, |_| SOON);
        assert_eq!(given(&mut yielding, 1000, |_| SOON), 1000);
    }
}
