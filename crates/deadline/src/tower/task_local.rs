//! Task-local budget, as seen by a handler.
//!
//! The paper uses thread-local storage. A spawned task has its own task-locals, so [`spawn`]
//! copies the budget. Outside of a scope there is no budget: functions return `None` or the
//! least urgent value.
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

/// Context of a request in a handler.
#[derive(Clone, Debug)]
pub(super) struct RequestContext {
    /// Without the past that an untrusted peer claims.
    pub(super) timer: StageTimer,
    pub(super) clock: Clock,
    /// Level of the request, if requests have levels.
    pub(super) level: Option<Priority>,
    /// Set for requests served by a [`DeadlineLayer`](super::DeadlineLayer).
    pub(super) permit_slot: Option<Arc<PermitSlot>>,
    /// Expected time of the response, if known.
    pub(super) expected_end: Option<Time>,
}

impl RequestContext {
    /// Budget at this moment.
    fn budget(&self) -> Budget {
        self.timer.outgoing_budget(self.clock.now())
    }
}

/// Runs `future` with `budget`, which counts down from now.
///
/// Uses the clock of the enclosing scope, else the monotonic clock.
pub async fn scope<F: Future>(budget: Budget, future: F) -> F::Output {
    scope_at(current().map(|context| context.clock).unwrap_or_default(), budget, future).await
}

/// [`scope`] with `clock`.
pub async fn scope_at<F: Future>(clock: Clock, budget: Budget, future: F) -> F::Output {
    let now = clock.now();
    let mut timer = StageTimer::arrive(now, budget, Span::ZERO);
    timer.start(now);
    let context = RequestContext { timer, clock, level: level(), permit_slot: None, expected_end: None };
    run_with_context(context, future).await
}

/// Releases the request's permit early; call it when only waiting for other services is left.
///
/// The limit of a [`DeadlineLayer`](super::DeadlineLayer) is for local resources (threads, cores,
/// database connections). A handler that holds its permit during a call to another service
/// lets that service's queue fill this one's. Handlers that release it allow for a small
/// limit, with the queue where the bottleneck is. The service-time estimate is unaffected: it
/// covers dequeue to response.
///
/// Returns `true` if the permit is released, now or before; `false` outside of a layer, after
/// the response, or if [`Settings::released_max`](super::Settings::released_max) requests have
/// released theirs already.
pub fn give_way() -> bool {
    CONTEXT
        .try_with(|context| context.permit_slot.as_ref().is_some_and(|slot| slot.release_early()))
        .unwrap_or(false)
}

/// Runs `future` with context `here`.
pub(super) fn run_with_context<F: Future>(
    context: RequestContext,
    future: F,
) -> impl Future<Output = F::Output> {
    CONTEXT.scope(context, future)
}

/// Context of the current task.
pub(super) fn current() -> Option<RequestContext> {
    CONTEXT.try_with(RequestContext::clone).ok()
}

/// `tokio::spawn` that passes on this task's budget, if any.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match current() {
        Some(context) => tokio::spawn(run_with_context(context, future)),
        None => tokio::spawn(future),
    }
}

/// Budget at this moment, to split it for a fan-out or to send it by other means than
/// [`PropagateLayer`](super::PropagateLayer).
#[must_use]
pub fn budget() -> Option<Budget> {
    CONTEXT.try_with(RequestContext::budget).ok().filter(Budget::is_limited)
}

/// Time left; `None` without a deadline. With little left a handler may return a cheaper answer (D2P §3.2 d, precision).
#[must_use]
pub fn remaining() -> Option<Remaining> {
    let remaining = |context: &RequestContext| {
        let is_limited = context.timer.budget().is_limited();
        is_limited.then(|| context.timer.remaining(context.clock.now()))
    };
    CONTEXT.try_with(remaining).ok().flatten()
}

/// Level of the request that this task handles; `None` outside of a
/// [`DeadlineLayer`](super::DeadlineLayer) with [levels](super::Settings::levels).
#[must_use]
pub fn level() -> Option<Priority> {
    CONTEXT.try_with(|context| context.level).ok().flatten()
}

/// Priority of this task for local queues: the share of the budget left, on eight levels. The
/// lowest level with the whole budget left or without one (D2P §3.2 b, resources).
#[must_use]
pub fn priority() -> Priority {
    let Some((elapsed, granted)) = spent() else { return Priority::LOWEST };
    if elapsed == granted {
        return Priority::HIGHEST;
    }
    let level = scaled(granted - elapsed, granted, Priority::LEVELS as u64);
    Priority::new(level as u8).unwrap_or(Priority::LOWEST)
}

/// Slack class of this task, for requests to other services on a path where a retransmission
/// costs `loss` (unknown: never `Ahead`). Send them at another [level](Slack::level), for example
/// on a connection with another DSCP. `OnTime` before a
/// [`DeadlineLayer`](super::DeadlineLayer) has an estimate for the method, and outside of one.
#[must_use]
pub fn slack(loss: Option<Span>) -> Slack {
    let slack = |context: &RequestContext| {
        let now = context.clock.now();
        let rest = context.expected_end.map(|end| end.since(now));
        Slack::of(context.timer.remaining(now).left(), rest, loss)
    };
    CONTEXT.try_with(slack).unwrap_or(Slack::OnTime)
}

/// Number of parts for work that can be split into up to `most`: 1 with the whole budget left
/// or without one, `most` with nothing left, in proportion to the time spent in between (D2P
/// §3.2 c, parallelism).
///
/// # Panics
/// If `most` is zero.
#[must_use]
pub fn parts(most: usize) -> usize {
    assert!(most > 0, "most 0 is outside 1..; give the maximum number of parts");
    let more = spent().map_or(0, |(elapsed, granted)| scaled(elapsed, granted, most as u64 - 1));
    1 + more as usize
}

/// Spawns `part(i, n)` for i in 0..n with this task's budget; n is [`parts`]`(most)`.
///
/// # Panics
/// If `most` is zero.
pub fn spawn_parallel<F>(most: usize, mut part: impl FnMut(usize, usize) -> F) -> Vec<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    let n = parts(most);
    (0..n).map(|i| spawn(part(i, n))).collect()
}

/// Time spent and total time of the budget.
fn spent() -> Option<(Span, Span)> {
    let spent = |context: &RequestContext| {
        let granted = context.timer.budget().granted();
        let elapsed = context.timer.elapsed(context.clock.now());
        context.timer.budget().is_limited().then(|| (elapsed.min(granted), granted))
    };
    CONTEXT.try_with(spent).ok().flatten()
}

/// `part` of `total` on a scale of 0..=`most`, rounded down; `most` if `total` is zero.
fn scaled(part: Span, total: Span, most: u64) -> u64 {
    let (part_ns, whole_ns) = (u128::from(part.as_nanos()), u128::from(total.as_nanos()));
    match whole_ns {
        0 => most,
        _ => (part_ns * u128::from(most) / whole_ns) as u64,
    }
}
