//! Idle policy of a polling thread: busy-poll or sleep.
//!
//! Polling answers the next frame at once and takes a whole core. The kernel may need that core to
//! deliver the frames: its softirq thread then runs when our time slice ends, milliseconds later.
//! Sleeping frees the core and costs a wake-up of some microseconds. A thread therefore polls while
//! work usually arrives within [`AdaptiveSpin`]'s span, and never for longer. Where gaps are
//! usually longer it sleeps at once. The usual gap is a moving average.
//!
//! Reads no clock and does not sleep itself: the caller does both.
//! Source: competitive spinning (Karlin, Manasse, McGeoch, Owicki, SODA '90); the average over gaps
//! as in Linux's halt polling (`kernel-parameters.txt`).

use queueing::{Span, Time};

/// Action of a thread without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleAction {
    /// Polls again at once.
    Poll,
    /// Sleeps until a frame arrives, at most this long.
    Sleep(Span),
}

/// Adaptive spinning: polls only while the usual gap without work is short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveSpin {
    spin: Span,
    sleep_max: Span,
    /// Moving average of the gaps without work.
    mean_gap: Span,
    /// Start of the current gap.
    since: Option<Time>,
}

/// Weight of a new gap in the average: 1 / `SHARE`.
const SHARE: u64 = 8;
/// Upper bound of a counted gap, in spans, so that one long gap is forgotten after some dozen short
/// ones.
const GAP_MAX: u64 = 4;

impl AdaptiveSpin {
    /// Spins up to `spin` before each sleep (zero: sleeps at once); no sleep exceeds `sleep_max`.
    pub(crate) const fn new(spin: Span, sleep_max: Span) -> Self {
        Self { spin, sleep_max, mean_gap: Span::ZERO, since: None }
    }

    /// Records work at `now`.
    #[inline]
    pub(crate) fn on_work(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            let gap = now.since(since).min(self.spin * GAP_MAX);
            let mean_gap = (self.mean_gap.as_nanos() * (SHARE - 1) + gap.as_nanos()) / SHARE;
            self.mean_gap = Span::from_nanos(mean_gap);
        }
    }

    /// Idle action at `now`, with no work before `timer` except from outside.
    pub(crate) fn action(&mut self, now: Time, timer: Option<Time>) -> IdleAction {
        let since = *self.since.get_or_insert(now);
        if self.mean_gap <= self.spin && now.since(since) < self.spin {
            return IdleAction::Poll;
        }
        IdleAction::Sleep(timer.map_or(self.sleep_max, |at| at.since(now).min(self.sleep_max)))
    }
}

//~ shards: an idle thread polls while work is likely and then sleeps
#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Span = Span::from_micros(20);
    const SLEEP_MAX: Span = Span::from_millis(1);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// State of `idle` after 64 gaps of `gap_us` with work in between.
    fn after_gaps(mut idle: AdaptiveSpin, gap_us: u64) -> AdaptiveSpin {
        for n in 0..64 {
            let start = n * (gap_us + 1);
            idle.action(at(start), None);
            idle.on_work(at(start + gap_us));
        }
        idle
    }

    #[test]
    fn an_idle_thread_polls_for_the_span_and_then_sleeps() {
        let mut idle = AdaptiveSpin::new(SPIN, SLEEP_MAX);
        assert_eq!(idle.action(at(0), None), IdleAction::Poll);
        assert_eq!(idle.action(at(19), None), IdleAction::Poll);
        assert_eq!(idle.action(at(20), None), IdleAction::Sleep(SLEEP_MAX));
    }

    #[test]
    fn no_sleep_outlasts_a_timer() {
        let mut idle = AdaptiveSpin::new(Span::ZERO, SLEEP_MAX);
        assert_eq!(idle.action(at(0), Some(at(30))), IdleAction::Sleep(Span::from_micros(30)));
        assert_eq!(idle.action(at(40), Some(at(30))), IdleAction::Sleep(Span::ZERO), "it is due");
    }

    #[test]
    fn after_long_gaps_the_thread_sleeps_at_once() {
        let mut idle = after_gaps(AdaptiveSpin::new(SPIN, SLEEP_MAX), 50);
        assert_eq!(idle.action(at(10_000), None), IdleAction::Sleep(SLEEP_MAX));
    }

    #[test]
    fn after_short_gaps_one_long_gap_does_not_stop_polling() {
        let mut idle = after_gaps(AdaptiveSpin::new(SPIN, SLEEP_MAX), 3);
        idle.action(at(10_000), None);
        idle.on_work(at(900_000));
        assert_eq!(idle.action(at(900_001), None), IdleAction::Poll);
    }

    #[test]
    fn a_very_long_gap_is_outweighed_by_64_short_ones() {
        let idle = after_gaps(AdaptiveSpin::new(SPIN, SLEEP_MAX), 1_000_000);
        assert_eq!(after_gaps(idle, 3).action(at(10_000), None), IdleAction::Poll);
    }

    #[test]
    fn with_a_zero_span_the_thread_never_polls() {
        let mut idle = after_gaps(AdaptiveSpin::new(Span::ZERO, SLEEP_MAX), 0);
        assert_eq!(idle.action(at(10_000), None), IdleAction::Sleep(SLEEP_MAX));
    }
}
