//! Pending-event set and virtual clock.
//!
//! Events leave in order of time, then of insertion, so that a run replays exactly. Near events
//! are in buckets of 32 ns: a bitmap finds the next bucket, which is sorted when it is reached.
//! Events beyond the last bucket are in a heap. Deliberately without cancellation: the owner of
//! a timer remembers which of its events is valid, which is cheaper than a search. Nothing is
//! allocated once the set has reached its working size.
//! Source: calendar queue, Brown, CACM '88.

use queueing::Time;

mod heap;

use heap::Heap;

/// Bucket width, 2⁵ ns: a few events of a large network, usually none of a small one.
const WIDTH_BITS: u32 = 5;
/// Number of buckets: 131 µs, beyond which there are few events other than timers.
const BUCKETS: u64 = 4096;
/// Null node index.
const NONE: u32 = u32::MAX;

/// Pending-event set that is also the simulation clock.
///
/// ```
/// use queueing::Time;
/// let mut engine = sim::Engine::new();
/// engine.schedule(Time::from_nanos(20), "later");
/// engine.schedule(Time::from_nanos(10), "first");
/// engine.schedule(Time::from_nanos(20), "last");
/// assert_eq!(engine.next(), Some((Time::from_nanos(10), "first")));
/// assert_eq!(engine.next(), Some((Time::from_nanos(20), "later")));
/// assert_eq!(engine.now(), Time::from_nanos(20));
/// ```
#[derive(Clone, Debug)]
pub struct Engine<E> {
    /// Events up to the end of bucket `current_bucket`, in reverse order.
    current: Vec<Pending<E>>,
    /// True if that is several events and [`Engine::upcoming`] has not returned them yet.
    unreported: bool,
    current_bucket: u64,
    /// First node of each later bucket, unsorted.
    buckets: Vec<u32>,
    /// Bitmap of non-empty buckets.
    used: Vec<u64>,
    nodes: Vec<Node<E>>,
    /// Head of the free list.
    free: u32,
    /// Events that were beyond the last bucket when they were scheduled.
    overflow: Heap<E>,
    scheduled: u64,
    len: usize,
    now: Time,
}

#[derive(Clone, Debug)]
struct Pending<E> {
    at: Time,
    seq: u64,
    event: E,
}

/// Event in a bucket, linked to the next one of that bucket.
#[derive(Clone, Debug)]
struct Node<E> {
    pending: Option<Pending<E>>,
    next: u32,
}

impl<E> Pending<E> {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.seq)
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Self::new()
    }
}

const fn bucket_of(at: Time) -> u64 {
    at.as_nanos() >> WIDTH_BITS
}

