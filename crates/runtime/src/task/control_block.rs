//! Task control block: future, label and wake-up state.
//!
//! Any thread that holds it can poll it. The task runs with its label; data that it reads and
//! connections that it accepts set the label, and the task may set it itself. Its place in the run
//! queue depends on the level of the wake-up: the level of arriving data, or else the task's label.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use queueing::{Label, Priority, Time};

use super::handle::Shared;
use super::state::{State, WakeAction};

/// Future of a task.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One task; see the module.
pub(crate) struct Task {
    pub home: Arc<Shared>,
    pub state: State,
    label: AtomicU64,
    /// Slot in its executor; [`NO_SLOT`] until it is placed there.
    slot: AtomicU32,
    body: Mutex<Option<Body>>,
}

pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Task {
    /// A queued task, not in an inject queue yet.
    pub fn new(home: Arc<Shared>, label: u64, body: Body) -> Arc<Self> {
        Arc::new(Self {
            home,
            state: State::queued(level(label).level()),
            label: AtomicU64::new(label),
            slot: AtomicU32::new(NO_SLOT),
            body: Mutex::new(Some(body)),
        })
    }

    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    pub fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Label, packed.
    pub fn label(&self) -> u64 {
        self.label.load(Ordering::Relaxed)
    }

    pub fn set_label(&self, label: u64) {
        self.label.store(label, Ordering::Relaxed);
    }

    /// Takes the future, to poll or to drop it.
    pub fn take_body(&self) -> Option<Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn put_body(&self, body: Body) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Wakes the task at `level`.
    pub fn wake_at(self: &Arc<Self>, level: Priority) {
        if self.state.wake(level.level()) == WakeAction::Queue {
            self.home.enqueue(self.clone());
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_at(level(self.label()));
    }
}

/// Packs a label given at `now`: the level in the high bits, below it the time at which the budget
/// expires. The smaller of two words is more urgent.
pub(crate) fn pack(now: Time, label: Label) -> u64 {
    let due = label.deadline.map_or(NEVER, |left| (now + left).as_nanos().min(NEVER - 1));
    u64::from(label.priority.level()) << DUE_BITS | due
}

/// Label packed by [`pack`], with the remaining budget at `now`.
pub(crate) fn unpack(now: Time, word: u64) -> Label {
    let due = word & NEVER;
    let left = (due < NEVER).then(|| Time::from_nanos(due).since(now));
    Label { priority: level(word), deadline: left }
}

/// Level of a packed label.
pub(crate) fn level(word: u64) -> Priority {
    Priority::new((word >> DUE_BITS) as u8).unwrap_or_default()
}

/// Bits of the expiry time in ns: 73 years.
const DUE_BITS: u32 = 61;
const NEVER: u64 = (1 << DUE_BITS) - 1;
/// Label without classification, packed.
pub(crate) const UNLABELED: u64 = (Priority::LOWEST.level() as u64) << DUE_BITS | NEVER;

#[cfg(test)]
mod tests {
    use super::*;
    use queueing::Span;

    #[test]
    fn a_packed_label_ages_and_a_smaller_word_is_more_urgent() {
        let label = |level, deadline: Option<u64>| Label {
            priority: Priority::new(level).expect("a level"),
            deadline: deadline.map(Span::from_micros),
        };
        let (then, now) = (Time::from_nanos(5_000), Time::from_nanos(9_000));
        assert_eq!(unpack(now, pack(then, label(3, Some(10)))), label(3, Some(6)));
        assert_eq!(unpack(now, pack(then, label(3, Some(1)))), label(3, Some(0)), "it is used up");
        assert_eq!(unpack(now, pack(then, label(0, None))), label(0, None));
        assert!(pack(now, label(0, None)) < pack(now, label(1, Some(1))));
        assert!(pack(now, label(1, Some(1))) < pack(now, label(1, None)));
        assert_eq!(pack(now, Label::default()), UNLABELED);
    }
}
