//! Accept queues from which no connection is accepted while other queues are served.
//!
//! A worker that hangs, or a port whose program no longer accepts, leaves connections at the head of
//! its queue. Their wait says nothing about the server's load: shedding does not shorten it, and would
//! refuse requests to the listeners that work. Such a queue is reported and left out of the signals.
//! Where no queue is served the server is stalled or overloaded as a whole, and none is left out.

use queueing::{Span, Time};

use super::accept_queue::Queue;

/// Connections at the heads of the queues.
#[derive(Clone, Debug, Default)]
pub(super) struct StuckQueues {
    heads: Vec<Head>,
}

/// Connection that was the head of a queue at the last control step.
#[derive(Clone, Copy, Debug)]
struct Head {
    port: u16,
    first: u64,
    /// When it was first seen at the head, and the connections accepted from all queues by then.
    first_seen: Time,
    accepted: u64,
}

impl StuckQueues {
    /// True for each of `queues` that is stuck at `now`; `accepted`: connections accepted from all of
    /// them so far.
    pub fn find(&mut self, now: Time, accepted: u64, queues: &[Queue]) -> Vec<bool> {
        let before = std::mem::take(&mut self.heads);
        let others = queues.len().saturating_sub(1) as u64;
        let is_stuck = |queue: &Queue| {
            let Queue { port, first, .. } = *queue;
            if first == 0 {
                return false;
            }
            let same = |head: &&Head| (head.port, head.first) == (port, first);
            let new = Head { port, first, first_seen: now, accepted };
            let head = before.iter().find(same).copied().unwrap_or(new);
            self.heads.push(head);
            let accepted_since = accepted.saturating_sub(head.accepted);
            others > 0 && now.since(head.first_seen) >= AGE_MIN && accepted_since >= ACCEPTED_MIN * others
        };
        queues.iter().map(is_stuck).collect()
    }
}

/// Least time at the head, and connections accepted from each other queue meanwhile.
const AGE_MIN: Span = Span::from_millis(200);
const ACCEPTED_MIN: u64 = 16;

//~ guard: a queue that is not served while others are sheds no connection, and is reported
#[cfg(test)]
mod tests {
    use super::*;

    fn queue(port: u16, waiting: u32, since_ms: u64) -> Queue {
        let since = Time::ZERO + Span::from_millis(since_ms);
        Queue { port, waiting, room: 128, first: since.as_nanos(), since: Some(since) }
    }

    #[test]
    fn a_queue_is_stuck_while_others_are_served_and_not_before() {
        // Connections accepted from the other queue per control step, and the step that finds the first one
        // stuck.
        for (per_look, expected) in [(10, Some(20)), (1, Some(20)), (0, None)] {
            let mut stuck = StuckQueues::default();
            let found = (0..100).find(|look| {
                let now = Time::ZERO + Span::from_millis(1_000 + 10 * look);
                let other = queue(80, 3, 990 + 10 * look);
                stuck.find(now, per_look * look, &[queue(8443, 2, 900), other])[0]
            });
            assert_eq!(found, expected, "{per_look}");
        }
    }

    #[test]
    fn queues_that_take_turns_are_not_stuck() {
        // Eight workers, 300 ms for each request.
        let mut stuck = StuckQueues::default();
        for look in 0..500_u64 {
            let now = Time::ZERO + Span::from_millis(1_000 + 10 * look);
            let queues: Vec<_> =
                (0..8).map(|worker| queue(80, 9, worker + 300 * ((10 * look + 37 * worker) / 300))).collect();
            let accepted = 8 * look / 30;
            assert_eq!(stuck.find(now, accepted, &queues), [false; 8], "look {look}");
        }
    }

    #[test]
    fn a_queue_that_is_served_again_counts_again() {
        let mut stuck = StuckQueues::default();
        let mut find = |look: u64, since_ms| {
            let now = Time::ZERO + Span::from_millis(1_000 + 10 * look);
            stuck.find(now, 20 * look, &[queue(8443, 2, since_ms), queue(80, 3, 990 + 10 * look)])
        };
        assert!((0..30).any(|look| find(look, 900)[0]));
        assert_eq!(find(30, 950), [false; 2]);
    }
}
