//! Who may be served now, who waits, who is refused.
//!
//! A limit of so many at once and the queue in front of it, under one lock that
//! is held for a push and a pop. A [`Permit`] is one of the limit and goes back
//! by being dropped, or before when its request [gives way](Place::give_way); a
//! place in the queue is given up the same way, so a future that is dropped,
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

use crate::slack::waits_behind;
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
    pub away_max: usize,
    /// The queue in front of it.
    pub queue: crate::Settings,
    /// What a peer is believed.
    pub intake: Limits,
    /// Methods (paths) whose expected time is learned one by one, about 30 kB
    /// each; those beyond share one.
    pub methods_max: usize,
}

/// 64 at once and 10,000 that gave way, 64 methods told apart, the rest as the
/// core has it.
impl Default for Settings {
    fn default() -> Self {
        let (queue, intake) = (crate::Settings::default(), Limits::default());
        Self { limit: 64, away_max: 10_000, queue, intake, methods_max: 64 }
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
    pub away: usize,
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
    away_max: usize,
    shedding: Shedding,
    order: Order,
    state: Mutex<State>,
    clock: super::Clock,
}

struct State {
    free: usize,
    queue: DeadlineQueue<Waiter>,
    intake: BudgetValidator,
    /// What those could spare that came lately.
    budgets: BudgetMedian,
    learned: History<String>,
    /// By method, those infeasible since the last that was answered or tried;
    /// the methods that are not told apart share `None`.
    infeasible: BTreeMap<Option<String>, u32>,
    counts: Counts,
    /// Those in the handler that were behind when their turn came and have not given way.
    behind: usize,
}

/// A request in the queue.
struct Waiter {
    left: Span,
    /// When nothing is left.
    due: Time,
    service: Span,
    slowest: Span,
    turn: oneshot::Sender<Result<Permit, Reason>>,
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
            intake: BudgetValidator::new(settings.intake),
            budgets: BudgetMedian::default(),
            learned: History::new(settings.methods_max),
            infeasible: BTreeMap::new(),
            counts: Counts::default(),
            behind: 0,
        };
        let Settings { limit, away_max, .. } = settings;
        let crate::Settings { shedding, order, .. } = settings.queue;
        Arc::new(Self { limit, away_max, shedding, order, state: Mutex::new(state), clock })
    }

    pub(super) fn clock(&self) -> &super::Clock {
        &self.clock
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            waiting: state.queue.len(),
            serving: self.limit - state.free,
            faults: InvalidBudget::ALL.map(|fault| state.intake.faults(fault)),
            shortened: state.intake.shortened(),
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

    pub(super) fn is_behind(&self) -> bool {
        let now = self.clock.now();
        let state = self.state();
        state.behind > 0 || state.queue.head_is_late(now)
    }

    pub(super) fn budget_median(&self) -> Option<Span> {
        self.state().budgets.median()
    }

    /// A request for `method` came at `now` with `received`.
    pub(super) fn admit(self: &Arc<Self>, now: Time, received: Received<'_>, method: &String) -> Admission {
        let (turn, told) = oneshot::channel();
        let mut state = self.state();
        let budget: Budget = state.intake.validate(received);
        let part = budget.part();
        let visit = StageTimer::arrive(now, budget.arrived(), Span::ZERO);
        let left = visit.remaining(now).left();
        let expected = part.map_or_else(|| state.expected(method), |part| part.service);
        let mut service = expected;
        let tried = self.shedding == Shedding::Infeasible && left < service && state.tries(method);
        if tried {
            service = Span::ZERO;
        }
        state.budgets.came(Some(left.saturating_sub(service)));
        let slowest = part.map_or(service, |part| part.slowest);
        let waiter = Waiter { left, due: now + left, service, slowest, turn };
        let (gone, waits) = match state.queue.enqueue(now, waiter) {
            EnqueueResult::Queued => (None, true),
            EnqueueResult::Refused(gone, reason) => (Some((gone, reason)), false),
            EnqueueResult::Replaced(gone, reason) => (Some((gone, reason)), true),
        };
        let ticket = if waits { state.queue.newest() } else { None };
        if let Some((gone, reason)) = gone {
            state.counts.refused(reason);
            let _ = gone.turn.send(Err(reason));
        }
        drop(state);
        self.serve_next(now);
        let patience = match self.shedding {
            Shedding::None => None,
            Shedding::Expired => Some(left),
            Shedding::Infeasible => Some(left - service),
        };
        let seat = QueueSlot { gate: Arc::clone(self), ticket, told, done: false };
        Admission { visit, seat, patience, tried, expected }
    }

    /// A request for `method` was answered `service` after its turn had come;
    /// `disproved`: in time, though that had seemed infeasible.
    pub(super) fn learn(&self, method: String, service: Span, disproved: bool) {
        let mut state = self.state();
        if disproved {
            state.learned.forget(&method);
        }
        state.learned.record(method.clone(), service);
        let kind = state.kind(&method);
        state.infeasible.remove(&kind);
    }

    /// Why a request that has waited too long is refused.
    fn late(&self) -> Reason {
        if self.shedding == Shedding::Infeasible { Reason::Infeasible } else { Reason::Expired }
    }

    /// Gives what is free to those whose turn it is.
    fn serve_next(self: &Arc<Self>, now: Time) {
        loop {
            let mut state = self.state();
            if state.free == 0 {
                return;
            }
            let Some(turn) = state.queue.dequeue(now) else { return };
            // Told outside of the lock: what nobody takes is dropped there.
            match turn {
                DequeueResult::Serve(waiter) => {
                    state.free -= 1;
                    let behind = waits_behind(now, waiter.due, waiter.service);
                    state.behind += usize::from(behind);
                    drop(state);
                    let held = AtomicU8::new(HELD);
                    let place = Arc::new(PermitSlot { gate: Arc::clone(self), held, behind });
                    let permit = Permit { place, answered: false };
                    let _ = waiter.turn.send(Ok(permit));
                }
                DequeueResult::Shed(waiter, reason) => {
                    state.counts.refused(reason);
                    drop(state);
                    let _ = waiter.turn.send(Err(reason));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether an infeasible request is the one that is tried all the same.
    fn tries(&mut self, method: &String) -> bool {
        let kind = self.kind(method);
        let infeasible = self.infeasible.entry(kind).or_default();
        *infeasible = (*infeasible + 1) % TRY_EVERY;
        *infeasible == 0
    }

    /// One of those in the handler leaves its place to the next.
    fn frees(&mut self, behind: bool) {
        self.free += 1;
        self.behind -= usize::from(behind);
    }

    /// What `method` is learned as; `None` with all others that came too late.
    fn kind(&self, method: &String) -> Option<String> {
        self.learned.knows(method).then(|| method.clone())
    }

    /// How long `method` is expected to take; nothing while too little is known.
    fn expected(&self, method: &String) -> Span {
        self.learned.estimate(method).expected()
    }
}

impl Counts {
    fn refused(&mut self, reason: Reason) {
        match reason {
            Reason::Expired => self.expired += 1,
            Reason::Infeasible => self.infeasible += 1,
            Reason::Full => self.full += 1,
        }
    }
}

/// A request that came.
pub(super) struct Admission {
    pub(super) visit: StageTimer,
    pub(super) seat: QueueSlot,
    /// How long it can wait before waiting is pointless, if it ever is.
    pub(super) patience: Option<Span>,
    /// Too little was left, and it was let in all the same.
    pub(super) tried: bool,
    /// How long it is expected to take from its turn on; zero where nobody knows.
    pub(super) expected: Span,
}

/// A place in the queue; given up by being dropped.
pub(super) struct QueueSlot {
    gate: Arc<ConcurrencyLimit>,
    ticket: Option<EntryHandle>,
    told: oneshot::Receiver<Result<Permit, Reason>>,
    done: bool,
}

impl QueueSlot {
    /// Waits for the turn, for `patience` at most.
    pub(super) async fn acquire(mut self, patience: Option<Span>) -> Result<Permit, Reason> {
        let told = match patience {
            // Already decided, which is the rule on a server that has room.
            Some(patience) if self.told.is_empty() => {
                let told = tokio::time::timeout(patience.into(), &mut self.told).await;
                match told {
                    Ok(told) => told,
                    Err(_) if self.loses_patience() => return Err(self.gate.late()),
                    // Its turn has come in this very moment.
                    Err(_) => (&mut self.told).await,
                }
            }
            _ => (&mut self.told).await,
        };
        self.done = true;
        told.expect("who leaves the queue is told why, unless it gave up its place")
    }

    /// Leaves the queue because it cannot be answered in time any more, if it
    /// still waits there.
    fn loses_patience(&mut self) -> bool {
        let mut state = self.gate.state();
        self.done = self.ticket.and_then(|ticket| state.queue.remove(ticket)).is_some();
        if self.done {
            state.counts.refused(self.gate.late());
        }
        self.done
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        if let (false, Some(ticket)) = (self.done, self.ticket) {
            let mut state = self.gate.state();
            if state.queue.remove(ticket).is_some() {
                state.counts.cancelled += 1;
            }
        }
    }
}

/// One of those that may be served at once.
pub(super) struct Permit {
    place: Arc<PermitSlot>,
    answered: bool,
}

impl Permit {
    /// What of it the handler has.
    pub(super) fn place(&self) -> Arc<PermitSlot> {
        Arc::clone(&self.place)
    }

    /// Its request was answered.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let gate = &self.place.gate;
        let mut state = gate.state();
        match self.place.held.swap(OVER, Ordering::Relaxed) {
            HELD => state.frees(self.place.behind),
            _ => state.counts.away -= 1,
        }
        let counts = &mut state.counts;
        *if self.answered { &mut counts.served } else { &mut counts.cancelled } += 1;
        drop(state);
        gate.serve_next(gate.clock.now());
    }
}

/// The place of a request among those served, which it may give to the next.
pub(super) struct PermitSlot {
    gate: Arc<ConcurrencyLimit>,
    /// [`HELD`], [`AWAY`] or [`OVER`]; changed under the gate's lock.
    held: AtomicU8,
    /// Whether its request was behind when its turn came.
    behind: bool,
}

impl PermitSlot {
    /// Lets the next request in while this one goes on; whether it did, now or
    /// before.
    pub(super) fn release_early(&self) -> bool {
        let mut state = self.gate.state();
        match self.held.load(Ordering::Relaxed) {
            HELD if state.counts.away < self.gate.away_max => self.held.store(AWAY, Ordering::Relaxed),
            held => return held == AWAY,
        }
        state.counts.away += 1;
        state.frees(self.behind);
        drop(state);
        self.gate.serve_next(self.gate.clock.now());
        true
    }
}

impl std::fmt::Debug for PermitSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.held).finish()
    }
}

/// Its request counts among those served.
const HELD: u8 = 0;
/// It gave way.
const AWAY: u8 = 1;
/// It left the handler.
const OVER: u8 = 2;
/// Of infeasible requests without an answer in between one in so many is tried.
const TRY_EVERY: u32 = 64;
