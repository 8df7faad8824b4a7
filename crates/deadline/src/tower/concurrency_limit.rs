//! Concurrency limit with a deadline queue in front.
//!
//! One lock guards both; it is held for one enqueue and one dequeue. A [`Permit`] is one unit
//! of the limit. Dropping it returns the unit; [`PermitSlot::release_early`] returns it before
//! that. A [`QueueSlot`] leaves the queue when dropped, so a cancelled future leaks nothing.
//!
//! Under [`Shedding::Infeasible`] a method that was slow must not be rejected forever: of its
//! infeasible requests without a response in between, one in 64 and one a second
//! ([`ProbeInterval`]) is served as a probe. If it meets its deadline, the method's samples are discarded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use queueing::priority_field::{Trust, accept};
use queueing::{Entry, Label, Priority, Span, Time};
use tokio::sync::oneshot;

use super::LimitCounts;
use super::level_queue::{LevelHandle, LevelQueue};
use super::probe::ProbeInterval;
use crate::slack::is_late;
use crate::{
    Budget, BudgetMedian, BudgetValidator, Cause, DequeueResult, EnqueueResult, Forecast, History,
    InvalidBudget, Limits, MethodOutcomes, MethodRow, Order, Outcome, OutcomeTable, QueueSettings, Reason,
    ReceivedBudget, Shedding, StageTimer, Work,
};

/// Limits of a server, and settings of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum concurrency in the handler, not zero; requests that
    /// [released their permit](super::give_way) do not count.
    pub limit: usize,
    /// Maximum number of requests that released their permit and are not answered yet.
    pub released_max: usize,
    /// Queue in front of the limit.
    pub queue: QueueSettings,
    /// Limits on received budgets.
    pub validation: Limits,
    /// Methods ([route templates](super::route_template) of paths) with a service-time
    /// estimate of their own, about 6 kB each. The least recently used makes room. Also the number of methods with
    /// [counters](super::DeadlineLayer::outcomes) of their own, where none makes room.
    pub methods_max: usize,
    /// True: serve in order of arrival, drop only requests that find a full queue, and count those
    /// that the shedding of `queue` would have dropped ([`LimitCounts::would_drop`]). Calls that
    /// the handler sends are not affected: a client's layer refuses those without time left.
    pub dry_run: bool,
    /// Levels of requests; `None`: no request has one. With `Some(level)` a request's field `Priority`
    /// (RFC 9218) is read, `level` is that of requests without it, more urgent levels are served first, and
    /// calls that the handler sends through [`PropagateLayer`](super::PropagateLayer) carry the request's level.
    /// A client can only lower its request; if peers are [trusted](Limits::trusted), their field sets the
    /// level. In a dry run levels do not change the order.
    pub levels: Option<Priority>,
    /// True: a handler that is still running at its request's deadline is dropped, and the request
    /// answered as expired. Work that the handler has handed to other tasks or threads goes on. A dry
    /// run drops no request.
    pub abort_late: bool,
}

/// Concurrency 64, 10,000 released permits, 64 methods, defaults for the rest.
impl Default for Settings {
    fn default() -> Self {
        let (queue, validation) = (QueueSettings::default(), Limits::default());
        Self {
            limit: 64,
            released_max: 10_000,
            queue,
            validation,
            methods_max: 64,
            dry_run: false,
            levels: None,
            abort_late: false,
        }
    }
}

/// Concurrency limit and queue.
pub(super) struct ConcurrencyLimit {
    limit: usize,
    released_max: usize,
    shedding: Shedding,
    order: Order,
    /// Rule of which a dry run counts the drops.
    dry_run: Option<Shedding>,
    abort_late: bool,
    levels: Option<Priority>,
    trusts_peers: bool,
    state: Mutex<State>,
    clock: super::Clock,
}

struct State {
    free: usize,
    queue: LevelQueue<Waiter>,
    validator: BudgetValidator,
    /// Slack of recent arrivals.
    budget_median: BudgetMedian,
    service_times: History<String>,
    /// Infeasible requests per method since its last response; methods without an estimate of
    /// their own share `None`.
    infeasible: BTreeMap<Option<String>, ProbeInterval>,
    counts: LimitCounts,
    outcomes: OutcomeTable,
    /// Requests in the handler that had low slack at dequeue and hold their permit.
    late_serving: usize,
    /// Smoothed share of a request's service for which it holds its permit, of [`HELD_ALL`].
    held_share: u64,
}

