//! Between the device and the stack: the receive buffer and who goes first in it.
//!
//! The driver stage looks at a frame where the device put it: nothing is
//! copied or allocated before the classifier has spoken ([`classify`]). A
//! frame that may stay waits in the [`RxBuffer`], handle and metadata only,
//! until the stack takes it. A classifier that panics or answers nonsense has
//! given no verdict; that is counted and the frame goes on.
//! Source: ADPS §2.1 (M1, M6).

use std::panic::{AssertUnwindSafe, catch_unwind};

use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, Pushed, Starvation, Strict, Time};

use crate::classify::{DriverClassifier, PacketMeta, PacketView, Verdict};

/// How the receive buffer is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxOrder {
    /// First come, first served (mTCP-like).
    #[default]
    Fifo,
    /// Strict over the driver classifier's priorities (LNS, ADPS). When full,
    /// a more urgent frame takes the place of the newest of the least urgent.
    Strict,
}

/// Frames that wait for the stack.
///
/// Bound: `capacity` frames over all levels. Starvation: that of [`Fifo`], or
/// of [`Strict`], by order.
pub struct RxBuffer<F> {
    waiting: Waiting<F>,
}

enum Waiting<F> {
    Fifo(Fifo<Queued<F>>),
    Strict(Box<Strict<Fifo<Queued<F>>>>),
}

struct Queued<F> {
    frame: F,
    meta: PacketMeta,
}

impl<F> Entry for Queued<F> {
    /// Without a verdict, the least urgent.
    fn label(&self) -> Label {
        Label::new(self.meta.priority.unwrap_or_default())
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.meta.bytes.into())
    }
}

impl<F> RxBuffer<F> {
    /// A buffer of at most `capacity` frames.
    ///
    /// # Panics
    /// When `capacity` is 0.
    #[must_use]
    pub fn new(order: RxOrder, capacity: usize) -> Self {
        let waiting = match order {
            RxOrder::Fifo => Waiting::Fifo(Fifo::new(capacity)),
            RxOrder::Strict => {
                Waiting::Strict(Box::new(Strict::new(capacity, |_| Fifo::new(capacity + 1)).with_push_out()))
            }
        };
        Self { waiting }
    }

    /// Takes `frame` in. When the buffer is full the frame that has to leave
    /// comes back, this one or a less urgent one: recycle it.
    #[must_use = "the frame that has to leave belongs to the device"]
    pub fn push(&mut self, now: Time, frame: F, meta: PacketMeta) -> Option<F> {
        let entry = Queued { frame, meta };
        let pushed = match &mut self.waiting {
            Waiting::Fifo(queue) => queue.push(now, entry),
            Waiting::Strict(queue) => queue.push(now, entry),
        };
        match pushed {
            Pushed::Queued => None,
            Pushed::Refused(entry) | Pushed::PushedOut(entry) => Some(entry.frame),
        }
    }

    /// The frame whose turn it is.
    pub fn pop(&mut self, now: Time) -> Option<(F, PacketMeta)> {
        let entry = match &mut self.waiting {
            Waiting::Fifo(queue) => queue.pop(now),
            Waiting::Strict(queue) => queue.pop(now),
        };
        entry.map(|Queued { frame, meta }| (frame, meta))
    }

    /// When the frame that has waited longest was pushed.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.oldest(),
            Waiting::Strict(queue) => queue.oldest(),
        }
    }

    /// How many frames wait.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.len(),
            Waiting::Strict(queue) => queue.len(),
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long a frame can be passed over.
    #[must_use]
    pub fn starvation(&self) -> Starvation {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.starvation(),
            Waiting::Strict(queue) => queue.starvation(),
        }
    }
}

/// What the driver stage has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Frames that came.
    pub frames: u64,
    /// Frames that a classifier was asked about.
    pub classified: u64,
    /// Frames that a classifier dropped.
    pub dropped_by_verdict: u64,
    /// Frames that left because the receive buffer was full; counted by its owner.
    pub dropped_full: u64,
    /// Classifier calls that panicked.
    pub panics: u64,
    /// Verdicts outside 0..=7.
    pub out_of_range: u64,
}

impl DriverCounters {
    /// Adds what came elsewhere.
    pub const fn add(&mut self, other: &Self) {
        let Self { frames, classified, dropped_by_verdict, dropped_full, panics, out_of_range } = *other;
        self.frames += frames;
        self.classified += classified;
        self.dropped_by_verdict += dropped_by_verdict;
        self.dropped_full += dropped_full;
        self.panics += panics;
        self.out_of_range += out_of_range;
    }
}

/// What becomes of a frame.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    /// It goes into the receive buffer with this metadata.
    Queue(PacketMeta),
    /// It goes back to the device.
    Drop,
}

