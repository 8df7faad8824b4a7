//! Deadline queue: orders requests by remaining time and drops infeasible ones.
//!
//! Placed in front of a server (thread pool, concurrency limit), so that queueing counts
//! against the budget. An [`Order`] selects the next request, a [`Shedding`] the requests to
//! drop. Every entry is returned once, to be served or rejected. Default: earliest deadline
//! first, and the rule for [overload](Shedding::Overload). Deadline order without dropping is
//! for experiments: it collapses under overload, since it prefers requests that are about to
//! be late.
//! Source: D2P §3.2 (a, scheduling); Liu and Layland 1973 (EDF); Mok 1983 (laxity).

mod index;
mod load;
mod median;
mod order;
mod shedding;

pub use index::QueueHandle;
pub use median::BudgetMedian;
pub use order::{ORDERS, Order};
pub use shedding::{Reason, SHEDDINGS, Shedding};

use queueing::{Entry, Span, StarvationBound, Time};

use index::{Band, Index};
use load::{BudgetClass, LossMeter};
use order::Rank;

use crate::Forecast;
use crate::forecast::ONE;
use crate::slack::is_late;

/// Settings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Maximum number of entries, 1..2³² − 1.
    pub capacity: usize,
    /// Order of service.
    pub order: Order,
    /// Rule for dropping requests.
    pub shedding: Shedding,
    /// Deadline assumed for requests without one, in the order of service. Requests that
    /// waited longer are served every ninth time, whatever the order; under
    /// [`Shedding::Overload`] only those without a deadline.
    pub age_max: Span,
}

/// 10,000 entries, earliest deadline first, shedding under overload, maximum age 1 s.
impl Default for QueueSettings {
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

/// Entry of a [`DeadlineQueue`], with a forecast of its service time.
pub trait Work: Entry {
    /// Distribution of the time from start of service to response.
    fn forecast(&self) -> Forecast {
        Forecast::constant(self.service())
    }

    /// Expected time for which the request occupies the server.
    fn occupancy(&self) -> Span {
        self.forecast().mean()
    }
}

/// Queue of requests waiting for service.
///
/// An entry's label holds the remaining budget at enqueue, if any. [`Entry::service`] and
/// [`Work::forecast`] are the time from start of service to response, calls to other services
/// included: otherwise requests pass here and are dropped by later services, after the work
/// is done.
///
/// Under [`Shedding::Overload`] a request is refused only when it has expired or the queue is full. The
/// next request by the order is passed over if serving it now costs more than it gains. Gain: its
/// probability to be in time. Cost: the sum, over the 32 requests behind it, of the probability that each
/// of them loses by starting later by its expected occupancy. A request without a deadline loses nothing by
/// waiting, so its gain is nearly zero. While requests are being lost, a request is also passed over if its
/// probability has fallen below a share of its probability at enqueue. That share rises with the losses of
/// the last seconds (0.8 at a tenth).
///
/// A sender that understates its budget must not gain by it. While more than one request in fifty is lost,
/// those of a budget that lose less than others of their size wait for one with a longer budget. So a lie
/// gains at most what is gained within one octave of the budget. An order of the application's own is not
/// touched. Under [`Shedding::Expired`] and [`Shedding::Infeasible`] the same holds in the orders `edf` and `laxity`,
/// with less effect, since these rules have no other measure of losses.
///
/// Requests that were passed over are served, latest deadline first, when no other with a deadline
/// waits: the server never idles while one waits, and an estimate that is wrong under low load changes
/// nothing. A request without a deadline waits for them while their
/// probability is above its own gain. Source: Moore 1968 (fewest late jobs), in expectation.
pub struct DeadlineQueue<T> {
    waiting: Index<QueuedEntry<T>>,
    rank: Rank<T>,
    has_own_order: bool,
    settings: QueueSettings,
    servers: u64,
    losses: LossMeter,
    /// Longest turn and longest service of the entries since the queue was empty.
    longest: (Span, Span),
    /// Consecutive entries served in order.
    in_order: u8,
}

impl<T: Work> DeadlineQueue<T> {
    /// Empty queue in front of one server.
    ///
    /// # Panics
    /// If the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self::ranked(settings, settings.order.rank(settings.age_max), false)
    }