/// Request in the queue.
struct Waiter {
    /// Time left; `None` without a deadline.
    left: Option<Span>,
    /// Deadline.
    due: Time,
    service: Span,
    forecast: Forecast,
    occupancy: Span,
    slowest: Span,
    /// Row of its method's counters.
    row: MethodRow,
    result_tx: oneshot::Sender<Result<Permit, Reason>>,
}

impl Entry for Waiter {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: self.left }
    }

    fn service(&self) -> Span {
        self.service
    }

    fn slowest(&self) -> Span {
        self.slowest
    }
}

impl Work for Waiter {
    fn forecast(&self) -> Forecast {
        self.forecast.clone()
    }

    fn occupancy(&self) -> Span {
        self.occupancy
    }
}

impl ConcurrencyLimit {
    pub(super) fn new(settings: Settings, clock: super::Clock) -> Arc<Self> {
        assert!(settings.limit > 0, "limit 0 is outside 1..; set a concurrency limit of at least 1");
        let dry_run = settings.dry_run.then_some(settings.queue.shedding);
        let queue = match dry_run {
            Some(_) => QueueSettings { order: Order::Fifo, shedding: Shedding::None, ..settings.queue },
            None => settings.queue,
        };
        let state = State {
            free: settings.limit,
            queue: LevelQueue::new(queue, settings.limit, settings.levels.is_some() && dry_run.is_none()),
            validator: BudgetValidator::new(settings.validation),
            budget_median: BudgetMedian::default(),
            service_times: History::new(settings.methods_max),
            infeasible: BTreeMap::new(),
            counts: LimitCounts::default(),
            outcomes: OutcomeTable::new(settings.methods_max),
            late_serving: 0,
            held_share: HELD_ALL,
        };
        let Settings { limit, released_max, .. } = settings;
        let abort_late = settings.abort_late && dry_run.is_none();
        let trusts_peers = settings.validation.trusted;
        let QueueSettings { shedding, order, .. } = queue;
        let state = Mutex::new(state);
        let levels = settings.levels;
        Arc::new(Self {
            limit,
            released_max,
            shedding,
            order,
            dry_run,
            abort_late,
            levels,
            trusts_peers,
            state,
            clock,
        })
    }

    pub(super) fn clock(&self) -> &super::Clock {
        &self.clock
    }

    pub(super) fn counts(&self) -> LimitCounts {
        let state = self.state();
        LimitCounts {
            waiting: state.queue.len(),
            serving: self.limit - state.free,
            faults: InvalidBudget::ALL.map(|fault| state.validator.faults(fault)),
            shortened: state.validator.shortened(),
            ..state.counts
        }
    }

    /// True if requests have levels.
    pub(super) fn has_levels(&self) -> bool {
        self.levels.is_some()
    }

    /// Level of a request that asks for `asked`, if requests have levels.
    pub(super) fn level(&self, asked: Option<Priority>) -> Option<Priority> {
        let trust = if self.trusts_peers { Trust::Peer } else { Trust::Client };
        self.levels.map(|own| accept(trust, own, asked))
    }

    /// True if a handler is dropped at its request's deadline.
    pub(super) fn aborts_late(&self) -> bool {
        self.abort_late
    }

    /// True if peers are believed how much of a budget is spent.
    pub(super) fn trusts_peers(&self) -> bool {
        self.trusts_peers
    }

    pub(super) fn oldest_wait(&self) -> Span {
        let now = self.clock.now();
        self.state().queue.oldest().map_or(Span::ZERO, |offered| now.since(offered))
    }

    pub(super) fn reorders(&self) -> bool {
        self.order != Order::Fifo || self.levels.is_some() && self.dry_run.is_none()
    }

    pub(super) fn has_late_request(&self) -> bool {
        let now = self.clock.now();
        let state = self.state();
        state.late_serving > 0 || state.queue.head_is_late(now)
    }