/// Asks `classifier`, if there is one, about `frame`, which the device
/// received at `received`.
///
/// A panic reaches the process's panic hook, is caught here and means no
/// verdict, as does a level outside 0..=7.
pub fn classify(
    classifier: Option<&DriverClassifier>,
    frame: &[u8],
    received: Time,
    counters: &mut DriverCounters,
) -> Admission {
    counters.frames += 1;
    let mut meta = PacketMeta::new(received, frame.len());
    let Some(classifier) = classifier else { return Admission::Queue(meta) };
    counters.classified += 1;
    match catch_unwind(AssertUnwindSafe(|| classifier(&PacketView::new(frame, &meta)))) {
        Ok(Verdict::Keep) => {}
        Ok(Verdict::Level(level)) => {
            meta.priority = Priority::new(level);
            counters.out_of_range += u64::from(meta.priority.is_none());
        }
        Ok(Verdict::Drop) => {
            counters.dropped_by_verdict += 1;
            return Admission::Drop;
        }
        Err(_) => counters.panics += 1,
    }
    Admission::Queue(meta)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn meta(priority: Option<u8>) -> PacketMeta {
        PacketMeta { priority: priority.and_then(Priority::new), ..PacketMeta::new(Time::ZERO, 60) }
    }

    fn order(order: RxOrder, capacity: usize, pushes: &[Option<u8>]) -> (Vec<usize>, Vec<usize>) {
        let mut buffer = RxBuffer::new(order, capacity);
        let mut left = Vec::new();
        for (i, &priority) in pushes.iter().enumerate() {
            left.extend(buffer.push(Time::from_nanos(i as u64), i, meta(priority)));
            assert!(buffer.len() <= capacity);
        }
        (std::iter::from_fn(|| buffer.pop(Time::ZERO)).map(|(i, _)| i).collect(), left)
    }

    #[test]
    fn fifo_ignores_priority_and_refuses_the_newest() {
        assert_eq!(order(RxOrder::Fifo, 3, &[Some(7), Some(0), None, Some(0)]), (vec![0, 1, 2], vec![3]));
    }

    #[test]
    fn strict_hands_out_the_most_urgent_and_then_the_oldest() {
        assert_eq!(
            order(RxOrder::Strict, 9, &[Some(7), Some(0), None, Some(3), Some(0)]),
            (vec![1, 4, 3, 0, 2], vec![])
        );
    }

    #[test]
    fn an_urgent_frame_takes_the_place_of_the_newest_least_urgent_one() {
        let pushes = [Some(5), None, None, Some(0), Some(0), Some(0), Some(0)];
        assert_eq!(order(RxOrder::Strict, 3, &pushes), (vec![3, 4, 5], vec![2, 1, 0, 6]));
    }

    #[test]
    fn the_oldest_is_found_on_any_level() {
        let mut buffer = RxBuffer::new(RxOrder::Strict, 4);
        assert_eq!(buffer.oldest(), None);
        assert_eq!(buffer.push(Time::from_nanos(1), "low", meta(None)), None);
        assert_eq!(buffer.push(Time::from_nanos(2), "high", meta(Some(0))), None);
        assert_eq!(buffer.oldest(), Some(Time::from_nanos(1)));
        assert_eq!(buffer.pop(Time::ZERO).map(|(frame, _)| frame), Some("high"));
        assert_eq!((buffer.len(), buffer.oldest()), (1, Some(Time::from_nanos(1))));
    }

    fn check(classifier: Option<DriverClassifier>, expected: Option<Option<u8>>) -> DriverCounters {
        let mut counters = DriverCounters::default();
        let admission = classify(classifier.as_ref(), &[0; 60], Time::from_nanos(5), &mut counters);
        let got = match admission {
            Admission::Queue(meta) => {
                assert_eq!((meta.received, meta.bytes), (Time::from_nanos(5), 60));
                Some(meta.priority.map(Priority::level))
            }
            Admission::Drop => None,
        };
        assert_eq!(got, expected);
        counters
    }

    fn says(verdict: Verdict) -> Option<DriverClassifier> {
        Some(Arc::new(move |_: &PacketView<'_>| verdict))
    }

    #[test]
    fn a_verdict_becomes_metadata_and_what_is_no_verdict_is_counted() {
        let one = DriverCounters { frames: 1, classified: 1, ..DriverCounters::default() };
        assert_eq!(check(None, Some(None)), DriverCounters { classified: 0, ..one });
        assert_eq!(check(says(Verdict::Keep), Some(None)), one);
        assert_eq!(check(says(Verdict::Level(3)), Some(Some(3))), one);
        assert_eq!(check(says(Verdict::Level(8)), Some(None)), DriverCounters { out_of_range: 1, ..one });
        assert_eq!(check(says(Verdict::Drop), None), DriverCounters { dropped_by_verdict: 1, ..one });
        let panics: DriverClassifier = Arc::new(|_| panic!("a classifier with a bug"));
        assert_eq!(check(Some(panics), Some(None)), DriverCounters { panics: 1, ..one });
    }

    proptest! {
        #[test]
        fn every_frame_comes_out_or_back_once(
            strict in any::<bool>(),
            capacity in 1usize..6,
            pushes in proptest::collection::vec(proptest::option::of(0u8..8), 0..40),
        ) {
            let (mut out, left) = order(if strict { RxOrder::Strict } else { RxOrder::Fifo }, capacity, &pushes);
            out.extend(left);
            out.sort_unstable();
            prop_assert_eq!(out, (0..pushes.len()).collect::<Vec<_>>());
        }
    }
}
