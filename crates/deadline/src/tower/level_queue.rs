//! Deadline queues by level: the most urgent level first, and within a level the queue's own order.
//!
//! The order of a label, as the dispatch policy `strict-edf`. Bound: `capacity` entries over all
//! levels; a full queue refuses an entry unless it can remove one of a less urgent level.
//! Starvation: unlike `strict-edf`, a level whose oldest entry has waited [`QueueSettings::age_max`]
//! is served after [`PASSED_IN_A_ROW`] others. So an entry is passed over for that time, and then
//! by nine times the entries before it at most; one with a deadline expires before.

use queueing::{PASSED_IN_A_ROW, Priority, Time};

use crate::{DeadlineQueue, DequeueResult, EnqueueResult, QueueHandle, QueueSettings, Reason, Work};

/// Queues of all levels, or a single one that ignores them.
pub(super) struct LevelQueue<T> {
    levels: Vec<DeadlineQueue<T>>,
    settings: QueueSettings,
    /// Consecutive entries of the most urgent level.
    in_order: u8,
}

/// Handle of a queued entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelHandle {
    level: usize,
    handle: QueueHandle,
}

impl<T: Work> LevelQueue<T> {
    /// Empty queue in front of `servers` servers, with a queue for each level if `by_level`.
    ///
    /// # Panics
    /// If the capacity is outside 1..2³² − 1.
    pub(super) fn new(settings: QueueSettings, servers: usize, by_level: bool) -> Self {
        let count = if by_level { Priority::LEVELS } else { 1 };
        let queue = || DeadlineQueue::new(settings).with_servers(servers);
        Self { levels: (0..count).map(|_| queue()).collect(), settings, in_order: 0 }
    }

