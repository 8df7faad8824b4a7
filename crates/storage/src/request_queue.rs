//! A line of requests, the most urgent first, that may leave before their turn.
//!
//! Who left stays as an entry that is skipped, until its turn comes or the
//! line is full; then all of those go. So a line is as long as those that
//! wait, or as its bound. Who has waited for [`AGE_MAX`] goes every ninth time.

use queueing::{Discipline, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time};

/// Who waits longer is old.
const AGE_MAX: Span = Span::from_millis(10);

pub(crate) struct RequestQueue(Strict<Fifo<Waiting>>);

/// A request in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub slot: u32,
    /// Tells a request from an older one in its slot.
    pub turn: u64,
    pub level: Priority,
    /// Since when it stands here.
    pub since: Time,
}

impl Entry for Waiting {
    fn label(&self) -> Label {
        Label::new(self.level)
    }
}

impl RequestQueue {
    /// A line for `capacity` requests.
    pub fn new(capacity: usize) -> Self {
        Self(Strict::new(capacity, |_| Fifo::new(capacity)).with_age_max(AGE_MAX))
    }

    /// Since when the first of them waits that came first.
    pub fn oldest(&self) -> Option<Time> {
        self.0.oldest()
    }

    /// Lets one wait. There is room for all that `waits` says wait.
    pub fn push(&mut self, waiting: Waiting, waits: impl Fn(&Waiting) -> bool) {
        let PushResult::Refused(waiting) = self.0.push(waiting.since, waiting) else { return };
        let mut kept = Vec::new();
        while let Some(other) = self.0.pop(waiting.since) {
            if waits(&other) {
                kept.push(other);
            }
        }
        kept.sort_by_key(|other| other.since);
        for other in kept.into_iter().chain([waiting]) {
            let pushed = self.0.push(other.since, other);
            assert!(matches!(pushed, PushResult::Queued), "no more wait than may");
        }
    }

    /// Whose turn it is of those of whom `waits` says that they wait.
    pub fn pop(&mut self, now: Time, waits: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        std::iter::from_fn(|| self.0.pop(now)).find(waits)
    }
}
