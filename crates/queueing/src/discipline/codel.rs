//! CoDel: controlled delay, which allows bursts but not a standing queue.
//!
//! Measures the wait of each departing entry. Once every wait in a whole
//! `interval` was at least `target`, one entry is marked or dropped, and, while
//! that lasts, further ones at shrinking distances, `interval / √count`. A queue
//! of at most one entry is never too long. Only decides; [`AqmQueue`] marks.
//!
//! The RFC drops in a loop until it finds the entry to serve. Here each entry
//! leaves through its own call, and `undecided` holds the state between two
//! iterations; the decisions are the same.
//! Source: RFC 8289 §3 to §5 (control law, and restart after a pause).
//!
//! [`AqmQueue`]: super::AqmQueue

use crate::{Bytes, Span, Time};

/// Control law of one queue.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Span,
    interval: Span,
    entry_max: Bytes,
    /// Time at which the wait, if it stays above the target, has been so for an interval.
    persists_at: Option<Time>,
    /// True in the dropping state.
    dropping: bool,
    /// Time of the next mark or drop.
    next_at: Time,
    /// Marks and drops in this dropping state, plus the initial count.
    count: u32,
    /// Initial value of `count` in this dropping state.
    count_first: u32,
    /// True after a mark or drop, until the next entry shows if it was enough.
    undecided: bool,
}

impl CoDel {
    /// Control law that allows `target` of standing wait, measured over `interval`,
    /// about the longest round trip, in a queue whose largest entry is `entry_max`.
    /// Source: RFC 8289 §4.2 to §4.4 (target 5 to 10 % of the interval; 5 ms and
    /// 100 ms in the Internet).
    #[must_use]
    pub const fn new(target: Span, interval: Span, entry_max: Bytes) -> Self {
        Self {
            target,
            interval,
            entry_max,
            persists_at: None,
            dropping: false,
            next_at: Time::ZERO,
            count: 0,
            count_first: 0,
            undecided: false,
        }
    }

    /// True if the entry that leaves at `now` after `waited` is to be marked or
    /// dropped; `left` bytes remain queued.
    pub fn should_mark(&mut self, now: Time, waited: Span, left: Bytes) -> bool {
        let persists = self.persists(now, waited, left);
        if !self.dropping {
            if persists {
                self.enter_dropping(now);
            }
            return persists;
        }
        if std::mem::take(&mut self.undecided) && persists {
            self.next_at = self.next_after(self.next_at);
        }
        self.dropping = persists;
        let mark = persists && now >= self.next_at;
        if mark {
            self.count += 1;
            self.undecided = true;
        }
        mark
    }

    /// True if the wait has been above the target for an interval.
    fn persists(&mut self, now: Time, waited: Span, left: Bytes) -> bool {
        if waited < self.target || left <= self.entry_max {
            self.persists_at = None;
            return false;
        }
        now >= *self.persists_at.get_or_insert(now + self.interval)
    }

    /// Enters the dropping state, with the last count if the last state is recent.
    fn enter_dropping(&mut self, now: Time) {
        let marks = self.count - self.count_first;
        let recent = now.since(self.next_at) < self.interval * 16;
        self.count = if marks > 1 && recent { marks } else { 1 };
        self.count_first = self.count;
        self.dropping = true;
        self.next_at = self.next_after(now);
    }

    /// Time of the next mark, after one at `at`.
    fn next_after(&self, at: Time) -> Time {
        let ns = self.interval.as_nanos() as f64 / f64::from(self.count).sqrt();
        at + Span::from_nanos(ns as u64)
    }
}

//~ fabric: CoDel and RED follow their laws as worked out by hand (RFC 8289)
#[cfg(test)]
mod tests {
    use super::*;

    /// Times of marks in µs, with one departure every 10 µs and a constant wait of
    /// `waited_us`; target 50 µs, interval 1 ms.
    fn mark_times(codel: &mut CoDel, from_us: u64, to_us: u64, waited_us: u64) -> Vec<u64> {
        let us = |n: u64| Time::ZERO + Span::from_micros(n);
        let waited = Span::from_micros(waited_us);
        let departures = (from_us..to_us).step_by(10);
        departures.filter(|&now| codel.should_mark(us(now), waited, Bytes::new(9_000))).collect()
    }

    fn codel() -> CoDel {
        CoDel::new(Span::from_micros(50), Span::from_millis(1), Bytes::new(1_500))
    }

    /// The wait is above the target from 0. Marks are due 1 ms later and then after
    /// 1000/√1, 1000/√2 = 707, 577, 500 µs: at 1000, 2000, 2707, 3284 and 3784, each
    /// at the next departure.
    #[test]
    fn marks_follow_the_inverse_square_root_law() {
        assert_eq!(mark_times(&mut codel(), 0, 4_000, 60), [1_000, 2_000, 2_710, 3_290, 3_790]);
    }

    #[test]
    fn a_burst_that_drains_within_an_interval_is_not_marked() {
        let mut codel = codel();
        for round in 0..20 {
            let from = round * 1_000;
            assert!(mark_times(&mut codel, from, from + 990, 800).is_empty());
            assert!(mark_times(&mut codel, from + 990, from + 1_000, 49).is_empty(), "below the target once");
        }
    }

    #[test]
    fn a_queue_of_one_entry_is_never_too_long() {
        let mut codel = codel();
        let mark = |now| codel.should_mark(Time::from_nanos(now), Span::from_secs(1), Bytes::new(1_500));
        assert!(!(0..100).map(|n| n * 1_000_000).any(mark));
    }

    /// Five marks give a restart at a count of four: 1000/√4 apart. After 16
    /// intervals without a mark it restarts at one.
    #[test]
    fn a_soon_restart_resumes_the_count_and_a_late_one_resets_it() {
        let mut first = codel();
        assert_eq!(mark_times(&mut first, 0, 4_000, 60).len(), 5);
        assert!(mark_times(&mut first, 4_000, 4_010, 10).is_empty());
        let mut soon = first.clone();
        assert_eq!(mark_times(&mut soon, 5_000, 6_600, 60), [6_000, 6_500]);
        assert_eq!(mark_times(&mut first, 30_000, 32_010, 60), [31_000, 32_000]);
    }

    /// A dropped entry leaves at the same instant as the next one, which is dropped
    /// too if due: a high rate drops several in a row.
    #[test]
    fn overdue_drops_follow_each_other() {
        let mut codel = codel();
        assert_eq!(mark_times(&mut codel, 0, 1_010, 60), [1_000]);
        let late = Time::ZERO + Span::from_micros(3_300);
        let mark = |_| codel.should_mark(late, Span::from_micros(90), Bytes::new(9_000));
        // Due at 2000, 2707 and 3284; the next at 3784.
        assert_eq!((0..4).map(mark).collect::<Vec<_>>(), [true, true, true, false]);
    }
}
