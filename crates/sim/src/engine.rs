//! What happens next: the pending-event set and the virtual clock.
//!
//! Events leave in order of time, and of insertion where times are equal, so
//! that a run replays exactly. Deliberately without cancellation: whoever
//! re-arms a timer remembers which of its events still counts, which costs
//! less than searching the set. Once the set has grown to its working size
//! nothing is allocated.

use queueing::Time;

/// Children of a node. Four keep a node's children within two cache lines
/// and the tree half as deep as a binary heap.
const ARITY: usize = 4;

/// A pending-event set that is also the clock of its world.
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
    heap: Vec<Pending<E>>,
    scheduled: u64,
    now: Time,
}

#[derive(Clone, Debug)]
struct Pending<E> {
    at: Time,
    seq: u64,
    event: E,
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

impl<E> Engine<E> {
    /// An engine at time zero in which nothing will happen.
    #[must_use]
    pub const fn new() -> Self {
        Self { heap: Vec::new(), scheduled: 0, now: Time::ZERO }
    }

    /// The time of the event handed out last.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Lets `event` happen at `at`, after everything already scheduled for
    /// that instant. What should have happened before now happens now.
    pub fn schedule(&mut self, at: Time, event: E) {
        let seq = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Pending { at: at.max(self.now), seq, event });
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes the next event out and advances the clock to it.
    #[allow(clippy::should_implement_trait)] // An iterator would promise an end; events schedule events.
    pub fn next(&mut self) -> Option<(Time, E)> {
        if self.heap.is_empty() {
            return None;
        }
        let Pending { at, event, .. } = self.heap.swap_remove(0);
        self.sift_down();
        assert!(at >= self.now, "time never runs backwards");
        self.now = at;
        Some((at, event))
    }

    /// When the next event happens.
    #[must_use]
    pub fn peek(&self) -> Option<Time> {
        self.heap.first().map(|pending| pending.at)
    }

    /// Events that have been scheduled so far.
    #[must_use]
    pub const fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// Events that have not happened yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing will happen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn sift_up(&mut self, mut node: usize) {
        while node > 0 {
            let parent = (node - 1) / ARITY;
            if self.heap[parent].key() <= self.heap[node].key() {
                return;
            }
            self.heap.swap(parent, node);
            node = parent;
        }
    }

    /// Restores order below the root, which came from the bottom and most
    /// likely goes back there: so the hole sinks to a leaf without comparing
    /// against it, and the node climbs from there the little it has to.
    fn sift_down(&mut self) {
        let mut node = 0;
        loop {
            let first = node * ARITY + 1;
            let children = match self.heap.len() {
                len if first + ARITY <= len => &self.heap[first..first + ARITY],
                len if first < len => &self.heap[first..],
                _ => break,
            };
            let mut least = 0;
            let mut key = children[0].key();
            for (i, child) in children.iter().enumerate().skip(1) {
                if child.key() < key {
                    (least, key) = (i, child.key());
                }
            }
            self.heap.swap(node, first + least);
            node = first + least;
        }
        self.sift_up(node);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn events_leave_in_order_of_time_and_insertion(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..50), 0..2000),
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
        (0..1000_u64).for_each(|i| engine.schedule(Time::from_nanos(i), i));
        let capacity = engine.heap.capacity();
        for _ in 0..10_000 {
            let (at, event) = engine.next().unwrap();
            engine.schedule(Time::from_nanos(at.as_nanos() + 1 + event), event);
        }
        assert_eq!(engine.heap.capacity(), capacity);
    }
}
