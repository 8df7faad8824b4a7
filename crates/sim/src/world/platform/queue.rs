//! Request queues of servers, composed of the queues of `sched` and `deadline`.
//!
//! | events | deadline | order |
//! |---|---|---|
//! | off | off | arrival (`sched`'s `fcfs`) |
//! | on | off | level, then arrival (`strict`, ADPS) |
//! | off | on | earliest deadline; infeasible requests are dropped (D2P) |
//! | on | on | level, then earliest deadline |

use deadline::{DeadlineQueue, DequeueResult, EnqueueResult, Order, QueueSettings, Shedding, Slack, Work};
use queueing::{Label, Priority, Span, Time};
use sched::dispatch::{Dispatch, IdleWorkers, Params, Task, WorkerSet, by_name};

use crate::cores::{Offer, RequestQueue};

/// Queue of `capacity` requests, for the mechanisms that are on.
pub(super) fn queue(events: bool, deadline: bool, capacity: usize) -> Box<dyn RequestQueue> {
    if !deadline {
        let name = if events { "strict" } else { "fcfs" };
        let policy = by_name(name, &Params::new(1, capacity)).expect("sched has these orders");
        return Box::new(EventQueue { policy, offers: Vec::new(), free: Vec::new() });
    }
    let settings = QueueSettings {
        capacity,
        order: Order::Edf,
        shedding: Shedding::Infeasible,
        age_max: Span::from_secs(1),
    };
    let levels = if events { Priority::LEVELS } else { 1 };
    let levels = (0..levels).map(|_| DeadlineQueue::new(settings)).collect();
    Box::new(DeadlineQueues { levels, capacity, late: 0 })
}

/// Event queue.
struct EventQueue {
    policy: Box<dyn Dispatch>,
    /// Waiting requests, by task token.
    offers: Vec<Option<Offer>>,
    free: Vec<usize>,
}

impl RequestQueue for EventQueue {
    fn push(&mut self, now: Time, offer: Offer) -> Option<u64> {
        let index = self.free.pop().unwrap_or(self.offers.len());
        let label = Label::new(offer.label.priority);
        let task = Task { token: index as u64, label, kind: None };
        if self.policy.push(now, task).is_err() {
            if index < self.offers.len() {
                self.free.push(index);
            }
            return Some(offer.token);
        }
        match self.offers.get_mut(index) {
            Some(free) => *free = Some(offer),
            None => self.offers.push(Some(offer)),
        }
        None
    }

    fn next(&mut self, now: Time, _shed: &mut Vec<u64>) -> Option<Offer> {
        let idle = IdleWorkers { accepting: [WorkerSet::first(1); Priority::LEVELS] };
        let (_, task) = self.policy.assign(now, &idle)?;
        let index = task.token as usize;
        self.free.push(index);
        self.offers[index].take()
    }

    fn oldest(&self) -> Option<Time> {
        self.policy.oldest()
    }

    fn len(&self) -> usize {
        self.policy.len()
    }

    fn has_late_request(&self) -> bool {
        false
    }
}

impl Work for Offer {}

/// Deadline queues, one per level or one for all.
struct DeadlineQueues {
    levels: Vec<DeadlineQueue<Offer>>,
    capacity: usize,
    /// Number of queued requests that were late on arrival.
    late: usize,
}

impl DeadlineQueues {
    fn on_leave(&mut self, offer: &Offer) {
        self.late -= usize::from(is_late(offer));
    }
}

fn is_late(offer: &Offer) -> bool {
    offer.label.deadline.is_some_and(|left| Slack::of_expected(left, offer.expected, None) == Slack::Behind)
}

impl RequestQueue for DeadlineQueues {
    fn push(&mut self, now: Time, offer: Offer) -> Option<u64> {
        if self.len() >= self.capacity {
            return Some(offer.token);
        }
        let index = offer.label.priority.index().min(self.levels.len() - 1);
        self.late += usize::from(is_late(&offer));
        match self.levels[index].enqueue(now, offer) {
            EnqueueResult::Queued => None,
            EnqueueResult::Refused(rejected, _) | EnqueueResult::Replaced(rejected, _) => {
                self.on_leave(&rejected);
                Some(rejected.token)
            }
        }
    }

    fn next(&mut self, now: Time, shed: &mut Vec<u64>) -> Option<Offer> {
        for level in 0..self.levels.len() {
            while let Some(result) = self.levels[level].dequeue(now) {
                let (DequeueResult::Serve(offer) | DequeueResult::Shed(offer, _)) = &result;
                let offer = *offer;
                self.on_leave(&offer);
                match result {
                    DequeueResult::Serve(_) => return Some(offer),
                    DequeueResult::Shed(..) => shed.push(offer.token),
                }
            }
        }
        None
    }

    fn oldest(&self) -> Option<Time> {
        self.levels.iter().filter_map(DeadlineQueue::oldest).min()
    }

    fn len(&self) -> usize {
        self.levels.iter().map(DeadlineQueue::len).sum()
    }

    fn has_late_request(&self) -> bool {
        self.late > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(token: u64, level: u8, left_us: u64) -> Offer {
        let us = Span::from_micros;
        let label = Label { priority: Priority::new(level).expect("a level"), deadline: Some(us(left_us)) };
        Offer { token, work: us(10), label, expected: us(10) }
    }

    /// Requests served and shed, of the same four, 60 µs after their arrival.
    fn order(events: bool, deadline: bool) -> (Vec<u64>, Vec<u64>) {
        let mut queue = queue(events, deadline, 8);
        for (token, level, left_us) in [(1, 5, 300), (2, 2, 800), (3, 2, 200), (4, 2, 65)] {
            assert_eq!(queue.push(Time::ZERO, offer(token, level, left_us)), None);
        }
        let (mut served, mut shed, now) = (Vec::new(), Vec::new(), Time::from_nanos(60_000));
        while let Some(offer) = queue.next(now, &mut shed) {
            served.push(offer.token);
        }
        assert_eq!((queue.len(), queue.oldest(), queue.has_late_request()), (0, None, false));
        (served, shed)
    }

    //~ platform: each switch changes its own mechanism only
    #[test]
    fn each_mechanism_changes_only_its_part_of_the_order() {
        assert_eq!(order(false, false), (vec![1, 2, 3, 4], vec![]));
        assert_eq!(order(true, false), (vec![2, 3, 4, 1], vec![]));
        assert_eq!(order(false, true), (vec![3, 1, 2], vec![4]));
        assert_eq!(order(true, true), (vec![3, 2, 1], vec![4]));
    }

    #[test]
    fn a_full_queue_returns_the_rejected_request() {
        for (events, deadline) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut queue = queue(events, deadline, 2);
            let pushed: Vec<_> = (1..=3).map(|n| queue.push(Time::ZERO, offer(n, 2, 900))).collect();
            assert_eq!(pushed, [None, None, Some(3)]);
            assert_eq!(queue.len(), 2);
        }
    }

    #[test]
    fn a_late_request_demands_a_core_while_it_waits() {
        let mut queue = queue(true, true, 8);
        assert_eq!(queue.push(Time::ZERO, offer(1, 2, 900)), None);
        assert!(!queue.has_late_request());
        assert_eq!(queue.push(Time::ZERO, offer(2, 2, 19)), None);
        assert!(queue.has_late_request());
        assert_eq!(queue.next(Time::ZERO, &mut Vec::new()).map(|offer| offer.token), Some(2));
        assert!(!queue.has_late_request());
    }
}
