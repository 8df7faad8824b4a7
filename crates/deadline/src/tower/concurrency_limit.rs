//! Who may be served now, who waits, who is refused.
//!
//! A limit of so many at once and the queue in front of it, under one lock that
//! is held for a push and a pop. A [`Permit`] is one of the limit and goes back
//! by being dropped, or before when its request [gives way](Place::give_way); a
//! slot in the queue is given up the same way, so a future that is dropped,
//! wherever it is, leaves nothing behind.
//!
//! Estimates must not lock out for good what was slow once: when a method was
//! infeasible so many times and never answered in between, one request is tried
//! all the same, and if it makes it, what was learned is forgotten.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use queueing::{Entry, EntryHandle, Label, Priority, Span, Time};
use tokio::sync::oneshot;

use crate::slack::is_late;
use crate::{
    Budget, BudgetMedian, BudgetValidator, DeadlineQueue, DequeueResult, EnqueueResult, History,
    InvalidBudget, Limits, Order, Reason, Received, Shedding, StageTimer,
};

/// What a server grants, how many it serves at once, and how the others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At most so many requests are in the handler at once; not zero. Those
    /// that [gave way](super::give_way) do not count.
    pub limit: usize,
    /// At most so many have given way and are not answered yet.
    pub released_max: usize,
    /// The queue in front of it.
    pub queue: crate::Settings,
    /// What a peer is believed.
    pub validation: Limits,
    /// Methods (paths) whose expected time is learned one by one, about 30 kB
    /// each; those beyond share one.
    pub methods_max: usize,
}

/// 64 at once and 10,000 that gave way, 64 methods told apart, the rest as the
/// core has it.
impl Default for Settings {
    fn default() -> Self {
        let (queue, validation) = (crate::Settings::default(), Limits::default());
        Self { limit: 64, released_max: 10_000, queue, validation, methods_max: 64 }
    }
}

/// What a server did so far, and does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the queue now.
    pub waiting: usize,
    /// In the handler now, those that gave way not counted.
    pub serving: usize,
    /// In the handler now, having given way.
    pub released: usize,
    /// Answered by the handler.
    pub served: u64,
    /// Refused because nothing was left.
    pub expired: u64,
    /// Refused because too little was left.
    pub infeasible: u64,
    /// Refused because too many waited.
    pub full: u64,
    /// Given up by the client, waiting or served.
    pub cancelled: u64,
    /// Granted the default, by [`InvalidBudget`] in the order of [`InvalidBudget::ALL`].
    pub faults: [u64; InvalidBudget::ALL.len()],
    /// Granted less than they asked for, being of untrusted peers.
    pub shortened: u64,
}

/// The limit and the queue.
pub(super) struct ConcurrencyLimit {
    limit: usize,
    released_max: usize,
    shedding: Shedding,
    order: Order,
    state: Mutex<State>,
    clock: super::Clock,
}

struct State {
    free: usize,
    queue: DeadlineQueue<Waiter>,
    validator: BudgetValidator,
    /// What those could spare that came lately.
    budget_median: BudgetMedian,
    service_times: History<String>,
    /// By method, those infeasible since the last that was answered or tried;
    /// the methods that are not told apart share `None`.
    infeasible: BTreeMap<Option<String>, u32>,
    counts: Counts,
    /// Those in the handler that were behind when their turn came and have not given way.
    late_serving: usize,
}

/// A request in the queue.
struct Waiter {
    left: Span,
    /// When nothing is left.
    due: Time,
    service: Span,
    slowest: Span,
    result_tx: oneshot::Sender<Result<Permit, Reason>>,
}

impl Entry for Waiter {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: Some(self.left) }
    }

    fn service(&self) -> Span {
        self.service
    }

    fn slowest(&self) -> Span {
        self.slowest
    }
}

impl ConcurrencyLimit {
    pub(super) fn new(settings: Settings, clock: super::Clock) -> Arc<Self> {
        assert!(settings.limit > 0, "a server serves at least one request at once");
        let state = State {
            free: settings.limit,
            queue: DeadlineQueue::new(settings.queue),
            validator: BudgetValidator::new(settings.validation),
            budget_median: BudgetMedian::default(),
            service_times: History::new(settings.methods_max),
            infeasible: BTreeMap::new(),
            counts: Counts::default(),
            late_serving: 0,
        };
        let Settings { limit, released_max, .. } = settings;
        let crate::Settings { shedding, order, .. } = settings.queue;
        Arc::new(Self { limit, released_max, shedding, order, state: Mutex::new(state), clock })
    }

