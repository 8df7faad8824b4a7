//! Client layer: requests sent by a handler carry the remaining budget and, with
//! [levels](super::Settings::levels), the level of the request in the handler.
//!
//! Sends no budget with requests with [`WithoutBudget`] in their extensions, and requests sent outside of a
//! scope or in one without a deadline. Subtracts the network delay to the peer, as estimated from the peer's responses.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use queueing::Span;
use queueing::priority_field::{Trust, accept};
use tower_layer::Layer;
use tower_service::Service;

use super::network_delay::PeerDelays;
use super::task_local::current;
use super::{
    BUDGET, BoxFuture, ENVOY, GRPC, LOG_TARGET, asked, error_cause, is_grpc, response_cause, write_level,
};
use crate::Cause;
use crate::codec::{ParseError, envoy, field, grpc};

/// Any error.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Request extension: send no budget with this request and apply no timeout to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithoutBudget;

/// Error: the task's budget does not suffice for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTime {
    /// True if the request was sent.
    pub sent: bool,
    /// Time left when the request was made.
    pub left: Span,
}

impl OutOfTime {
    /// [`Cause::UpstreamTimeout`] if the request was sent; else [`Cause::Infeasible`] if there was time left,
    /// though less than the network delay, and [`Cause::Expired`] if there was none.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self.sent {
            true => Cause::UpstreamTimeout,
            false if self.left > Span::ZERO => Cause::Infeasible,
            false => Cause::Expired,
        }
    }
}

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sent {
            true => write!(f, "no response within the remaining {}", self.left),
            false => write!(f, "not sent: the remaining {} is too short", self.left),
        }
    }
}

impl std::error::Error for OutOfTime {}

/// Layer that adds the calling task's budget to outgoing requests.
///
/// A retry layer belongs above: then each attempt carries the time left then. A retry below sends the
/// first attempt's headers again, unless another `PropagateLayer` is below it.
#[derive(Clone)]
pub struct PropagateLayer {
    delays: Arc<PeerDelays>,
    failures: Arc<[AtomicU64; Cause::ALL.len()]>,
    error: fn(OutOfTime) -> BoxError,
    advisory: bool,
    envoy: bool,
}

impl PropagateLayer {
    /// Layer that fails with [`OutOfTime`].
    #[must_use]
    pub fn new() -> Self {
        let error: fn(OutOfTime) -> BoxError = |error| error.into();
        Self { delays: Arc::default(), failures: Arc::default(), error, advisory: false, envoy: false }
    }

    /// Sends the budget without enforcing it: requests are sent with no time left, and have
    /// no timeout. The application decides how to react to a missed deadline (D2P §3).
    /// Writes no `grpc-timeout`, since peers abort calls by it.
    #[must_use]
    pub fn advisory(self) -> Self {
        Self { advisory: true, ..self }
    }

    /// Also writes `x-envoy-expected-rq-timeout-ms`, unless the request has a shorter one,
    /// for peers that read Envoy's header.
    #[must_use]
    pub fn for_envoy(self) -> Self {
        Self { envoy: true, ..self }
    }

    /// Fails with the result of `error`. For tonic:
    /// `|late| tonic::Status::deadline_exceeded(late.to_string()).into()`. Metadata of the status may have
    /// [`Cause::HEADER`] with the name of [`OutOfTime::cause`].
    #[must_use]
    pub fn map_error(self, error: fn(OutOfTime) -> BoxError) -> Self {
        Self { error, ..self }
    }

    /// Number of calls that ended with `cause`: refused here or by the called service, or failed. Calls without a
    /// budget are included.
    #[must_use]
    pub fn failures(&self, cause: Cause) -> u64 {
        self.failures[cause as usize].load(Ordering::Relaxed)
    }

    /// Counts and logs a call to `authority` that ended with `cause`.
    fn record_failure(&self, cause: Cause, authority: &str, sent: bool) {
        self.failures[cause as usize].fetch_add(1, Ordering::Relaxed);
        tracing::debug!(target: LOG_TARGET, cause = cause.name(), authority, sent, "call failed");
    }

    /// Result of a call to `authority`, counted if it has a cause.
    fn record_result<B>(
        &self,
        result: Result<Response<B>, BoxError>,
        authority: &str,
    ) -> Result<Response<B>, BoxError> {
        let cause = match &result {
            Ok(response) => response_cause(response),
            Err(error) => Some(error_cause(&**error)),
        };
        if let Some(cause) = cause {
            self.record_failure(cause, authority, true);
        }
        result
    }

