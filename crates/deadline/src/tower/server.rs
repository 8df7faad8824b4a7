//! Server layer: extracts the budget, queues, serves, and reports the time spent.
//!
//! Queue and concurrency limit belong to the layer and are shared by all services that it
//! makes, so they apply per server, not per connection. Time counts from the call on, so the
//! handler sees its queueing time; tower's own `ConcurrencyLimit` outside of a timeout hides
//! it. A request holds its permit until the response's head, or until the handler
//! [releases it](super::give_way). Streaming of the body needs no permit.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response};
use queueing::priority_field::DEFAULT;
use queueing::{Span, Time};
use tower_layer::Layer;
use tower_service::Service;

use super::concurrency_limit::{Admission, ConcurrencyLimit, Settings};
use super::reject_response::{read_cause, write_cause};
use super::task_local::{RequestContext, run_with_context};
use super::{
    BUDGET, BoxFuture, Clock, ENVOY, GRPC, LOG_TARGET, LimitCounts, PRIORITY, RejectResponse, Rejection,
    Text, asked, is_grpc, route_template, write_level,
};

use crate::codec::field;
use crate::{BudgetHeader, Cause, MethodOutcomes, ReceivedBudget, StageTimer};

/// Layer that puts a deadline queue in front of a server's services.
///
/// Requests that wait before this layer are invisible to it. HTTP/2 servers and clients limit
/// the streams per connection (hyper: 200 by default): set `max_concurrent_streams` to queue
/// capacity plus concurrency.
#[derive(Clone)]
pub struct DeadlineLayer<A = Text> {
    limiter: Arc<ConcurrencyLimit>,
    reject_response: A,
}

impl DeadlineLayer {
    /// Layer with `settings` and the monotonic clock.
    ///
    /// # Panics
    /// If the limit is zero or the queue's capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_clock(settings, Clock::default())
    }

    /// Layer with `settings` and `clock`.
    ///
    /// # Panics
    /// If the limit is zero or the queue's capacity is outside 1..2³² − 1.
    #[must_use]
    pub fn with_clock(settings: Settings, clock: Clock) -> Self {
        Self { limiter: ConcurrencyLimit::new(settings, clock), reject_response: Text }
    }
}

impl<A> DeadlineLayer<A> {
    /// Answers rejected requests with `reject_response`.
    #[must_use]
    pub fn with_reject_response<Other>(self, reject_response: Other) -> DeadlineLayer<Other> {
        DeadlineLayer { limiter: self.limiter, reject_response }
    }

    /// Concurrency limit and counters, shared by all services of this layer.
    #[cfg(feature = "opentelemetry")]
    pub(super) fn limiter(&self) -> Arc<ConcurrencyLimit> {
        Arc::clone(&self.limiter)
    }

    /// Counters, summed over all services of this layer.
    #[must_use]
    pub fn counts(&self) -> LimitCounts {
        self.limiter.counts()
    }

    /// Outcomes of requests by method ([route template](super::route_template)), from a method's first answer on, and
    /// of all others as [`OTHER`](crate::OutcomeTable::OTHER). At most [`Settings::methods_max`] methods and that one.
    #[must_use]
    pub fn outcomes(&self) -> Vec<(String, MethodOutcomes)> {
        self.limiter.outcomes()
    }

    /// Age of the oldest request in the queue; zero if the queue is empty.
    #[must_use]
    pub fn oldest_wait(&self) -> Span {
        self.limiter.oldest_wait()
    }

    /// True if the queue is not in order of arrival.
    #[must_use]
    pub fn reorders(&self) -> bool {
        self.limiter.reorders()
    }

    /// True if a request that needs a core has low slack: the next one in the queue, or one in
    /// the handler that had low slack at dequeue and still holds its permit. Low slack: less
    /// time left than twice the expected service time, or none.
    #[must_use]
    pub fn has_late_request(&self) -> bool {
        self.limiter.has_late_request()
    }

    /// Median over recent arrivals of time left less expected service time; `None` before the
    /// first request.
    #[must_use]
    pub fn budget_median(&self) -> Option<Span> {
        self.limiter.budget_median()
    }
}

impl<A> fmt::Debug for DeadlineLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineLayer").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl<S, A: Clone> Layer<S> for DeadlineLayer<A> {
    type Service = Deadline<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline { inner, limiter: Arc::clone(&self.limiter), reject_response: self.reject_response.clone() }
    }
}

/// Service wrapped by a [`DeadlineLayer`].
#[derive(Clone)]
pub struct Deadline<S, A = Text> {
    inner: S,
    limiter: Arc<ConcurrencyLimit>,
    reject_response: A,
}

impl<S, A> fmt::Debug for Deadline<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("counts", &self.limiter.counts()).finish_non_exhaustive()
    }
}

