//! Wait of a thread whose CPU account stands still, without system calls.
//!
//! The account shows a wait for a core only once it is over. A thread whose account stands still sleeps or
//! waits; its state tells which, but not since when. A wait counts from the time at which the thread was
//! first seen to be runnable: it may have slept until then.

use queueing::{Span, Time};

/// The kernel updates a thread's account every tick, of 10 ms at most. Its state is read when the account
/// has stood still for longer, and again after the same time.
const STILL: Span = Span::from_millis(12);

/// Account that was last seen to change at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standstill {
    changed: Time,
    /// Time at which the thread's state was last read.
    checked: Time,
    /// Time since which it was runnable at each read of its state.
    runnable_since: Option<Time>,
}

impl Standstill {
    /// The account changes at `now`.
    pub(super) const fn new(now: Time) -> Self {
        Self { changed: now, checked: now, runnable_since: None }
    }

    /// Time at which the account last changed.
    pub(super) const fn changed(&self) -> Time {
        self.changed
    }

    /// True if the thread's state is to be read at `now`.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now.since(self.changed.max(self.checked)) >= STILL
    }

    /// Records the thread's state at `now`.
    pub(super) fn check(&mut self, now: Time, is_runnable: bool) {
        self.checked = now;
        self.runnable_since = self.runnable_since.or(Some(now)).filter(|_| is_runnable);
    }

    /// True if the thread has or waits for a core.
    pub(super) const fn waits(&self) -> bool {
        self.runnable_since.is_some()
    }

    /// Wait so far.
    pub(super) fn wait(&self, now: Time) -> Span {
        self.runnable_since.map_or(Span::ZERO, |since| now.since(since))
    }
}

//~ sched: a thread that slept for long and has just become runnable does not count as one that waited
#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_wait_counts_from_the_first_read_that_shows_it() {
        let mut still = Standstill::new(at(0));
        assert!(!still.is_due(at(11)) && still.is_due(at(12)));
        still.check(at(8000), true);
        assert!(still.waits());
        assert_eq!(still.wait(at(8000)), Span::ZERO, "it slept for eight seconds");
        assert!(!still.is_due(at(8011)));
        still.check(at(8012), true);
        assert_eq!(still.wait(at(8030)), Span::from_millis(30));
        still.check(at(8040), false);
        assert!(!still.waits());
        still.check(at(8052), true);
        assert_eq!(still.wait(at(8060)), Span::from_millis(8), "a new wait");
        assert_eq!(Standstill::new(at(8070)).wait(at(8080)), Span::ZERO, "it ran");
    }
}
