//! What a thread does that has nothing to do: look again, or sleep.
//!
//! Looking again answers the next frame at once and takes a whole core. That
//! core may be the one on which the kernel is about to hand us frames: its
//! softirq thread then gets its turn when our slice ends, milliseconds later.
//! Sleeping leaves the core and costs a wake-up of some microseconds. So a
//! thread looks again where work usually comes within [`AdaptiveSpin`]'s span, and
//! never for longer; where work usually takes longer it sleeps at once. What
//! is usual is an average over the last gaps.
//!
//! Time comes from the caller; sleeping is the caller's too.
//! Source: competitive spinning (Karlin, Manasse, McGeoch, Owicki, SODA '90),
//! with the gaps' average as in Linux' halt polling (`kernel-parameters.txt`).

use queueing::{Span, Time};

/// What to do without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleAction {
    /// Look again at once.
    Look,
    /// Sleep until a frame comes, for so long at the most.
    Sleep(Span),
}

/// How long it is worth looking for work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveSpin {
    spin: Span,
    sleep_max: Span,
    /// How long gaps without work usually last.
    usual: Span,
    /// When this gap began.
    since: Option<Time>,
}

/// A new gap's share of the average: one in so many.
const SHARE: u64 = 8;
/// A longer gap counts as this many times the span, so that a quiet night is
/// forgotten after some dozen short gaps.
const GAP_MAX: u64 = 4;

impl AdaptiveSpin {
    /// Looks for `spin` before it sleeps, zero: sleeps at once; no sleep is
    /// longer than `sleep_max`.
    pub(crate) const fn new(spin: Span, sleep_max: Span) -> Self {
        Self { spin, sleep_max, usual: Span::ZERO, since: None }
    }

    /// There was work at `now`.
    #[inline]
    pub(crate) fn on_work(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            let gap = now.since(since).min(self.spin * GAP_MAX);
            let usual = (self.usual.as_nanos() * (SHARE - 1) + gap.as_nanos()) / SHARE;
            self.usual = Span::from_nanos(usual);
        }
    }

    /// There is no work at `now`, and none before `timer` but what comes from outside.
    pub(crate) fn rest(&mut self, now: Time, timer: Option<Time>) -> IdleAction {
        let since = *self.since.get_or_insert(now);
        if self.usual <= self.spin && now.since(since) < self.spin {
            return IdleAction::Look;
        }
        IdleAction::Sleep(timer.map_or(self.sleep_max, |at| at.since(now).min(self.sleep_max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Span = Span::from_micros(20);
    const SLEEP_MAX: Span = Span::from_millis(1);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// Gaps of `gap_us`, work in between, until `patience` has got used to them.
    fn used_to(mut patience: AdaptiveSpin, gap_us: u64) -> AdaptiveSpin {
        for n in 0..64 {
            let start = n * (gap_us + 1);
            patience.rest(at(start), None);
            patience.on_work(at(start + gap_us));
        }
        patience
    }

    #[test]
    fn it_looks_for_a_while_and_then_sleeps() {
        let mut patience = AdaptiveSpin::new(SPIN, SLEEP_MAX);
        assert_eq!(patience.rest(at(0), None), IdleAction::Look);
        assert_eq!(patience.rest(at(19), None), IdleAction::Look);
        assert_eq!(patience.rest(at(20), None), IdleAction::Sleep(SLEEP_MAX));
    }

    #[test]
    fn no_sleep_outlasts_a_timer() {
        let mut patience = AdaptiveSpin::new(Span::ZERO, SLEEP_MAX);
        assert_eq!(patience.rest(at(0), Some(at(30))), IdleAction::Sleep(Span::from_micros(30)));
        assert_eq!(patience.rest(at(40), Some(at(30))), IdleAction::Sleep(Span::ZERO), "it is due");
    }

    #[test]
    fn where_gaps_are_usually_long_it_sleeps_at_once() {
        let mut patience = used_to(AdaptiveSpin::new(SPIN, SLEEP_MAX), 50);
        assert_eq!(patience.rest(at(10_000), None), IdleAction::Sleep(SLEEP_MAX));
    }

    #[test]
    fn where_gaps_are_usually_short_it_looks_even_after_a_long_one() {
        let mut patience = used_to(AdaptiveSpin::new(SPIN, SLEEP_MAX), 3);
        patience.rest(at(10_000), None);
        patience.on_work(at(900_000));
        assert_eq!(patience.rest(at(900_001), None), IdleAction::Look);
    }

    #[test]
    fn a_quiet_night_is_forgotten_after_some_short_gaps() {
        let night = used_to(AdaptiveSpin::new(SPIN, SLEEP_MAX), 1_000_000);
        assert_eq!(used_to(night, 3).rest(at(10_000), None), IdleAction::Look);
    }

    #[test]
    fn without_a_span_it_never_looks() {
        let mut patience = used_to(AdaptiveSpin::new(Span::ZERO, SLEEP_MAX), 0);
        assert_eq!(patience.rest(at(10_000), None), IdleAction::Sleep(SLEEP_MAX));
    }
}