    pub(super) fn budget_median(&self) -> Option<Span> {
        self.state().budget_median.median()
    }

    /// Enqueues a request for `method` that arrived at `now` with the fields `received`, on `level`
    /// if requests have levels.
    pub(super) fn admit(
        self: &Arc<Self>,
        now: Time,
        received: ReceivedBudget,
        level: Option<Priority>,
        method: &String,
    ) -> Admission {
        let (result_tx, result_rx) = oneshot::channel();
        let mut state = self.state();
        let budget: Budget = state.validator.validate(received);
        let estimate = budget.estimate();
        let timer = StageTimer::arrive(now, budget.without_estimate(), Span::ZERO);
        let left = timer.remaining(now).left();
        let limited_left = Some(left).filter(|_| timer.budget().is_limited());
        let forecast = match estimate {
            Some(estimate) => Forecast::constant(estimate.service),
            None => state.service_times.forecast(method),
        };
        let expected = estimate.map_or_else(|| state.expected(method), |estimate| estimate.service);
        let occupancy = forecast.mean() * state.held_share / HELD_ALL;
        let mut service = expected;
        let is_probe = self.shedding == Shedding::Infeasible && left < service && state.is_probe(now, method);
        if is_probe {
            service = Span::ZERO;
        }
        state.budget_median.record(limited_left.map(|left| left.saturating_sub(service)));
        let slowest = estimate.map_or(service, |estimate| estimate.slowest);
        let due = now + left;
        let row = state.outcomes.row(method);
        let waiter =
            Waiter { left: limited_left, due, service, forecast, occupancy, slowest, row, result_tx };
        let (result, handle) = state.queue.enqueue(now, level.unwrap_or_default(), waiter);
        let removed = match result {
            EnqueueResult::Queued => None,
            EnqueueResult::Refused(removed, reason) | EnqueueResult::Replaced(removed, reason) => {
                Some((removed, reason))
            }
        };
        if let Some((removed, reason)) = removed {
            state.record_rejection(removed.row, reason);
            let _ = removed.result_tx.send(Err(reason));
        }
        drop(state);
        self.serve_next(now);
        let timeout = match self.shedding {
            Shedding::None => None,
            Shedding::Expired | Shedding::Overload => Some(left),
            Shedding::Infeasible => Some(left - service),
        }
        .filter(|_| limited_left.is_some());
        let queue_slot = QueueSlot { limiter: Arc::clone(self), handle, row, result_rx, settled: false };
        Admission { timer, queue_slot, timeout, is_probe, expected }
    }

    /// Records that a request for `method` took `service` from dequeue to response.
    /// `disproved` discards older samples: the request met its deadline although it was
    /// infeasible by them.
    /// `held` is the part of it for which it held its permit. Returns the row of the method's counters.
    pub(super) fn learn(
        &self,
        now: Time,
        method: String,
        service: Span,
        held: Span,
        disproved: bool,
    ) -> MethodRow {
        let mut state = self.state();
        let row = state.outcomes.open_row(&method);
        let share = held.as_nanos().saturating_mul(HELD_ALL).checked_div(service.as_nanos());
        state.held_share = state.held_share - state.held_share / HELD_GAIN
            + share.map_or(HELD_ALL, |share| share.min(HELD_ALL)) / HELD_GAIN;
        if disproved {
            state.service_times.forget(&method);
        }
        state.service_times.record(now, method.clone(), service);
        let tracked = state.tracked_method(&method);
        state.infeasible.remove(&tracked);
        row
    }

    /// Outcomes of requests by method, and of those without a row of their own.
    pub(super) fn outcomes(&self) -> Vec<(String, MethodOutcomes)> {
        self.state().outcomes.methods()
    }

    /// Reason for rejecting a request after its queueing timeout.
    fn timeout_reason(&self) -> Reason {
        if self.shedding == Shedding::Infeasible { Reason::Infeasible } else { Reason::Expired }
    }