impl<E> Engine<E> {
    /// Empty engine at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            current: Vec::new(),
            unreported: false,
            current_bucket: 0,
            buckets: vec![NONE; BUCKETS as usize],
            used: vec![0; BUCKETS as usize / 64],
            nodes: Vec::new(),
            free: NONE,
            overflow: Heap::new(),
            scheduled: 0,
            len: 0,
            now: Time::ZERO,
        }
    }

    /// Time of the last event returned.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Schedules `event` at `at`, after all events already scheduled for that instant. A time
    /// in the past means now.
    pub fn schedule(&mut self, at: Time, event: E) {
        let pending = Pending { at: at.max(self.now), seq: self.scheduled, event };
        self.scheduled += 1;
        self.add(pending);
    }

    fn add(&mut self, pending: Pending<E>) {
        self.len += 1;
        let bucket = bucket_of(pending.at);
        if bucket <= self.current_bucket {
            let index = self.current.partition_point(|other| other.key() > pending.key());
            self.current.insert(index, pending);
        } else if bucket - self.current_bucket < BUCKETS {
            self.add_to_bucket(bucket, pending);
        } else {
            self.overflow.push(pending);
        }
    }

    /// Same as [`Engine::schedule`], but events of the same instant leave in ascending `rank`,
    /// independent of insertion order. A simulation that uses ranks ranks all its events;
    /// events of equal time and rank must be interchangeable.
    pub fn schedule_ranked(&mut self, at: Time, rank: u64, event: E) {
        self.scheduled += 1;
        self.add(Pending { at: at.max(self.now), seq: rank, event });
    }

    /// Removes the next event and advances the clock to it.
    #[allow(clippy::should_implement_trait)] // An iterator would promise an end; events schedule events.
    pub fn next(&mut self) -> Option<(Time, E)> {
        self.next_by(Time::MAX)
    }

    /// Same as [`Engine::next`], limited to events at or before `limit`.
    pub fn next_by(&mut self, limit: Time) -> Option<(Time, E)> {
        if self.current.is_empty() {
            self.advance();
        }
        self.current.last().filter(|next| next.at <= limit)?;
        let Pending { at, event, .. } = self.current.pop()?;
        assert!(at >= self.now, "time never runs backwards");
        self.len -= 1;
        self.now = at;
        Some((at, event))
    }

    /// Time of the next event.
    #[must_use]
    pub fn peek(&self) -> Option<Time> {
        if let Some(next) = self.current.last() {
            return Some(next.at);
        }
        let overflow = self.overflow.peek().map(|overflow| overflow.at);
        let Some(bucket) = self.next_bucket() else { return overflow };
        let mut node = self.buckets[(bucket % BUCKETS) as usize];
        let mut least = overflow.unwrap_or(Time::MAX);
        while let Some(Node { pending, next }) = self.nodes.get(node as usize) {
            least = pending.as_ref().map_or(least, |pending| pending.at.min(least));
            node = *next;
        }
        Some(least)
    }

    /// Events of the current bucket in order, if it holds several and they have not been
    /// returned before. Lets the caller prefetch the data of all of them at once.
    pub fn upcoming(&mut self) -> Option<impl Iterator<Item = &E>> {
        let upcoming = || self.current.iter().rev().map(|pending| &pending.event);
        std::mem::take(&mut self.unreported).then(upcoming)
    }

    /// Events scheduled so far.
    #[must_use]
    pub const fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Pending events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if no event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event to a bucket.
    fn add_to_bucket(&mut self, bucket: u64, pending: Pending<E>) {
        let index = (bucket % BUCKETS) as usize;
        let node = Node { pending: Some(pending), next: self.buckets[index] };
        self.used[index / 64] |= 1 << (index % 64);
        self.buckets[index] = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let next_free = std::mem::replace(free, node).next;
                std::mem::replace(&mut self.free, next_free)
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
    }

    /// First non-empty bucket after `current_bucket`.
    fn next_bucket(&self) -> Option<u64> {
        let (first, words) = (self.current_bucket + 1, self.used.len() as u64);
        // The first word is visited twice: first its upper bits, last its lower bits.
        for step in 0..=words {
            let word = first / 64 + step;
            let rest = if step == 0 { u64::MAX << (first % 64) } else { u64::MAX };
            let used = self.used[(word % words) as usize] & rest;
            if used != 0 {
                return Some(word * 64 + u64::from(used.trailing_zeros()));
            }
        }
        None
    }

    /// Moves the next non-empty bucket, and heap events as early, into `current`.
    fn advance(&mut self) {
        let overflow = self.overflow.peek().map(|overflow| bucket_of(overflow.at));
        let Some(bucket) = self.next_bucket().into_iter().chain(overflow).min() else { return };
        self.current_bucket = bucket;
        let index = (bucket % BUCKETS) as usize;
        let mut node = std::mem::replace(&mut self.buckets[index], NONE);
        self.used[index / 64] &= !(1 << (index % 64));
        while let Some(Node { pending, next }) = self.nodes.get_mut(node as usize) {
            self.current.extend(pending.take());
            let rest = std::mem::replace(next, self.free);
            self.free = std::mem::replace(&mut node, rest);
        }
        while let Some(pending) = self.overflow.pop_if(|overflow| bucket_of(overflow.at) <= bucket) {
            self.current.push(pending);
        }
        self.unreported = self.current.len() > 1;
        if self.unreported {
            self.current.sort_unstable_by_key(|pending| std::cmp::Reverse(pending.key()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        //~ sim: events leave in order of time and insertion
        #[test]
        fn events_leave_in_order_of_time_and_insertion(
            steps in proptest::collection::vec(
                (any::<bool>(), prop_oneof![0_u64..50, 0_u64..10_000, 0_u64..400_000]),
                0..2000,
            ),
        ) {
            let mut engine = Engine::new();
            let mut model = BTreeMap::new();
            for (seq, (push, delay)) in steps.into_iter().enumerate() {
                if push {
                    let at = Time::from_nanos(engine.now().as_nanos() + delay);
                    engine.schedule(at, seq);
                    model.insert((at, seq), ());
                } else {
                    let expected = model.pop_first().map(|(key, ())| key);
                    prop_assert_eq!(engine.peek(), expected.map(|(at, _)| at));
                    prop_assert_eq!(engine.next(), expected);
                }
                prop_assert_eq!(engine.len(), model.len());
            }
            while let Some(((at, seq), ())) = model.pop_first() {
                prop_assert_eq!(engine.next(), Some((at, seq)));
                prop_assert_eq!(engine.now(), at);
            }
            prop_assert_eq!(engine.next(), None);
        }
    }

    #[test]
    fn the_past_happens_now() {
        let mut engine = Engine::new();
        engine.schedule(Time::from_nanos(100), 'a');
        assert_eq!(engine.next(), Some((Time::from_nanos(100), 'a')));
        engine.schedule(Time::from_nanos(5), 'b');
        assert_eq!(engine.next(), Some((Time::from_nanos(100), 'b')));
    }

    #[test]
    fn a_warm_engine_does_not_grow() {
        let mut engine = Engine::new();
        (0..1000_u64).for_each(|i| engine.schedule(Time::from_nanos(i * 300), i));
        let mut capacities = Vec::new();
        for _ in 0..2 {
            for _ in 0..20_000 {
                let (at, event) = engine.next().unwrap();
                engine.schedule(Time::from_nanos(at.as_nanos() + 1 + event * 300), event);
            }
            capacities.push((engine.nodes.capacity(), engine.current.capacity(), engine.overflow.capacity()));
        }
        assert_eq!(capacities[0], capacities[1]);
    }
}
