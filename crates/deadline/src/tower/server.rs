//! The server's layer: extract, wait, serve, answer with what was spent.
//!
//! The queue and the limit are this layer's own and shared by all services
//! that one layer makes, so it works per server, not per connection. Time is
//! counted from the call on: what waits here is seen by the handler, unlike
//! behind a `ConcurrencyLimit` outside of a timeout. The limit holds until the
//! response's head, or until the handler [gives way](super::give_way); a body
//! that streams goes on without it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use queueing::{Span, Time};
use tower_layer::Layer;
use tower_service::Service;

use super::concurrency_limit::{Admission, ConcurrencyLimit, Counts, Settings};
use super::task_local::{RequestContext, run_with_context};
use super::{BUDGET, BoxFuture, Clock, ENVOY, GRPC, RejectResponse, Rejection, Text};

use crate::codec::field;
use crate::{Received, StageTimer};

/// Puts a queue that serves by deadline in front of a server's services.
///
/// What waits before this layer it cannot see. HTTP/2 servers and clients hold
/// back streams beyond a limit (hyper's default is 200 a connection): set
/// `max_concurrent_streams` to what may wait here and be served.
#[derive(Clone)]
pub struct DeadlineLayer<A = Text> {
    limiter: Arc<ConcurrencyLimit>,
    reject_response: A,
}

impl DeadlineLayer {
    /// A layer with `settings`, by the monotonic clock.
    ///
    /// # Panics
    /// When the limit is zero or the queue's capacity outside 1..2³² − 1.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_clock(settings, Clock::default())
    }

    /// A layer with `settings`, by `clock`.
    ///
    /// # Panics
    /// When the limit is zero or the queue's capacity outside 1..2³² − 1.
    #[must_use]
    pub fn with_clock(settings: Settings, clock: Clock) -> Self {
        Self { limiter: ConcurrencyLimit::new(settings, clock), reject_response: Text }
    }
}

impl<A> DeadlineLayer<A> {
    /// The same, with `answer` to those that are not served.
    #[must_use]
    pub fn with_reject_response<Other>(self, reject_response: Other) -> DeadlineLayer<Other> {
        DeadlineLayer { limiter: self.limiter, reject_response }
    }

    /// What was done so far, by all services of this layer.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.limiter.counts()
    }

    /// How long the one that has waited longest in the queue has waited; zero
    /// when nobody waits.
    #[must_use]
    pub fn oldest_wait(&self) -> Span {
        self.limiter.oldest_wait()
    }

    /// Whether the queue has another order than that of arrival.
    #[must_use]
    pub fn reorders(&self) -> bool {
        self.limiter.reorders()
    }

    /// Whether somebody is behind who waits for a core here: the next in the queue, or one
    /// in the handler who was when its turn came and has not [given way](super::give_way).
    /// Behind is who has less left than twice what serving him is expected to take, or nothing.
    #[must_use]
    pub fn has_late_request(&self) -> bool {
        self.limiter.has_late_request()
    }

    /// What half of the requests that came lately had left when they came, less
    /// what serving them is expected to take; nothing before one came.
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

/// A service behind a [`DeadlineLayer`].
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

    /// Always: waiting is the queue's, where it is seen.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (limiter, reject_response) = (Arc::clone(&self.limiter), self.reject_response.clone());
        let mut inner = self.inner.clone();
        let method = request.uri().path().to_owned();
        let admission = limiter.admit(limiter.clock().now(), received(request.headers()), &method);
        let Admission { mut timer, queue_slot, timeout, is_probe, expected } = admission;
        Box::pin(async move {
            let permit = match queue_slot.acquire(timeout).await {
                Ok(permit) => permit,
                Err(reason) => {
                    let rejection = Rejection::new(reason, request.headers());
                    let mut response = reject_response.respond(rejection);
                    write_budget(response.headers_mut(), &timer, limiter.clock().now());
                    return Ok(response);
                }
            };
            let started = limiter.clock().now();
            timer.start(started);
            let served = async {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request).await
            };
            let expected_end = Some(started + expected).filter(|_| expected > Span::ZERO);
            let (clock, permit_slot) = (limiter.clock().clone(), Some(permit.slot()));
            let context = RequestContext { timer, clock, permit_slot, expected_end };
            let served = run_with_context(context, served).await;
            let now = limiter.clock().now();
            let served = served.map(|mut response| {
                if is_sample(&response) {
                    let disproved = is_probe && !timer.remaining(now).is_missed();
                    limiter.learn(method, now.since(started), disproved);
                }
                write_budget(response.headers_mut(), &timer, now);
                response
            });
            permit.complete();
            served
        })
    }
}

/// The budget fields among `headers`; a value that is no text is garbled.
fn received(headers: &HeaderMap) -> Received<'_> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Received { budget: text(&BUDGET), grpc_timeout: text(&GRPC), envoy_expected: text(&ENVOY) }
}

/// Writes where the request's time went, so that the peer learns C.
fn write_budget(headers: &mut HeaderMap, timer: &StageTimer, now: Time) {
    let text = field::write(&timer.outgoing_budget(now));
    headers.insert(&BUDGET, HeaderValue::try_from(text).expect("a budget is plain text"));
}

/// Whether a response says how long its method takes: what the client did
/// wrong is found out sooner, and a path that is not there needs no place.
fn is_sample<B>(response: &Response<B>) -> bool {
    !response.status().is_client_error() && !response.headers().contains_key(super::reject_response::STATUS)
}
