//! Priority queue of I/O requests with lazy cancellation.
//!
//! A cancelled request stays queued as a stale entry. Stale entries are skipped
//! at dequeue and purged when the queue is full. An entry older than [`AGE_MAX`]
//! is served every ninth time, whatever its level.

use queueing::{Discipline, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time};

/// Age beyond which an entry is served out of order.
const AGE_MAX: Span = Span::from_millis(10);

pub(crate) struct RequestQueue(Strict<Fifo<Waiting>>);

/// Queued request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub slot: u32,
    /// Sequence number, which distinguishes requests that reuse a slot.
    pub sequence: u64,
    pub level: Priority,
    /// Time of enqueue.
    pub since: Time,
}

impl Entry for Waiting {
    fn label(&self) -> Label {
        Label::new(self.level)
    }
}

impl RequestQueue {
    /// Queue for `capacity` live requests.
    pub fn new(capacity: usize) -> Self {
        Self(Strict::new(capacity, |_| Fifo::new(capacity)).with_age_max(AGE_MAX))
    }

    /// Enqueue time of the oldest entry.
    pub fn oldest(&self) -> Option<Time> {
        self.0.oldest()
    }

    /// Enqueues `waiting`. At most `capacity` entries satisfy `is_live`, including it.
    pub fn push(&mut self, waiting: Waiting, is_live: impl Fn(&Waiting) -> bool) {
        let PushResult::Refused(waiting) = self.0.push(waiting.since, waiting) else { return };
        let mut remaining = Vec::new();
        while let Some(other) = self.0.pop(waiting.since) {
            if is_live(&other) {
                remaining.push(other);
            }
        }
        remaining.sort_by_key(|other| other.since);
        for other in remaining.into_iter().chain([waiting]) {
            let pushed = self.0.push(other.since, other);
            assert!(matches!(pushed, PushResult::Queued), "live requests exceed the capacity");
        }
    }

    /// Dequeues the first entry that satisfies `is_live`.
    pub fn pop(&mut self, now: Time, is_live: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        std::iter::from_fn(|| self.0.pop(now)).find(is_live)
    }
}