    /// Dequeues requests while permits are free.
    fn serve_next(self: &Arc<Self>, now: Time) {
        loop {
            let mut state = self.state();
            if state.free == 0 {
                return;
            }
            let Some(dequeued) = state.queue.dequeue(now) else { return };
            // Send outside of the lock: a rejected send drops the permit, which locks again.
            match dequeued {
                DequeueResult::Serve(waiter) => {
                    state.free -= 1;
                    let was_late = is_late(now, waiter.due, waiter.service);
                    let due = waiter.left.map(|_| waiter.due);
                    let would_drop =
                        self.dry_run.is_some_and(|rule| rule.drop_reason(now, due, waiter.service).is_some());
                    state.counts.would_drop += u64::from(would_drop);
                    state.late_serving += usize::from(was_late);
                    drop(state);
                    let held = AtomicU8::new(HELD);
                    let slot = Arc::new(PermitSlot {
                        limiter: Arc::clone(self),
                        held,
                        was_late,
                        released_at: OnceLock::new(),
                    });
                    let end = Outcome::Cancelled;
                    let permit = Permit { slot, would_drop, row: waiter.row, end, in_time: None };
                    let _ = waiter.result_tx.send(Ok(permit));
                }
                DequeueResult::Shed(waiter, reason) => {
                    state.record_rejection(waiter.row, reason);
                    drop(state);
                    let _ = waiter.result_tx.send(Err(reason));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a request for the method of `row` that is rejected for `reason`.
    fn record_rejection(&mut self, row: MethodRow, reason: Reason) {
        self.record_end(row, Outcome::Failed(reason.into()));
    }

    /// Counts the end of a request for the method of `row`.
    fn record_end(&mut self, row: MethodRow, end: Outcome) {
        self.outcomes.record(row, end);
        self.counts.record_end(end);
    }

    /// True for an infeasible request at `now` that is served as a probe.
    fn is_probe(&mut self, now: Time, method: &String) -> bool {
        let tracked = self.tracked_method(method);
        self.infeasible.entry(tracked).or_default().is_due(now)
    }

    /// Returns a permit of the handler.
    fn release(&mut self, was_late: bool) {
        self.free += 1;
        self.late_serving -= usize::from(was_late);
    }

    /// Key of `method`; `None` if it shares the estimate of other methods.
    fn tracked_method(&self, method: &String) -> Option<String> {
        self.service_times.tracks(method).then(|| method.clone())
    }

    /// Expected service time of `method`; zero while samples are too few.
    fn expected(&self, method: &String) -> Span {
        self.service_times.estimate(method).expected()
    }
}

/// Result of [`ConcurrencyLimit::admit`].
pub(super) struct Admission {
    pub(super) timer: StageTimer,
    pub(super) queue_slot: QueueSlot,
    /// Maximum time in the queue, if there is one.
    pub(super) timeout: Option<Span>,
    /// True if the request is infeasible and served as a probe.
    pub(super) is_probe: bool,
    /// Expected time from dequeue to response; zero if unknown.
    pub(super) expected: Span,
}

/// Entry in the queue; dropping it removes the entry.
pub(super) struct QueueSlot {
    limiter: Arc<ConcurrencyLimit>,
    handle: Option<LevelHandle>,
    /// Row of the method's counters.
    row: MethodRow,
    result_rx: oneshot::Receiver<Result<Permit, Reason>>,
    settled: bool,
}

impl QueueSlot {
    /// Waits at most `timeout` for a permit.
    pub(super) async fn acquire(mut self, timeout: Option<Span>) -> Result<Permit, Reason> {
        let result = match timeout {
            // The common case without queueing: the result is already there.
            Some(timeout) if self.result_rx.is_empty() => {
                let result = tokio::time::timeout(timeout.into(), &mut self.result_rx).await;
                match result {
                    Ok(result) => result,
                    Err(_) if self.time_out() => return Err(self.limiter.timeout_reason()),
                    // Dequeued at the moment of the timeout.
                    Err(_) => (&mut self.result_rx).await,
                }
            }
            _ => (&mut self.result_rx).await,
        };
        self.settled = true;
        result.expect("a dequeued request gets a result")
    }

    /// Removes the entry from the queue after the timeout; `true` if it was still there.
    fn time_out(&mut self) -> bool {
        let now = self.limiter.clock.now();
        let mut state = self.limiter.state();
        self.settled = self.handle.and_then(|handle| state.queue.remove(now, handle)).is_some();
        if self.settled {
            state.record_rejection(self.row, self.limiter.timeout_reason());
        }
        self.settled
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        if let (false, Some(handle)) = (self.settled, self.handle) {
            let now = self.limiter.clock.now();
            let mut state = self.limiter.state();
            if state.queue.remove(now, handle).is_some() {
                state.record_end(self.row, Outcome::Cancelled);
            }
        }
    }
}

/// One unit of the concurrency limit.
pub(super) struct Permit {
    slot: Arc<PermitSlot>,
    /// True if the request is served by a dry run only.
    would_drop: bool,
    /// Row of the method's counters.
    row: MethodRow,
    end: Outcome,
    /// True if the handler answered before the deadline; `None` without an answer.
    in_time: Option<bool>,
}

impl Permit {
    /// Shared part of the permit, for the handler.
    pub(super) fn slot(&self) -> Arc<PermitSlot> {
        Arc::clone(&self.slot)
    }

    /// Ends the request, whose handler was dropped at the deadline.
    pub(super) fn abort(mut self) {
        self.end = Outcome::Failed(Cause::Aborted);
    }

    /// Ends the request, whose handler answered, before the deadline if `in_time`, with the cause `upstream`
    /// of a called service, if any. Its method may have a `row` by now.
    pub(super) fn complete(mut self, row: Option<MethodRow>, in_time: bool, upstream: Option<Cause>) {
        let answered = if in_time { Outcome::InTime } else { Outcome::Late };
        self.row = row.unwrap_or(self.row);
        self.end = upstream.map_or(answered, Outcome::Failed);
        self.in_time = Some(in_time);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let limiter = &self.slot.limiter;
        let mut state = limiter.state();
        match self.slot.held.swap(CLOSED, Ordering::Relaxed) {
            HELD => state.release(self.slot.was_late),
            _ => state.counts.released -= 1,
        }
        state.record_end(self.row, self.end);
        if let Some(in_time) = self.in_time {
            state.counts.record_answer(in_time);
            state.counts.would_drop_in_time += u64::from(self.would_drop && in_time);
        }
        drop(state);
        limiter.serve_next(limiter.clock.now());
    }
}

/// State of a permit, shared with the handler, which may release it early.
pub(super) struct PermitSlot {
    limiter: Arc<ConcurrencyLimit>,
    /// [`HELD`], [`RELEASED`] or [`CLOSED`]; changed under the limiter's lock.
    held: AtomicU8,
    /// True if the request had low slack at dequeue.
    was_late: bool,
    /// Time of the early release.
    released_at: OnceLock<Time>,
}

impl PermitSlot {
    /// Time for which a request held its permit, from `started` to `now`.
    pub(super) fn held(&self, started: Time, now: Time) -> Span {
        self.released_at.get().copied().unwrap_or(now).since(started)
    }

    /// Releases the permit while the request goes on; `true` if it is released, now or
    /// before.
    pub(super) fn release_early(&self) -> bool {
        let mut state = self.limiter.state();
        match self.held.load(Ordering::Relaxed) {
            HELD if state.counts.released < self.limiter.released_max => {
                self.held.store(RELEASED, Ordering::Relaxed)
            }
            held => return held == RELEASED,
        }
        state.counts.released += 1;
        state.release(self.was_late);
        drop(state);
        let now = self.limiter.clock.now();
        let _ = self.released_at.set(now);
        self.limiter.serve_next(now);
        true
    }
}

impl std::fmt::Debug for PermitSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PermitSlot").field(&self.held).finish()
    }
}

/// The request counts against the limit.
const HELD: u8 = 0;
/// The permit was released early.
const RELEASED: u8 = 1;
/// The request has left the handler.
const CLOSED: u8 = 2;
/// Share of a request that holds its permit until the response.
const HELD_ALL: u64 = 1 << 16;
/// Inverse of the weight of a new sample of the share.
const HELD_GAIN: u64 = 64;
