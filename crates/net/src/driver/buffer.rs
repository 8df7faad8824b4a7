//! Receive buffer: frames that wait for the stack, ordered by priority.
//!
//! A frame may have the priority of its connection ([`FramePriority`]), which can change while
//! frames of the connection wait. These frames keep their order: none overtakes an earlier one that
//! also has its connection's priority. A frame with a verdict of its own has the priority of that
//! alone.
//!
//! Source: ADPS §2.1.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Found;
use std::hash::{BuildHasherDefault, DefaultHasher};

use classify::PacketMeta;
use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, PushResult, StarvationBound, Strict, Time};

use crate::stack::ConnId;

/// Order of the receive buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxOrder {
    /// FIFO (mTCP-like).
    #[default]
    Fifo,
    /// Strict priority by the frames' levels (LNS, ADPS). When full, a more urgent frame replaces
    /// the newest of the lowest level.
    Strict,
    /// As `Strict`; a frame without a verdict has the level that TCP and the application found for
    /// its connection.
    Learned,
}

/// Priority of a frame in a strict buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramePriority {
    /// Priority level.
    pub level: Priority,
    /// Connection from which the level is known, if the frame has no verdict.
    pub of: Option<ConnId>,
}

impl From<Priority> for FramePriority {
    /// Level of the frame's own verdict.
    fn from(level: Priority) -> Self {
        Self { level, of: None }
    }
}

/// Receive buffer.
///
/// Bound: `capacity` frames over all levels. Starvation bound: that of [`Fifo`] or of [`Strict`],
/// by order.
pub struct RxBuffer<F> {
    waiting: Waiting<F>,
}

enum Waiting<F> {
    Fifo(Fifo<Queued<F>>),
    Strict(Box<Levels<F>>),
}

struct Queued<F> {
    frame: F,
    meta: PacketMeta,
    priority: FramePriority,
}

impl<F> Entry for Queued<F> {
    fn label(&self) -> Label {
        Label::new(self.priority.level)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.meta.bytes.into())
    }
}

impl<F> RxBuffer<F> {
    /// A buffer of at most `capacity` frames. [`FramePriority`] determines which frames have the
    /// priority of their connection.
    ///
    /// # Panics
    /// If `capacity` is 0.
    #[must_use]
    pub fn new(order: RxOrder, capacity: usize) -> Self {
        let waiting = match order {
            RxOrder::Fifo => Waiting::Fifo(Fifo::new(capacity)),
            RxOrder::Strict | RxOrder::Learned => Waiting::Strict(Box::new(Levels {
                queue: Strict::new(capacity, |_| Fifo::new(capacity + 1)).with_push_out(),
                together: HashMap::default(),
            })),
        };
        Self { waiting }
    }

    /// Queues `frame`, at `priority` if the order uses it. When the buffer is full, returns
    /// the frame that is dropped, this one or a less urgent one: recycle it.
    #[must_use = "the frame that has to leave belongs to the device"]
    pub fn push(&mut self, now: Time, frame: F, meta: PacketMeta, priority: FramePriority) -> Option<F> {
        let entry = Queued { frame, meta, priority };
        let pushed = match &mut self.waiting {
            Waiting::Fifo(queue) => queue.push(now, entry),
            Waiting::Strict(levels) => levels.push(now, entry),
        };
        match pushed {
            PushResult::Queued => None,
            PushResult::Refused(entry) | PushResult::PushedOut(entry) => Some(entry.frame),
        }
    }

    /// Removes and returns the next frame.
    pub fn pop(&mut self, now: Time) -> Option<(F, PacketMeta)> {
        let entry = match &mut self.waiting {
            Waiting::Fifo(queue) => queue.pop(now),
            Waiting::Strict(levels) => levels.pop(now),
        };
        entry.map(|Queued { frame, meta, .. }| (frame, meta))
    }

    /// Time at which the longest-waiting frame was pushed.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.oldest(),
            Waiting::Strict(levels) => levels.queue.oldest(),
        }
    }

    /// Number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.len(),
            Waiting::Strict(levels) => levels.queue.len(),
        }
    }

    /// True if the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starvation bound of a frame.
    #[must_use]
    pub fn starvation(&self) -> StarvationBound {
        match &self.waiting {
            Waiting::Fifo(queue) => queue.starvation(),
            Waiting::Strict(levels) => levels.queue.starvation(),
        }
    }
}

/// Strict queue, with the connections whose frames keep their order.
struct Levels<F> {
    queue: Strict<Fifo<Queued<F>>>,
    /// Per connection with frames of its priority: at most one per waiting frame.
    together: HashMap<ConnId, FlowState, BuildHasherDefault<DefaultHasher>>,
}

/// Waiting frames with the priority of one connection.
struct FlowState {
    frames: u32,
    /// Highest level number of the connection's waiting frames: no later frame is more urgent.
    level: Priority,
}

impl<F> Levels<F> {
    fn push(&mut self, now: Time, mut entry: Queued<F>) -> PushResult<Queued<F>> {
        if let FramePriority { level, of: Some(connection) } = entry.priority {
            let single = FlowState { frames: 0, level };
            let together = self.together.entry(connection).or_insert(single);
            together.frames += 1;
            // The larger level is the less urgent one.
            together.level = together.level.max(level);
            entry.priority.level = together.level;
        }
        let pushed = self.queue.push(now, entry);
        if let PushResult::Refused(entry) | PushResult::PushedOut(entry) = &pushed {
            self.leaves(entry.priority);
        }
        pushed
    }

