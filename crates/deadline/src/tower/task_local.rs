//! The budget of the task that runs: what a handler can ask.
//!
//! Task-local, as the paper's is thread-local; a task that is spawned is
//! another one, so [`spawn`] takes the budget along. Outside of any scope
//! there is no budget, and every answer says so or is the unhurried one.
//! Source: D2P §3 (thread-local storage), §3.2 (b, c, d).

use std::future::Future;
use std::sync::Arc;

use queueing::{Priority, Span, Time};
use tokio::task::JoinHandle;

use super::Clock;
use super::concurrency_limit::PermitSlot;
use crate::{Budget, Remaining, Slack, StageTimer};

tokio::task_local! {
    static CONTEXT: RequestContext;
}

/// A request in a handler.
#[derive(Clone, Debug)]
pub(super) struct RequestContext {
    pub(super) timer: StageTimer,
    pub(super) clock: Clock,
    /// Of a request that a [`DeadlineLayer`](super::DeadlineLayer) serves.
    pub(super) permit_slot: Option<Arc<PermitSlot>>,
    /// When its answer is expected, where that is known.
    pub(super) expected_end: Option<Time>,
}

impl RequestContext {
    /// The budget as of now.
    fn budget(&self) -> Budget {
        self.timer.outgoing_budget(self.clock.now())
    }
}

/// Runs `future` as a request with `budget` that is born now, or goes on now.
///
/// By the clock of the scope around it, else the monotonic one.
pub async fn scope<F: Future>(budget: Budget, future: F) -> F::Output {
    scope_at(current().map(|context| context.clock).unwrap_or_default(), budget, future).await
}

/// [`scope`] by `clock`.
pub async fn scope_at<F: Future>(clock: Clock, budget: Budget, future: F) -> F::Output {
    let now = clock.now();
    let mut timer = StageTimer::arrive(now, budget, Span::ZERO);
    timer.start(now);
    run_with_context(RequestContext { timer, clock, permit_slot: None, expected_end: None }, future).await
}

/// Lets the next request in: this one's own work is done, and from here on it
/// only waits for others, such as a service it calls.
///
/// The limit of a [`DeadlineLayer`](super::DeadlineLayer) is meant for what
/// work takes (threads, cores, connections to a database). A handler that
/// holds it while another service works lets that service's queue fill this
/// one's; one that gives way lets its limit be small and its queue be where the
/// waiting is. What the server learns is not changed by it: a method is
/// expected to take from its turn to its answer.
///
/// Whether the next may be served in its stead: not outside of a layer, after
/// the answer, or when [`Settings::away_max`](super::Settings::away_max) others
/// have given way and are still on their way. Asking twice changes nothing.
pub fn give_way() -> bool {
    CONTEXT
        .try_with(|context| context.permit_slot.as_ref().is_some_and(|slot| slot.release_early()))
        .unwrap_or(false)
}

/// Runs `future` at `here`.
pub(super) fn run_with_context<F: Future>(
    context: RequestContext,
    future: F,
) -> impl Future<Output = F::Output> {
    CONTEXT.scope(context, future)
}

/// Where the task is.
pub(super) fn current() -> Option<RequestContext> {
    CONTEXT.try_with(RequestContext::clone).ok()
}

/// `tokio::spawn` for a task that keeps this one's budget, if it has one.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match current() {
        Some(context) => tokio::spawn(run_with_context(context, future)),
        None => tokio::spawn(future),
    }
}

/// The budget as of now, for what is sent on by other ways than
/// [`PropagateLayer`](super::PropagateLayer), or to be split for a fan-out.
#[must_use]
pub fn budget() -> Option<Budget> {
    CONTEXT.try_with(RequestContext::budget).ok()
}

/// What is left: a handler that has little may give a cheaper answer (D2P
/// §3.2 d, precision).
#[must_use]
pub fn remaining() -> Option<Remaining> {
    CONTEXT.try_with(|context| context.timer.remaining(context.clock.now())).ok()
}

/// How urgent what this task does is, for queues of this machine: of eight
/// levels the one that the share of the budget still left gives. Everything
/// left is least urgent, and so is no budget (D2P §3.2 b, resources).
#[must_use]
pub fn priority() -> Priority {
    let Some((elapsed, granted)) = spent() else { return Priority::LOWEST };
    if elapsed == granted {
        return Priority::HIGHEST;
    }
    let level = scaled(granted - elapsed, granted, Priority::LEVELS as u64);
    Priority::new(level as u8).unwrap_or(Priority::LOWEST)
}

/// How what this task does stands against its budget, where a packet that is lost on the
/// way to others comes `loss` later (nobody knows: nothing is ahead). What it asks them for
/// can leave accordingly on a way of another [level](Standing::level), such as a connection
/// of another DSCP. On time before a [`DeadlineLayer`](super::DeadlineLayer) has learned
/// how long the method takes, and outside of one.
#[must_use]
pub fn slack(loss: Option<Span>) -> Slack {
    let slack = |context: &RequestContext| {
        let now = context.clock.now();
        let rest = context.expected_end.map(|end| end.since(now));
        Slack::of(context.timer.remaining(now).left(), rest, loss)
    };
    CONTEXT.try_with(slack).unwrap_or(Slack::OnTime)
}

/// Into how many parts to split work that can be split into `most`: 1 while all
/// of the budget is left or without one, `most` once nothing is, in between
/// by the share that was spent (D2P §3.2 c, parallelism).
///
/// # Panics
/// When `most` is zero.
#[must_use]
pub fn parts(most: usize) -> usize {
    assert!(most > 0, "work has at least one part");
    let more = spent().map_or(0, |(elapsed, granted)| scaled(elapsed, granted, most as u64 - 1));
    1 + more as usize
}

/// Runs `part(i, n)` for i in 0..n as n tasks that keep the budget, n being
/// [`parts`]`(most)`.
///
/// # Panics
/// When `most` is zero.
pub fn spawn_parallel<F>(most: usize, mut part: impl FnMut(usize, usize) -> F) -> Vec<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    let n = parts(most);
    (0..n).map(|i| spawn(part(i, n))).collect()
}

/// What was spent, and of how much.
fn spent() -> Option<(Span, Span)> {
    CONTEXT
        .try_with(|context| {
            let granted = context.timer.budget().granted();
            let now: Time = context.clock.now();
            (context.timer.elapsed(now).min(granted), granted)
        })
        .ok()
}

/// `part` of `whole` on a scale of 0..=`most`, rounded down; all of it when
/// there is no whole.
fn scaled(part: Span, whole: Span, most: u64) -> u64 {
    let (part_ns, whole_ns) = (u128::from(part.as_nanos()), u128::from(whole.as_nanos()));
    match whole_ns {
        0 => most,
        _ => (part_ns * u128::from(most) / whole_ns) as u64,
    }
}