    /// Empty queue ordered by `rank`, least number first. `rank` gets the time of the
    /// enqueue and the entry, and may combine deadline, priority and the application's own
    /// data. Ignores the order of `settings`.
    ///
    /// # Panics
    /// If the capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn with_order(
        settings: QueueSettings,
        mut rank: impl FnMut(Time, &T) -> u64 + Send + 'static,
    ) -> Self {
        Self::ranked(settings, Box::new(move |now, waiting| rank(now, &waiting.entry)), true)
    }

    /// Queue in front of `servers` servers, at least 1: how fast it is served.
    #[must_use]
    pub fn with_servers(self, servers: usize) -> Self {
        Self { servers: servers.max(1) as u64, ..self }
    }

    fn ranked(settings: QueueSettings, rank: Rank<T>, has_own_order: bool) -> Self {
        let capacity = settings.capacity;
        assert!(capacity > 0, "capacity 0 is not above 0");
        assert!(capacity < u32::MAX as usize, "capacity {capacity} is not below 2^32 - 1");
        let (waiting, losses) = (Index::new(), LossMeter::default());
        let (servers, longest, in_order) = (1, (Span::ZERO, Span::ZERO), PASSED_IN_A_ROW);
        Self { waiting, rank, has_own_order, settings, servers, losses, longest, in_order }
    }

    /// Enqueues `entry` at `now`, unless the shedding drops it at once or the queue is full.
    pub fn enqueue(&mut self, now: Time, entry: T) -> EnqueueResult<T> {
        let waiting = QueuedEntry::new(now, entry, self.servers);
        if let Some(reason) = self.drop_reason(now, &waiting) {
            return EnqueueResult::Refused(waiting.entry, reason);
        }
        let mut replaced = None;
        if self.waiting.len() >= self.settings.capacity {
            replaced = self
                .replaceable(now)
                .and_then(|(handle, reason)| Some((self.waiting.remove(handle)?, reason)));
            if replaced.is_none() {
                return EnqueueResult::Refused(waiting.entry, Reason::Full);
            }
        }
        if self.waiting.len() == 0 {
            self.longest = (Span::ZERO, Span::ZERO);
        }
        let (turn, service) = self.longest;
        self.longest = (turn.max(waiting.turn), service.max(waiting.forecast.longest()));
        let rank = (self.rank)(now, &waiting);
        self.waiting.push(now, rank, waiting.due.is_some(), waiting);
        match replaced {
            None => EnqueueResult::Queued,
            Some((replaced, reason)) => EnqueueResult::Replaced(replaced.entry, reason),
        }
    }

    /// Entry of a full queue that makes room for another: the doubtful one that expires
    /// first, or the oldest one if it is to be dropped.
    fn replaceable(&self, now: Time) -> Option<(QueueHandle, Reason)> {
        if let Some((handle, doubtful)) = self.waiting.first(Band::Doubtful) {
            return Some((handle, self.drop_reason(now, doubtful).unwrap_or(Reason::Infeasible)));
        }
        let (handle, _, oldest) = self.waiting.oldest(false)?;
        self.drop_reason(now, oldest).map(|reason| (handle, reason))
    }

    fn drop_reason(&self, now: Time, waiting: &QueuedEntry<T>) -> Option<Reason> {
        self.settings.shedding.drop_reason(now, waiting.due, waiting.service)
    }

    /// Dequeues the next entry at `now`.
    pub fn dequeue(&mut self, now: Time) -> Option<DequeueResult<T>> {
        let handle = match self.settings.shedding {
            Shedding::Overload => self.next_in_overload(now)?,
            _ => self.next_in_order(now)?,
        };
        let waiting = self.waiting.remove(handle)?;
        let reason = self.drop_reason(now, &waiting);
        self.record_end(now, &waiting, if reason.is_some() { 0 } else { waiting.probability(now) });
        Some(match reason {
            None => DequeueResult::Serve(waiting.entry),
            Some(reason) => DequeueResult::Shed(waiting.entry, reason),
        })
    }

    fn next_in_order(&mut self, now: Time) -> Option<QueueHandle> {
        if let Some(handle) = self.aged(now) {
            return Some(handle);
        }
        let (handle, head) = self.waiting.first(Band::Ranked)?;
        if self.shares_losses() && self.drop_reason(now, head).is_none() {
            return Some(self.longer_budget_than(head, PASSED_OVER_MAX).unwrap_or(handle));
        }
        Some(handle)
    }

    fn next_in_overload(&mut self, now: Time) -> Option<QueueHandle> {
        for band in [Band::Doubtful, Band::Ranked] {
            if let Some((handle, first)) = self.waiting.first(band)
                && first.is_expired(now)
            {
                return Some(handle);
            }
        }
        if let Some(handle) = self.aged(now) {
            return Some(handle);
        }
        let floor = self.losses.floor();
        for _ in 0..PASSED_OVER_MAX {
            let Some((handle, head)) = self.waiting.first(Band::Ranked) else { break };
            if self.waiting.len() == 1 || !self.costs_more_than_it_gains(now, head, floor) {
                if head.due.is_some() {
                    return Some(handle);
                }
                break;
            }
            match head.due {
                Some(due) => self.waiting.move_to(handle, Band::Doubtful, due.as_nanos()),
                None => self.waiting.move_to(handle, Band::Patient, 0),
            }
        }
        // A request without a deadline loses nothing by waiting for one that has a chance.
        let waiting = &self.waiting;
        let doubtful = waiting.last(Band::Doubtful);
        let has_a_chance = doubtful.filter(|(_, last)| last.probability(now) >= GAIN_WITHOUT_DEADLINE);
        let next = has_a_chance.or(waiting.first(Band::Ranked)).or(waiting.first(Band::Patient)).or(doubtful);
        next.map(|(handle, _)| handle)
    }

    /// True if `head`, the first of the ranked entries, is to be passed over.
    fn costs_more_than_it_gains(&self, now: Time, head: &QueuedEntry<T>, floor: u64) -> bool {
        let gain = match head.due {
            None => GAIN_WITHOUT_DEADLINE,
            Some(_) => head.probability(now),
        };
        if head.due.is_some() && gain < floor * head.probability_at_enqueue / ONE {
            return true;
        }
        if self.longer_budget_than(head, SCAN_MAX).is_some() {
            return true;
        }
        if self.all_have_time(now, head) {
            return false;
        }
        let (mut start, mut cost) = (now, 0);
        for (_, behind) in self.waiting.ranked().skip(1).take(SCAN_MAX) {
            if let Some(due) = behind.due {
                let if_passed_over = behind.forecast.probability_within(due.since(start));
                let if_served = behind.forecast.probability_within(due.since(start + head.turn));
                cost += if_passed_over - if_served;
                if cost > gain {
                    return true;
                }
            }
            start += behind.turn;
        }
        false
    }

    /// True if budgets get equal shares of the losses outside of [`Shedding::Overload`]: they order the queue, and
    /// those that have expired are dropped.
    fn shares_losses(&self) -> bool {
        let sheds = matches!(self.settings.shedding, Shedding::Expired | Shedding::Infeasible);
        sheds && matches!(self.settings.order, Order::Edf | Order::Laxity)
    }

    /// Entry that `head` waits for, of the `scan` ones behind it: one with a longer budget, whose class does
    /// not lose less than others, while that of `head` does.
    fn longer_budget_than(&self, head: &QueuedEntry<T>, scan: usize) -> Option<QueueHandle> {
        let is_favoured =
            |waiting: &QueuedEntry<T>, class| self.losses.is_favoured(class, waiting.probability_at_enqueue);
        let class = head.class.filter(|_| !self.has_own_order)?;
        if !is_favoured(head, class) {
            return None;
        }
        let mut behind = self.waiting.ranked().skip(1).take(scan);
        let longer = behind.find(|(_, behind)| {
            let longer = behind.class.filter(|other| other.is_longer_than(class));
            longer.is_some_and(|longer| !is_favoured(behind, longer))
        });
        longer.map(|(handle, _)| handle)
    }

    /// True if no cost can arise, since the entries scanned will be in time whatever goes first.
    /// In deadline order none of them is due before `head`.
    fn all_have_time(&self, now: Time, head: &QueuedEntry<T>) -> bool {
        let is_edf = self.settings.order == Order::Edf && !self.has_own_order;
        let (turn, service) = self.longest;
        is_edf && head.due.is_some_and(|due| due.since(now) >= turn * (SCAN_MAX as u64 + 1) + service)
    }

    /// Handle of the oldest entry, if it is served for its age. Counts the dequeue.
    fn aged(&mut self, now: Time) -> Option<QueueHandle> {
        let without_deadline = self.settings.shedding == Shedding::Overload && !self.has_own_order;
        let oldest = self.waiting.oldest(without_deadline).filter(|&(_, pushed, _)| {
            self.in_order >= PASSED_IN_A_ROW && now.since(pushed) >= self.settings.age_max
        });
        let aged = oldest.map(|(handle, ..)| handle);
        self.in_order = if aged.is_some() { 0 } else { self.in_order.saturating_add(1) };
        aged
    }

    /// Handle of the entry enqueued last, if it still waits.
    #[must_use]
    pub fn newest(&self) -> Option<QueueHandle> {
        self.waiting.newest()
    }

    /// Removes the entry with `handle` at `now`, because its client has cancelled or its time
    /// is over; `None` if it has left.
    pub fn remove(&mut self, now: Time, handle: QueueHandle) -> Option<T> {
        let waiting = self.waiting.remove(handle)?;
        if waiting.is_expired(now) {
            self.record_end(now, &waiting, 0);
        }
        Some(waiting.entry)
    }

    /// Removes an entry that is served last, to make room for a more urgent one in another queue.
    #[cfg(feature = "tower")]
    pub(crate) fn evict(&mut self) -> Option<T> {
        let last = self.waiting.first(Band::Doubtful).or(self.waiting.last(Band::Patient));
        let (handle, _) = last.or(self.waiting.last(Band::Ranked))?;
        self.waiting.remove(handle).map(|waiting| waiting.entry)
    }

    /// Records that `waiting` left at `now`, in time with `probability`.
    fn record_end(&mut self, now: Time, waiting: &QueuedEntry<T>, probability: u64) {
        self.losses.record(now, probability);
        if let Some(class) = waiting.class {
            self.losses.record_class(class, waiting.probability_at_enqueue, probability);
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// Enqueue time of the oldest entry.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.waiting.oldest(false).map(|(_, pushed, _)| pushed)
    }

    /// True if the next entry has low slack at `now`: its time left is zero, or less than
    /// twice its service time. False if its budget or service time is unknown, and if all
    /// entries were passed over.
    #[must_use]
    pub fn head_is_late(&self, now: Time) -> bool {
        self.waiting.first(Band::Ranked).is_some_and(|(_, next)| next.is_late(now))
    }

    /// Bound on how long an entry can be passed over; under [`Shedding::Overload`] an entry
    /// without a deadline, since one with a deadline expires.
    #[must_use]
    pub fn starvation(&self) -> StarvationBound {
        let entries = (u64::from(PASSED_IN_A_ROW) + 1) * self.settings.capacity as u64 - 1;
        StarvationBound::Aged { span: self.settings.age_max, entries }
    }
}