    /// Estimate of C to `authority` (`host:port`) at the last call; `""` for services that see requests
    /// without one, such as those under tonic's clients.
    #[must_use]
    pub fn one_way(&self, authority: &str) -> Span {
        self.delays.one_way(authority)
    }
}

impl Default for PropagateLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PropagateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PropagateLayer").field("peers", &self.delays).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for PropagateLayer {
    type Service = Propagate<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Propagate { inner, layer: self.clone() }
    }
}

/// Service wrapped by a [`PropagateLayer`].
#[derive(Clone, Debug)]
pub struct Propagate<S> {
    inner: S,
    layer: PropagateLayer,
}

impl<S, Q, B> Service<Request<Q>> for Propagate<S>
where
    S: Service<Request<Q>, Response = Response<B>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let context = current();
        if let Some(level) = context.as_ref().and_then(|context| context.level) {
            // A field that the request has already, such as one copied from a client's, can only lower.
            let before = asked(request.headers());
            let level = accept(Trust::Client, level, before);
            if before != Some(level) {
                write_level(request.headers_mut(), level);
            }
        }
        let context = context.filter(|context| context.timer.budget().is_limited());
        let context = context.filter(|_| request.extensions().get::<WithoutBudget>().is_none());
        let authority = request.uri().authority().map_or("", |authority| authority.as_str()).to_owned();
        let layer = self.layer.clone();
        let Some(context) = context else {
            let response = self.inner.call(request);
            return Box::pin(async move {
                let result = response.await.map_err(Into::into);
                layer.record_result(result, &authority)
            });
        };
        let now = context.clock.now();
        let budget = context.timer.outgoing_budget(now);
        let left = budget.remaining().left();
        let budget = layer.delays.delayed(now, budget, &authority);
        let PropagateLayer { advisory, envoy, .. } = layer;
        if budget.remaining().is_missed() && !advisory {
            let late = OutOfTime { sent: false, left };
            layer.record_failure(late.cause(), &authority, false);
            return Box::pin(async move { Err((layer.error)(late)) });
        }
        let headers = request.headers_mut();
        headers.insert(&BUDGET, header_value(field::write(&budget)));
        let left_on_arrival = budget.remaining().left();
        let grpc_timeout = (is_grpc(headers) && !advisory)
            .then(|| write_timeout(headers, &GRPC, left_on_arrival, grpc::parse, grpc::write))
            .flatten();
        if envoy {
            write_timeout(headers, &ENVOY, left_on_arrival, envoy::parse, envoy::write);
        }
        let response = self.inner.call(request);
        Box::pin(async move {
            let out_of_time = |layer: &PropagateLayer| {
                let late = OutOfTime { sent: true, left };
                layer.record_failure(late.cause(), &authority, true);
                Err((layer.error)(late))
            };
            let response = async move { response.await.map_err(Into::into) };
            let result = match advisory {
                true => response.await,
                false => match tokio::time::timeout(left.into(), response).await {
                    // A client that keeps `grpc-timeout` itself gives up before the time left on the
                    // way back has passed (tonic's with CANCELLED).
                    Ok(Err(_))
                        if grpc_timeout.is_some_and(|limit| context.clock.now().since(now) >= limit) =>
                    {
                        return out_of_time(&layer);
                    }
                    Ok(result) => result,
                    Err(_) => return out_of_time(&layer),
                },
            };
            let response = layer.record_result(result, &authority)?;
            let returned = response.headers().get(&BUDGET).and_then(|value| value.to_str().ok());
            if let Some(returned) = returned.and_then(|text| field::parse(text).ok()) {
                let end = context.clock.now();
                layer.delays.record(end, &authority, end.since(now), &budget, &returned);
            }
            Ok(response)
        })
    }
}

/// Writes `left` as header `name`, unless the caller has set a shorter value; the value as written.
fn write_timeout(
    headers: &mut HeaderMap,
    name: &'static HeaderName,
    left: Span,
    parse: fn(&str) -> Result<Span, ParseError>,
    write: fn(Span) -> String,
) -> Option<Span> {
    let own = headers.get(name).and_then(|value| parse(value.to_str().ok()?).ok());
    own.is_none_or(|own| left < own).then(|| {
        let text = write(left);
        let written = parse(&text).unwrap_or(left);
        headers.insert(name, header_value(text));
        written
    })
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("a budget is plain text")
}
