//! Deadline queue: orders requests by remaining time and drops infeasible ones.
//!
//! Placed in front of a server (thread pool, concurrency limit), so that queueing counts
//! against the budget. An [`Order`] selects the next request, a [`Shedding`] the requests to
//! drop. Every entry is returned once, to be served or rejected. Default: earliest deadline
//! first, infeasible requests dropped. Deadline order without dropping is for experiments: it
//! collapses under overload, since it prefers requests that are about to be late.
//! Source: D2P §3.2 (a, scheduling); Liu and Layland 1973 (EDF); Mok 1983 (laxity).

mod median;
mod order;
mod shedding;

pub use median::BudgetMedian;
pub use order::{ORDERS, Order};
pub use shedding::{Reason, SHEDDINGS, Shedding};

use queueing::{
    Discipline, Entry, EntryHandle, FlowId, Label, Pifo, PushResult, Span, StarvationBound, Time,
};

use order::Rank;

use crate::slack::is_late;

/// Settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of entries, 1..2³² − 1.
    pub capacity: usize,
    /// Order of service.
    pub order: Order,
    /// Rule for dropping requests.
    pub shedding: Shedding,
    /// Deadline assumed for requests without one. Requests that waited longer are served
    /// every ninth time, whatever the order.
    pub age_max: Span,
}

/// 10,000 entries, earliest deadline first, infeasible requests dropped, maximum age 1 s.
impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: 10_000,
            order: Order::default(),
            shedding: Shedding::default(),
            age_max: Span::from_secs(1),
        }
    }
}

/// Result of an enqueue.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum EnqueueResult<T> {
    /// Entry queued.
    Queued,
    /// Entry not queued: reject it with the reason.
    Refused(T, Reason),
    /// Entry queued in place of the oldest one, which was due to be dropped: reject that
    /// one with the reason.
    Replaced(T, Reason),
}

/// Dequeued entry, and its disposition.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum DequeueResult<T> {
    /// Serve the entry.
    Serve(T),
    /// Reject the entry with the reason, and dequeue again.
    Shed(T, Reason),
}

/// Queue of requests waiting for service.
///
/// An entry's label holds the remaining budget at enqueue, if any. [`Entry::service`] is the
/// expected time from start of service to response, calls to other services included:
/// otherwise requests pass here and are dropped by later services, after the work is done.
pub struct DeadlineQueue<T> {
    waiting: Pifo<QueuedEntry<T>, Rank<T>>,
    shedding: Shedding,
}

impl<T: Entry> DeadlineQueue<T> {
    /// Empty queue.
    ///
    /// # Panics
    /// If the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::ranked(settings, settings.order.rank(settings.age_max))
    }

    /// Empty queue ordered by `rank`, least number first. `rank` gets the time of the
    /// enqueue and the entry, and may combine deadline, priority and the application's own
    /// data. Ignores the order of `settings`.
    ///
    /// # Panics
    /// If the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn with_order(settings: Settings, mut rank: impl FnMut(Time, &T) -> u64 + Send + 'static) -> Self {
        Self::ranked(settings, Box::new(move |now, waiting| rank(now, &waiting.entry)))
    }

    fn ranked(settings: Settings, rank: Rank<T>) -> Self {
        let waiting = Pifo::new(settings.capacity, settings.age_max, rank);
        Self { waiting, shedding: settings.shedding }
    }

    /// Enqueues `entry` at `now`, unless it is infeasible or the queue is full.
    pub fn enqueue(&mut self, now: Time, entry: T) -> EnqueueResult<T> {
        let waiting = QueuedEntry::new(now, entry);
        if let Some(reason) = self.shedding.drop_reason(now, waiting.due, waiting.service) {
            return EnqueueResult::Refused(waiting.entry, reason);
        }
        let rejected = match self.waiting.push(now, waiting) {
            PushResult::Queued => return EnqueueResult::Queued,
            PushResult::Refused(rejected) | PushResult::PushedOut(rejected) => rejected,
        };
        let oldest = self.waiting.peek_oldest();
        let reason = oldest.and_then(|oldest| self.shedding.drop_reason(now, oldest.due, oldest.service));
        let Some((reason, oldest)) = reason.and_then(|reason| Some((reason, self.waiting.pop_oldest()?)))
        else {
            return EnqueueResult::Refused(rejected.entry, Reason::Full);
        };
        match self.waiting.push(now, rejected) {
            PushResult::Queued => EnqueueResult::Replaced(oldest.entry, reason),
            PushResult::Refused(_) | PushResult::PushedOut(_) => {
                unreachable!("an entry was removed, so there is room")
            }
        }
    }

    /// Dequeues the next entry at `now`.
    pub fn dequeue(&mut self, now: Time) -> Option<DequeueResult<T>> {
        let waiting = self.waiting.pop(now)?;
        Some(match self.shedding.drop_reason(now, waiting.due, waiting.service) {
            None => DequeueResult::Serve(waiting.entry),
            Some(reason) => DequeueResult::Shed(waiting.entry, reason),
        })
    }

    /// Handle of the entry enqueued last, if it still waits.
    #[must_use]
    pub fn newest(&self) -> Option<EntryHandle> {
        self.waiting.newest()
    }

    /// Removes the entry with `handle`, for example when its client has cancelled; `None` if
    /// it has left.
    pub fn remove(&mut self, handle: EntryHandle) -> Option<T> {
        self.waiting.remove(handle).map(|waiting| waiting.entry)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Enqueue time of the oldest entry.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.waiting.oldest()
    }

    /// True if the next entry has low slack at `now`: its time left is zero, or less than
    /// twice its service time. False if its budget or service time is unknown.
    #[must_use]
    pub fn head_is_late(&self, now: Time) -> bool {
        self.waiting.peek().is_some_and(|next| next.is_late(now))
    }

    /// Bound on how long an entry can be passed over.
    #[must_use]
    pub fn starvation(&self) -> StarvationBound {
        self.waiting.starvation()
    }
}

/// Entry with its deadline on the local clock.
#[derive(Debug)]
struct QueuedEntry<T> {
    due: Option<Time>,
    service: Span,
    entry: T,
}

impl<T: Entry> QueuedEntry<T> {
    fn new(now: Time, entry: T) -> Self {
        Self { due: entry.label().deadline.map(|left| now + left), service: entry.service(), entry }
    }

    fn is_late(&self, now: Time) -> bool {
        self.due.is_some_and(|due| is_late(now, due, self.service))
    }
}

impl<T: Entry> Entry for QueuedEntry<T> {
    fn label(&self) -> Label {
        self.entry.label()
    }

    fn flow(&self) -> FlowId {
        self.entry.flow()
    }

    fn service(&self) -> Span {
        self.service
    }

    fn slowest(&self) -> Span {
        self.entry.slowest()
    }
}
