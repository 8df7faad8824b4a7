//! A queue that serves by what is left, and drops what cannot make it.
//!
//! Stands in front of whatever serves (a thread pool, a concurrency limit), so
//! that waiting counts. Who goes next is an [`Order`]; what is not served any
//! more is a [`Shedding`]. Every entry comes out again, to be served or to be
//! answered with the reason. The default is earliest deadline first with
//! infeasible requests dropped; deadline order *without* dropping collapses
//! once there is too much work, since it prefers exactly those that are about
//! to be late, and is there for experiments.
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

/// What a queue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At most so many wait, 1..2³² − 1.
    pub capacity: usize,
    /// Who goes next.
    pub order: Order,
    /// Who is dropped instead of served.
    pub shedding: Shedding,
    /// A request without a deadline is ordered as if it had this one. One that
    /// waited for this long is served every ninth time, whatever the order.
    pub age_max: Span,
}

/// 10,000 waiting, earliest deadline first, infeasible ones dropped, age_max
/// of a second.
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

/// What became of a request that was offered.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum EnqueueResult<T> {
    /// It waits.
    Queued,
    /// It comes back: answer it with the reason.
    Refused(T, Reason),
    /// It waits; the oldest, which was to be dropped anyway, left for it:
    /// answer that one with the reason.
    Replaced(T, Reason),
}

/// Who comes out of the queue, and what to do with it.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum DequeueResult<T> {
    /// Serve it.
    Serve(T),
    /// Answer it with the reason, and ask again: no work was given out.
    Shed(T, Reason),
}

/// Requests that wait for service.
///
/// An entry's label says what is left of its budget at the push, if it has
/// one, and [`Entry::service`] how long its answer will take once its turn has
/// come. Calls to other services count: dropping by the service here alone
/// lets through what later services then drop, after the work is done.
pub struct DeadlineQueue<T> {
    waiting: Pifo<QueuedEntry<T>, Rank<T>>,
    shedding: Shedding,
}

impl<T: Entry> DeadlineQueue<T> {
    /// An empty queue.
    ///
    /// # Panics
    /// When the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::ranked(settings, settings.order.rank(settings.age_max))
    }

    /// An empty queue in an order of the application's own: the least number
    /// first, from the instant of the offer and the request, so that it may
    /// combine what is left, priority and whatever it knows. The order of
    /// `settings` is not used.
    ///
    /// # Panics
    /// When the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn with_order(settings: Settings, mut rank: impl FnMut(Time, &T) -> u64 + Send + 'static) -> Self {
        Self::ranked(settings, Box::new(move |now, waiting| rank(now, &waiting.entry)))
    }

    fn ranked(settings: Settings, rank: Rank<T>) -> Self {
        let waiting = Pifo::new(settings.capacity, settings.age_max, rank);
        Self { waiting, shedding: settings.shedding }
    }

    /// Takes `entry` in at `now`, unless it is hopeless already or there is no
    /// room.
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
            PushResult::Refused(_) | PushResult::PushedOut(_) => unreachable!("one left, so one has room"),
        }
    }

    /// The entry whose turn it is at `now`.
    pub fn dequeue(&mut self, now: Time) -> Option<DequeueResult<T>> {
        let waiting = self.waiting.pop(now)?;
        Some(match self.shedding.drop_reason(now, waiting.due, waiting.service) {
            None => DequeueResult::Serve(waiting.entry),
            Some(reason) => DequeueResult::Shed(waiting.entry, reason),
        })
    }

    /// Names the entry that was offered last, if it waits.
    #[must_use]
    pub fn newest(&self) -> Option<EntryHandle> {
        self.waiting.newest()
    }

    /// Takes the entry that `handle` names out, when nobody waits for its
    /// answer any more; `None` when it has left.
    pub fn remove(&mut self, handle: EntryHandle) -> Option<T> {
        self.waiting.remove(handle).map(|waiting| waiting.entry)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the one that has waited longest was offered.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.waiting.oldest()
    }

    /// Whether the entry whose turn is next is behind at `now`: less is left of its budget
    /// than twice its service, or nothing. Not where it has no budget, or nobody knows its service.
    #[must_use]
    pub fn head_is_late(&self, now: Time) -> bool {
        self.waiting.peek().is_some_and(|next| next.is_late(now))
    }

    /// How long an entry can be passed over.
    #[must_use]
    pub fn starvation(&self) -> StarvationBound {
        self.waiting.starvation()
    }
}

/// An entry and, on this machine's clock, when nothing is left of its budget.
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