impl<S, A, Q, B> Service<Request<Q>> for Deadline<S, A>
where
    S: Service<Request<Q>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
    A: RejectResponse<B> + Clone + Send + 'static,
    Q: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<Result<Response<B>, S::Error>>;

    /// Always ready: requests wait in the layer's queue, where they are counted.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (limiter, reject_response) = (Arc::clone(&self.limiter), self.reject_response.clone());
        let mut inner = self.inner.clone();
        let method = route_template(request.uri().path());
        let requested = if limiter.has_levels() { asked(request.headers()) } else { None };
        let level = limiter.level(requested);
        let admission = limiter.admit(limiter.clock().now(), received(request.headers()), level, &method);
        let Admission { mut timer, queue_slot, timeout, is_probe, expected } = admission;
        Box::pin(async move {
            let permit = match queue_slot.acquire(timeout).await {
                Ok(permit) => permit,
                Err(reason) => {
                    let rejection = Rejection::new(reason, request.headers());
                    return Ok(reject(&reject_response, rejection, &timer, limiter.clock().now(), &method));
                }
            };
            let grpc = is_grpc(request.headers());
            let started = limiter.clock().now();
            timer.start(started);
            let served = async {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request).await
            };
            let expected_end = Some(started + expected).filter(|_| expected > Span::ZERO);
            let (clock, slot) = (limiter.clock().clone(), permit.slot());
            let permit_slot = Some(Arc::clone(&slot));
            // An untrusted peer's past neither raises the handler's priority nor travels on.
            let believed = if limiter.trusts_peers() { timer } else { timer.without_past() };
            let context = RequestContext { timer: believed, clock, level, permit_slot, expected_end };
            let left = timer.remaining(started).left();
            let aborts_at = Some(left).filter(|_| limiter.aborts_late() && timer.budget().is_limited());
            let served = run_with_context(context, served);
            let served = match aborts_at {
                Some(left) => tokio::time::timeout(left.into(), served).await,
                None => Ok(served.await),
            };
            let now = limiter.clock().now();
            let Ok(served) = served else {
                permit.abort();
                let rejection = Rejection { cause: Cause::Aborted, grpc };
                return Ok(reject(&reject_response, rejection, &timer, now, &method));
            };
            let upstream = served.as_ref().ok().and_then(|response| read_cause(response.headers()));
            let upstream = upstream.map(Cause::seen_from_downstream);
            if let Some(cause) = upstream {
                log(cause, &method, &timer, now);
            }
            let mut row = None;
            let served = served.map(|mut response| {
                if is_sample(&response) {
                    let disproved = is_probe && !timer.remaining(now).is_missed();
                    let held = slot.held(started, now);
                    row = Some(limiter.learn(now, method, now.since(started), held, disproved));
                }
                write_budget(response.headers_mut(), &timer, now);
                // Without the field the peer takes the level that it has asked for.
                if let Some(level) = level.filter(|level| *level != requested.unwrap_or(DEFAULT))
                    && !response.headers().contains_key(&PRIORITY)
                {
                    write_level(response.headers_mut(), level);
                }
                response
            });
            permit.complete(row, !timer.remaining(now).is_missed(), upstream);
            served
        })
    }
}

/// Response to a request for `method` that is rejected at `now`.
fn reject<B>(
    reject_response: &impl RejectResponse<B>,
    rejection: Rejection,
    timer: &StageTimer,
    now: Time,
    method: &str,
) -> Response<B> {
    log(rejection.cause, method, timer, now);
    let mut response = reject_response.respond(rejection);
    write_cause(response.headers_mut(), rejection.cause);
    write_budget(response.headers_mut(), timer, now);
    response
}

/// Logs a request for `method` that ends with `cause` at `now`.
fn log(cause: Cause, method: &str, timer: &StageTimer, now: Time) {
    let left_us = timer.remaining(now).left().as_nanos() / 1_000;
    tracing::debug!(target: LOG_TARGET, cause = cause.name(), method, left_us, "request ended without its answer");
}

fn received(headers: &HeaderMap) -> ReceivedBudget {
    ReceivedBudget::read(|header| {
        let name = match header {
            BudgetHeader::Greenwave => &BUDGET,
            BudgetHeader::GrpcTimeout => &GRPC,
            BudgetHeader::EnvoyExpected => &ENVOY,
        };
        headers.get_all(name).iter().map(HeaderValue::as_bytes)
    })
}

/// Writes the time spent into `headers`, from which the peer computes C; nothing if the
/// request has no deadline.
fn write_budget(headers: &mut HeaderMap, timer: &StageTimer, now: Time) {
    if !timer.budget().is_limited() {
        return;
    }
    let text = field::write(&timer.outgoing_budget(now));
    headers.insert(&BUDGET, HeaderValue::try_from(text).expect("a budget is plain text"));
}

/// True if the response is a service-time sample: not for client errors, which are detected
/// early, and unknown paths, which need no estimate.
fn is_sample<B>(response: &Response<B>) -> bool {
    !response.status().is_client_error() && !response.headers().contains_key(super::reject_response::STATUS)
}
