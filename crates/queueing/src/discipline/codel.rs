//! Controlled delay: a queue may be long for a moment and not for long.
//!
//! Looks at how long each leaving entry has waited. Once everything that left
//! during a whole `interval` had waited at least `target`, one entry is told
//! (marked, or dropped), and from then on, while that lasts, one at ever
//! shorter distances, `interval / √count`. A queue of no more than one entry is
//! never too long. Only decides; [`AqmQueue`] tells.
//!
//! The RFC drops in a loop until the entry that is served is found. Here each
//! entry comes out one by one, and what the loop knew between two of them is
//! `undecided`; the decisions are the same.
//! Source: RFC 8289 §3 to §5 (the law, and how it starts again after a pause).
//!
//! [`AqmQueue`]: super::Managed

use crate::{Bytes, Span, Time};

/// The control law of one queue.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Span,
    interval: Span,
    entry_max: Bytes,
    /// When the wait, if it stays above the target, has been so for an interval.
    persists_at: Option<Time>,
    /// Whether entries are being told.
    dropping: bool,
    /// When the next one is.
    next: Time,
    /// Entries told since that began.
    count: u32,
    /// What `count` began with.
    count_first: u32,
    /// One was told; whether that was enough is seen by the entry after it.
    undecided: bool,
}

impl CoDel {
    /// At most `target` of lasting wait, looked at over `interval`, about the
    /// longest round trip; in a queue whose largest entry is `entry_max`.
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
            next: Time::ZERO,
            count: 0,
            count_first: 0,
            undecided: false,
        }
    }

    /// Whether the entry that leaves at `now` after `waited` is told, where
    /// `left` bytes stay behind it.
    pub fn hits(&mut self, now: Time, waited: Span, left: Bytes) -> bool {
        let persists = self.persists(now, waited, left);
        if !self.dropping {
            if persists {
                self.begin(now);
            }
            return persists;
        }
        if std::mem::take(&mut self.undecided) && persists {
            self.next = self.after(self.next);
        }
        self.dropping = persists;
        let hit = persists && now >= self.next;
        if hit {
            self.count += 1;
            self.undecided = true;
        }
        hit
    }

    /// Whether the wait has been above the target for an interval.
    fn persists(&mut self, now: Time, waited: Span, left: Bytes) -> bool {
        if waited < self.target || left <= self.entry_max {
            self.persists_at = None;
            return false;
        }
        now >= *self.persists_at.get_or_insert(now + self.interval)
    }

    /// Begins to tell entries: where it last stopped, if that is not long ago.
    fn begin(&mut self, now: Time) {
        let told = self.count - self.count_first;
        let recent = now.since(self.next) < self.interval * 16;
        self.count = if told > 1 && recent { told } else { 1 };
        self.count_first = self.count;
        self.dropping = true;
        self.next = self.after(now);
    }

    /// When the next is told, one having been at `at`.
    fn after(&self, at: Time) -> Time {
        let ns = self.interval.as_nanos() as f64 / f64::from(self.count).sqrt();
        at + Span::from_nanos(ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marked instants, in µs, of a queue that is looked at every 10 µs and
    /// whose entries have waited as `waited_us` says; target 50 µs, interval 1 ms.
    fn told(codel: &mut CoDel, from_us: u64, to_us: u64, waited_us: u64) -> Vec<u64> {
        let us = |n: u64| Time::ZERO + Span::from_micros(n);
        let waited = Span::from_micros(waited_us);
        let looks = (from_us..to_us).step_by(10);
        looks.filter(|&now| codel.hits(us(now), waited, Bytes::new(9_000))).collect()
    }

    fn codel() -> CoDel {
        CoDel::new(Span::from_micros(50), Span::from_millis(1), Bytes::new(1_500))
    }

    /// 1 ms after the wait was first seen above the target; then after
    /// 1000/√1, 1000/√2 = 707, 577, 500 µs: 1000, 2000, 2707, 3284, 3784, each
    /// at the next look.
    #[test]
    fn lasting_wait_is_told_at_distances_that_shrink_with_the_root_of_the_count() {
        assert_eq!(told(&mut codel(), 0, 4_000, 60), [1_000, 2_000, 2_710, 3_290, 3_790]);
    }

    #[test]
    fn a_burst_that_drains_within_an_interval_is_let_pass() {
        let mut codel = codel();
        for round in 0..20 {
            let from = round * 1_000;
            assert!(told(&mut codel, from, from + 990, 800).is_empty());
            assert!(told(&mut codel, from + 990, from + 1_000, 49).is_empty(), "below the target once");
        }
    }

    #[test]
    fn a_queue_of_one_entry_is_never_too_long() {
        let mut codel = codel();
        let hit = |now| codel.hits(Time::from_nanos(now), Span::from_secs(1), Bytes::new(1_500));
        assert!(!(0..100).map(|n| n * 1_000_000).any(hit));
    }

    /// Five were told, so it starts at a count of four: 1000/√4 apart. After
    /// 16 intervals of peace it starts at one.
    #[test]
    fn soon_after_it_goes_on_where_it_stopped_and_later_from_the_beginning() {
        let mut first = codel();
        assert_eq!(told(&mut first, 0, 4_000, 60).len(), 5);
        assert!(told(&mut first, 4_000, 4_010, 10).is_empty());
        let mut soon = first.clone();
        assert_eq!(told(&mut soon, 5_000, 6_600, 60), [6_000, 6_500]);
        assert_eq!(told(&mut first, 30_000, 32_010, 60), [31_000, 32_000]);
    }

    /// What is dropped leaves at the same instant as the next, which is told
    /// too if its time has come: a high rate drops several in a row.
    #[test]
    fn several_leave_in_a_row_when_the_law_is_behind() {
        let mut codel = codel();
        assert_eq!(told(&mut codel, 0, 1_010, 60), [1_000]);
        let late = Time::ZERO + Span::from_micros(3_300);
        let hit = |_| codel.hits(late, Span::from_micros(90), Bytes::new(9_000));
        // Due at 2000, 2707 and 3284; the next at 3784.
        assert_eq!((0..4).map(hit).collect::<Vec<_>>(), [true, true, true, false]);
    }
}