    fn pop(&mut self, now: Time) -> Option<Queued<F>> {
        let entry = self.queue.pop(now)?;
        self.leaves(entry.priority);
        Some(entry)
    }

    fn leaves(&mut self, priority: FramePriority) {
        let Some(connection) = priority.of else { return };
        if let Found::Occupied(mut together) = self.together.entry(connection) {
            together.get_mut().frames -= 1;
            if together.get().frames == 0 {
                together.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn meta() -> PacketMeta {
        PacketMeta::new(Time::ZERO, 60)
    }

    /// Level of a frame's own verdict.
    fn own(priority: Option<u8>) -> FramePriority {
        FramePriority::from(priority.and_then(Priority::new).unwrap_or_default())
    }

    /// Level known from `connection`.
    fn known(level: u8, connection: u32) -> FramePriority {
        FramePriority { of: Some(ConnId { index: connection, generation: 0 }), ..own(Some(level)) }
    }

    fn order(order: RxOrder, capacity: usize, pushes: &[Option<u8>]) -> (Vec<usize>, Vec<usize>) {
        let mut buffer = RxBuffer::new(order, capacity);
        let mut left = Vec::new();
        for (i, &priority) in pushes.iter().enumerate() {
            left.extend(buffer.push(Time::from_nanos(i as u64), i, meta(), own(priority)));
            assert!(buffer.len() <= capacity);
        }
        (std::iter::from_fn(|| buffer.pop(Time::ZERO)).map(|(i, _)| i).collect(), left)
    }

    #[test]
    fn fifo_ignores_priority_and_refuses_the_newest() {
        assert_eq!(order(RxOrder::Fifo, 3, &[Some(7), Some(0), None, Some(0)]), (vec![0, 1, 2], vec![3]));
    }

    //~ mechanisms: M1: the strict receive buffer returns the most urgent frame first, then the oldest
    #[test]
    fn strict_returns_the_most_urgent_and_then_the_oldest() {
        assert_eq!(
            order(RxOrder::Strict, 9, &[Some(7), Some(0), None, Some(3), Some(0)]),
            (vec![1, 4, 3, 0, 2], vec![])
        );
    }

    #[test]
    fn an_urgent_frame_replaces_the_newest_least_urgent_one() {
        let pushes = [Some(5), None, None, Some(0), Some(0), Some(0), Some(0)];
        assert_eq!(order(RxOrder::Strict, 3, &pushes), (vec![3, 4, 5], vec![2, 1, 0, 6]));
    }

    #[test]
    fn the_oldest_is_found_on_any_level() {
        let mut buffer = RxBuffer::new(RxOrder::Strict, 4);
        assert_eq!(buffer.oldest(), None);
        assert_eq!(buffer.push(Time::from_nanos(1), "low", meta(), own(None)), None);
        assert_eq!(buffer.push(Time::from_nanos(2), "high", meta(), own(Some(0))), None);
        assert_eq!(buffer.oldest(), Some(Time::from_nanos(1)));
        assert_eq!(buffer.pop(Time::ZERO).map(|(frame, _)| frame), Some("high"));
        assert_eq!((buffer.len(), buffer.oldest()), (1, Some(Time::from_nanos(1))));
    }

    #[test]
    fn a_flow_known_to_be_urgent_goes_first_once_none_of_its_earlier_frames_waits() {
        let mut buffer = RxBuffer::new(RxOrder::Strict, 9);
        for (frame, priority) in
            [("a7", known(7, 1)), ("b7", known(7, 2)), ("a0", known(0, 1)), ("c3", known(3, 3))]
        {
            assert_eq!(buffer.push(Time::ZERO, frame, meta(), priority), None);
        }
        let mut next = || buffer.pop(Time::ZERO).map(|(frame, _)| frame);
        assert_eq!([next(), next(), next(), next()], [Some("c3"), Some("a7"), Some("b7"), Some("a0")]);
        for (frame, priority) in [("b7", known(7, 2)), ("a0", known(0, 1))] {
            assert_eq!(buffer.push(Time::ZERO, frame, meta(), priority), None);
        }
        assert_eq!(buffer.pop(Time::ZERO).map(|(frame, _)| frame), Some("a0"));
    }

    proptest! {
        //~ mechanisms: a frame without a verdict takes its connection's last level; frames of a connection keep their order
        #[test]
        fn frames_of_one_connection_keep_their_order(
            capacity in 1usize..8,
            steps in proptest::collection::vec((0u8..8, proptest::option::of(0u32..3), any::<bool>()), 0..60),
        ) {
            let mut buffer = RxBuffer::new(RxOrder::Strict, capacity);
            let mut latest = BTreeMap::new();
            for (i, (level, connection, pops)) in steps.into_iter().enumerate() {
                let priority = connection.map_or(own(Some(level)), |connection| known(level, connection));
                let _ = buffer.push(Time::ZERO, (connection, i), meta(), priority);
                if pops && let Some(((Some(connection), i), _)) = buffer.pop(Time::ZERO) {
                    prop_assert!(latest.insert(connection, i).is_none_or(|before| before < i));
                }
            }
            while let Some(((connection, i), _)) = buffer.pop(Time::ZERO) {
                let Some(connection) = connection else { continue };
                prop_assert!(latest.insert(connection, i).is_none_or(|before| before < i));
            }
            let Waiting::Strict(levels) = &buffer.waiting else { unreachable!() };
            prop_assert!(levels.together.is_empty(), "no entry outlives its frames");
        }

        #[test]
        fn every_frame_is_delivered_or_returned_once(
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