    /// Enqueues `entry` at `now` on `level`; its handle, if it waits.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        level: Priority,
        entry: T,
    ) -> (EnqueueResult<T>, Option<LevelHandle>) {
        let level = level.index().min(self.levels.len() - 1);
        let result = self.levels[level].enqueue(now, entry);
        let handle = match &result {
            EnqueueResult::Refused(..) => None,
            _ => self.levels[level].newest().map(|handle| LevelHandle { level, handle }),
        };
        if self.len() <= self.settings.capacity {
            return (result, handle);
        }
        let less_urgent = self.levels[level + 1..].iter_mut().rev();
        if let Some(evicted) = { less_urgent }.find_map(DeadlineQueue::evict) {
            return (EnqueueResult::Replaced(evicted, Reason::Full), handle);
        }
        match handle.and_then(|handle| self.remove(now, handle)) {
            Some(entry) => (EnqueueResult::Refused(entry, Reason::Full), None),
            None => (result, handle),
        }
    }

    /// Dequeues the next entry at `now`.
    pub(super) fn dequeue(&mut self, now: Time) -> Option<DequeueResult<T>> {
        let first = self.levels.iter().position(|queue| !queue.is_empty())?;
        let level = self.aged(now, first).unwrap_or(first);
        self.in_order = if level == first { self.in_order.saturating_add(1) } else { 0 };
        self.levels[level].dequeue(now)
    }

    /// The level less urgent than `first` that is served for its age.
    fn aged(&self, now: Time, first: usize) -> Option<usize> {
        if self.in_order < PASSED_IN_A_ROW {
            return None;
        }
        let ages = self.levels.iter().enumerate().skip(first + 1);
        let oldest = ages.filter_map(|(level, queue)| Some((queue.oldest()?, level))).min()?;
        (now.since(oldest.0) >= self.settings.age_max).then_some(oldest.1)
    }

    /// Removes the entry with `handle` at `now`; `None` if it has left.
    pub(super) fn remove(&mut self, now: Time, handle: LevelHandle) -> Option<T> {
        self.levels[handle.level].remove(now, handle.handle)
    }

    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(DeadlineQueue::len).sum()
    }

    /// Enqueue time of the oldest entry.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.levels.iter().filter_map(DeadlineQueue::oldest).min()
    }

    /// True if the next entry of any level has low slack at `now`.
    pub(super) fn head_is_late(&self, now: Time) -> bool {
        self.levels.iter().any(|queue| queue.head_is_late(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};
    use queueing::{Entry, Label, Span};

    use super::*;
    use crate::{Order, Shedding};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Request {
        number: usize,
        level: u8,
        left_ms: Option<u64>,
    }

    impl Entry for Request {
        fn label(&self) -> Label {
            Label { deadline: self.left_ms.map(Span::from_millis), ..Label::default() }
        }
    }

    impl Work for Request {}

    fn queue(capacity: usize, shedding: Shedding, by_level: bool) -> LevelQueue<Request> {
        let age_max = Span::from_millis(100);
        let settings = QueueSettings { capacity, shedding, age_max, ..QueueSettings::default() };
        LevelQueue::new(settings, 1, by_level)
    }

    fn push(queue: &mut LevelQueue<Request>, now: Time, request: Request) -> EnqueueResult<Request> {
        queue.enqueue(now, Priority::new(request.level).expect("a level"), request).0
    }

    /// Levels of the next requests.
    fn levels(queue: &mut LevelQueue<Request>, now: Time) -> Vec<u8> {
        let next = std::iter::from_fn(|| queue.dequeue(now));
        next.map(|result| match result {
            DequeueResult::Serve(request) | DequeueResult::Shed(request, _) => request.level,
        })
        .collect()
    }

    const NOW: Time = Time::from_nanos(1);

    //~ deadlines: tower: with levels the most urgent is served first, and the earliest deadline within it
    #[test]
    fn the_order_is_by_level_and_then_by_deadline() {
        for by_level in [true, false] {
            let mut queue = queue(100, Shedding::None, by_level);
            let requests =
                [(7, Some(10)), (0, Some(900)), (3, None), (0, Some(20)), (7, Some(5)), (3, Some(800))];
            for (number, (level, left_ms)) in requests.into_iter().enumerate() {
                assert_eq!(push(&mut queue, NOW, Request { number, level, left_ms }), EnqueueResult::Queued);
            }
            let served = std::iter::from_fn(|| queue.dequeue(NOW));
            let served: Vec<usize> = served
                .map(|result| match result {
                    DequeueResult::Serve(request) => request.number,
                    shed @ DequeueResult::Shed(..) => panic!("{shed:?}"),
                })
                .collect();
            // Without a deadline: that of the maximum age, 100 ms.
            let expected = if by_level { [3, 1, 2, 5, 4, 0] } else { [4, 0, 3, 2, 5, 1] };
            assert_eq!(served, expected);
        }
    }

    //~ deadlines: tower: with levels a request that has waited the maximum age is served after eight others
    #[test]
    fn an_old_request_of_a_lower_level_is_served_every_ninth_time() {
        let mut queue = queue(100, Shedding::Overload, true);
        for (number, level) in [7, 5].into_iter().enumerate() {
            let _ = push(&mut queue, NOW, Request { number, level, left_ms: None });
        }
        let young = NOW + Span::from_millis(99);
        for number in 2..40 {
            let _ = push(&mut queue, young, Request { number, level: 0, left_ms: None });
        }
        for _ in 0..10 {
            assert!(matches!(queue.dequeue(young), Some(DequeueResult::Serve(Request { level: 0, .. }))));
        }
        let order = levels(&mut queue, NOW + Span::from_millis(100));
        let eight = [0; 8];
        let expected = [&[5][..], &eight, &[7], &eight, &eight, &[0; 4]].concat();
        assert_eq!(order, expected);
    }

    //~ deadlines: tower: a full queue with levels drops a less urgent request for a more urgent one, or refuses
    #[test]
    fn a_full_queue_makes_room_for_a_more_urgent_level() {
        let mut queue = queue(3, Shedding::None, true);
        let request = |number, level| Request { number, level, left_ms: None };
        for (number, level) in [(0, 5), (1, 7), (2, 7)] {
            assert_eq!(push(&mut queue, NOW, request(number, level)), EnqueueResult::Queued);
        }
        let full = |entry| EnqueueResult::Refused(entry, Reason::Full);
        assert_eq!(push(&mut queue, NOW, request(3, 7)), full(request(3, 7)));
        let replaced = EnqueueResult::Replaced(request(2, 7), Reason::Full);
        assert_eq!(push(&mut queue, NOW, request(4, 5)), replaced, "the last of the least urgent");
        assert_eq!(
            push(&mut queue, NOW, request(5, 0)),
            EnqueueResult::Replaced(request(1, 7), Reason::Full)
        );
        assert_eq!(push(&mut queue, NOW, request(6, 6)), full(request(6, 6)));
        assert_eq!((queue.len(), levels(&mut queue, NOW)), (3, vec![0, 5, 5]));
    }

    proptest! {
        #[test]
        fn every_request_leaves_once_and_the_capacity_holds(
            requests in prop::collection::vec((0_u8..8, prop::option::of(0_u64..50), 0_u64..20, 0_u8..3), 1..200),
        ) {
            for order in [Order::Edf, Order::Fifo] {
                let settings = QueueSettings { capacity: 8, order, age_max: Span::from_millis(30), ..QueueSettings::default() };
                let mut queue = LevelQueue::new(settings, 1, true);
                let (mut now, mut left, mut handles) = (NOW, vec![0; requests.len()], Vec::new());
                for (number, &(level, left_ms, pause_ms, action)) in requests.iter().enumerate() {
                    now += Span::from_millis(pause_ms);
                    let request = Request { number, level, left_ms };
                    let (result, handle) = queue.enqueue(now, Priority::new(level).expect("a level"), request);
                    match result {
                        EnqueueResult::Queued => {}
                        EnqueueResult::Refused(gone, _) | EnqueueResult::Replaced(gone, _) => left[gone.number] += 1,
                    }
                    handles.extend(handle);
                    assert!(queue.len() <= 8);
                    match action {
                        0 => if let Some(DequeueResult::Serve(gone) | DequeueResult::Shed(gone, _)) = queue.dequeue(now) {
                            left[gone.number] += 1;
                        },
                        1 => if let Some(gone) = handles.pop().and_then(|handle| queue.remove(now, handle)) {
                            left[gone.number] += 1;
                        },
                        _ => {}
                    }
                }
                while let Some(DequeueResult::Serve(gone) | DequeueResult::Shed(gone, _)) = queue.dequeue(now) {
                    left[gone.number] += 1;
                }
                assert!(left.iter().all(|times| *times == 1), "{left:?}");
                assert!(queue.oldest().is_none() && !queue.head_is_late(now));
            }
        }
    }
}
