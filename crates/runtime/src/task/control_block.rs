//! One task: its future, its label, and who to tell that it may run.
//!
//! A task stands for itself: whoever holds it can poll it, on any thread. Its
//! label is what it runs with; data that it reads and connections that it
//! accepts set it, and so may the task. Where it waits to run is by the level
//! of whatever woke it: data by their own, everything else by the task's label.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use queueing::{Label, Priority, Time};

use super::handle::Shared;
use super::state::{State, WakeAction};

/// What a task runs.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub(crate) struct Task {
    pub home: Arc<Shared>,
    pub state: State,
    label: AtomicU64,
    /// Its place in its executor; [`NO_SLOT`] until it has got there.
    slot: AtomicU32,
    body: Mutex<Option<Body>>,
}

pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Task {
    /// A task that is queued, but in nobody's inbox yet.
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

    /// Its label, packed.
    pub fn label(&self) -> u64 {
        self.label.load(Ordering::Relaxed)
    }

    pub fn set_label(&self, label: u64) {
        self.label.store(label, Ordering::Relaxed);
    }

    /// Takes what it runs, to poll or to drop it.
    pub fn take_body(&self) -> Option<Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub fn put_body(&self, body: Body) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Lets it run, as urgently as `level`.
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

/// Packs a label given at `now`: the level above, below it the instant at which
/// its budget is used up. Of two labels the smaller word goes first.
pub(crate) fn pack(now: Time, label: Label) -> u64 {
    let due = label.deadline.map_or(NEVER, |left| (now + left).as_nanos().min(NEVER - 1));
    u64::from(label.priority.level()) << DUE_BITS | due
}

/// What [`pack`] packed, with what is left of the budget at `now`.
pub(crate) fn unpack(now: Time, word: u64) -> Label {
    let due = word & NEVER;
    let left = (due < NEVER).then(|| Time::from_nanos(due).since(now));
    Label { priority: level(word), deadline: left }
}

/// The level of a packed label.
pub(crate) fn level(word: u64) -> Priority {
    Priority::new((word >> DUE_BITS) as u8).unwrap_or_default()
}

/// 2^61 ns are 73 years.
const DUE_BITS: u32 = 61;
const NEVER: u64 = (1 << DUE_BITS) - 1;
/// The label of what nobody has classified, packed.
pub(crate) const UNLABELED: u64 = (Priority::LOWEST.level() as u64) << DUE_BITS | NEVER;

#[cfg(test)]
mod tests {
    use super::*;
    use queueing::Span;

    #[test]
    fn a_packed_label_ages_and_the_smaller_word_is_more_urgent() {
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