/// Entry with its deadline on the local clock.
struct QueuedEntry<T> {
    due: Option<Time>,
    service: Span,
    forecast: Forecast,
    /// Time from one start of service to the next, if all entries were like this one.
    turn: Span,
    /// Probability to be in time if service had started at the enqueue, in units of 2⁻¹⁶.
    probability_at_enqueue: u64,
    /// `None` without a deadline.
    class: Option<BudgetClass>,
    entry: T,
}

impl<T: Work> QueuedEntry<T> {
    fn new(now: Time, entry: T, servers: u64) -> Self {
        let due = entry.label().deadline.map(|left| now + left).filter(|due| *due < Time::MAX);
        let (service, forecast, turn) = (entry.service(), entry.forecast(), entry.occupancy() / servers);
        let probability_at_enqueue = due.map_or(ONE, |due| forecast.probability_within(due.since(now)));
        let class = due.map(|due| BudgetClass::of(forecast.mean(), due.since(now)));
        Self { due, service, forecast, turn, probability_at_enqueue, class, entry }
    }

    fn is_late(&self, now: Time) -> bool {
        self.due.is_some_and(|due| is_late(now, due, self.service))
    }

    fn is_expired(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Probability to be in time if service starts at `now`, in units of 2⁻¹⁶.
    fn probability(&self, now: Time) -> u64 {
        self.due.map_or(ONE, |due| self.forecast.probability_within(due.since(now)))
    }
}

/// Entries behind the next one of which the loss is computed.
const SCAN_MAX: usize = 32;
/// Entries that one dequeue passes over, at most; bounds its duration.
const PASSED_OVER_MAX: usize = 128;
/// Gain of serving a request that loses nothing by waiting: one in twenty.
const GAIN_WITHOUT_DEADLINE: u64 = ONE / 20;
/// Entries served in order before an old one.
const PASSED_IN_A_ROW: u8 = 8;