    pub(super) fn clock(&self) -> &super::Clock {
        &self.clock
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            waiting: state.queue.len(),
            serving: self.limit - state.free,
            faults: InvalidBudget::ALL.map(|fault| state.validator.faults(fault)),
            shortened: state.validator.shortened(),
            ..state.counts
        }
    }

    pub(super) fn oldest_wait(&self) -> Span {
        let now = self.clock.now();
        self.state().queue.oldest().map_or(Span::ZERO, |offered| now.since(offered))
    }

    pub(super) fn reorders(&self) -> bool {
        self.order != Order::Fifo
    }

    pub(super) fn has_late_request(&self) -> bool {
        let now = self.clock.now();
        let state = self.state();
        state.late_serving > 0 || state.queue.head_is_late(now)
    }

    pub(super) fn budget_median(&self) -> Option<Span> {
        self.state().budget_median.median()
    }

    /// A request for `method` came at `now` with `received`.
    pub(super) fn admit(self: &Arc<Self>, now: Time, received: Received<'_>, method: &String) -> Admission {
        let (result_tx, result_rx) = oneshot::channel();
        let mut state = self.state();
        let budget: Budget = state.validator.validate(received);
        let estimate = budget.estimate();
        let timer = StageTimer::arrive(now, budget.without_estimate(), Span::ZERO);
        let left = timer.remaining(now).left();
        let expected = estimate.map_or_else(|| state.expected(method), |estimate| estimate.service);
        let mut service = expected;
        let is_probe = self.shedding == Shedding::Infeasible && left < service && state.is_probe(method);
        if is_probe {
            service = Span::ZERO;
        }
        state.budget_median.record(Some(left.saturating_sub(service)));
        let slowest = estimate.map_or(service, |estimate| estimate.slowest);
        let waiter = Waiter { left, due: now + left, service, slowest, result_tx };
        let (removed, waits) = match state.queue.enqueue(now, waiter) {
            EnqueueResult::Queued => (None, true),
            EnqueueResult::Refused(removed, reason) => (Some((removed, reason)), false),
            EnqueueResult::Replaced(removed, reason) => (Some((removed, reason)), true),
        };
        let handle = if waits { state.queue.newest() } else { None };
        if let Some((removed, reason)) = removed {
            state.counts.count_rejection(reason);
            let _ = removed.result_tx.send(Err(reason));
        }
        drop(state);
        self.serve_next(now);
        let timeout = match self.shedding {
            Shedding::None => None,
            Shedding::Expired => Some(left),
            Shedding::Infeasible => Some(left - service),
        };
        let queue_slot = QueueSlot { limiter: Arc::clone(self), handle, result_rx, settled: false };
        Admission { timer, queue_slot, timeout, is_probe, expected }
    }

    /// A request for `method` was answered `service` after its turn had come;
    /// `disproved`: in time, though that had seemed infeasible.
    pub(super) fn learn(&self, method: String, service: Span, disproved: bool) {
        let mut state = self.state();
        if disproved {
            state.service_times.forget(&method);
        }
        state.service_times.record(method.clone(), service);
        let tracked = state.tracked_method(&method);
        state.infeasible.remove(&tracked);
    }

    /// Why a request that has waited too long is refused.
    fn timeout_reason(&self) -> Reason {
        if self.shedding == Shedding::Infeasible { Reason::Infeasible } else { Reason::Expired }
    }

    /// Gives what is free to those whose turn it is.
    fn serve_next(self: &Arc<Self>, now: Time) {
        loop {
            let mut state = self.state();
            if state.free == 0 {
                return;
            }
            let Some(dequeued) = state.queue.dequeue(now) else { return };
            // Told outside of the lock: what nobody takes is dropped there.
            match dequeued {
                DequeueResult::Serve(waiter) => {
                    state.free -= 1;
                    let was_late = is_late(now, waiter.due, waiter.service);
                    state.late_serving += usize::from(was_late);
                    drop(state);
                    let held = AtomicU8::new(HELD);
                    let slot = Arc::new(PermitSlot { limiter: Arc::clone(self), held, was_late });
                    let permit = Permit { slot, completed: false };
                    let _ = waiter.result_tx.send(Ok(permit));
                }
                DequeueResult::Shed(waiter, reason) => {
                    state.counts.count_rejection(reason);
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
    /// Whether an infeasible request is the one that is is_probe all the same.
    fn is_probe(&mut self, method: &String) -> bool {
        let tracked = self.tracked_method(method);
        let infeasible = self.infeasible.entry(tracked).or_default();
        *infeasible = (*infeasible + 1) % PROBE_EVERY;
        *infeasible == 0
    }

    /// One of those in the handler leaves its slot to the next.
    fn release(&mut self, was_late: bool) {
        self.free += 1;
        self.late_serving -= usize::from(was_late);
    }

    /// What `method` is learned as; `None` with all others that came too late.
    fn tracked_method(&self, method: &String) -> Option<String> {
        self.service_times.tracks(method).then(|| method.clone())
    }

    /// How long `method` is expected to take; nothing while too little is known.
    fn expected(&self, method: &String) -> Span {
        self.service_times.estimate(method).expected()
    }
}

impl Counts {
    fn count_rejection(&mut self, reason: Reason) {
        match reason {
            Reason::Expired => self.expired += 1,
            Reason::Infeasible => self.infeasible += 1,
            Reason::Full => self.full += 1,
        }
    }
}

/// A request that came.
pub(super) struct Admission {
    pub(super) timer: StageTimer,
    pub(super) queue_slot: QueueSlot,
    /// How long it can wait before waiting is pointless, if it ever is.
    pub(super) timeout: Option<Span>,
    /// Too little was left, and it was let in all the same.
    pub(super) is_probe: bool,
    /// How long it is expected to take from its turn on; zero where nobody knows.
    pub(super) expected: Span,
}

/// A slot in the queue; given up by being dropped.
pub(super) struct QueueSlot {
    limiter: Arc<ConcurrencyLimit>,
    handle: Option<EntryHandle>,
    result_rx: oneshot::Receiver<Result<Permit, Reason>>,
    settled: bool,
}

impl QueueSlot {
    /// Waits for the turn, for `timeout` at most.
    pub(super) async fn acquire(mut self, timeout: Option<Span>) -> Result<Permit, Reason> {
        let result = match timeout {
            // Already decided, which is the rule on a server that has room.
            Some(timeout) if self.result_rx.is_empty() => {
                let result = tokio::time::timeout(timeout.into(), &mut self.result_rx).await;
                match result {
                    Ok(result) => result,
                    Err(_) if self.time_out() => return Err(self.limiter.timeout_reason()),
                    // Its turn has come in this very moment.
                    Err(_) => (&mut self.result_rx).await,
                }
            }
            _ => (&mut self.result_rx).await,
        };
        self.settled = true;
        result.expect("who leaves the queue is told why, unless it gave up its place")
    }

    /// Leaves the queue because it cannot be answered in time any more, if it
    /// still waits there.
    fn time_out(&mut self) -> bool {
        let mut state = self.limiter.state();
        self.settled = self.handle.and_then(|handle| state.queue.remove(handle)).is_some();
        if self.settled {
            state.counts.count_rejection(self.limiter.timeout_reason());
        }
        self.settled
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        if let (false, Some(handle)) = (self.settled, self.handle) {
            let mut state = self.limiter.state();
            if state.queue.remove(handle).is_some() {
                state.counts.cancelled += 1;
            }
        }
    }
}

/// One of those that may be served at once.
pub(super) struct Permit {
    slot: Arc<PermitSlot>,
    completed: bool,
}

impl Permit {
    /// What of it the handler has.
    pub(super) fn slot(&self) -> Arc<PermitSlot> {
        Arc::clone(&self.slot)
    }

    /// Its request was answered.
    pub(super) fn complete(mut self) {
        self.completed = true;
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
        let counts = &mut state.counts;
        *if self.completed { &mut counts.served } else { &mut counts.cancelled } += 1;
        drop(state);
        limiter.serve_next(limiter.clock.now());
    }
}

/// The slot of a request among those served, which it may give to the next.
pub(super) struct PermitSlot {
    limiter: Arc<ConcurrencyLimit>,
    /// [`HELD`], [`RELEASED`] or [`CLOSED`]; changed under the limiter's lock.
    held: AtomicU8,
    /// Whether its request was behind when its turn came.
    was_late: bool,
}

impl PermitSlot {
    /// Lets the next request in while this one goes on; whether it did, now or
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
        self.limiter.serve_next(self.limiter.clock.now());
        true
    }
}

impl std::fmt::Debug for PermitSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PermitSlot").field(&self.held).finish()
    }
}

/// Its request counts among those served.
const HELD: u8 = 0;
/// It gave way.
const RELEASED: u8 = 1;
/// It left the handler.
const CLOSED: u8 = 2;
/// Of infeasible requests without an answer in between one in so many is tried.
const PROBE_EVERY: u32 = 64;
