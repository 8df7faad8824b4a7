//! Client layer: requests sent by a handler carry the remaining budget and, with
//! [levels](super::Settings::levels), the level of the request in the handler.
//!
//! Sends no budget with requests with [`WithoutBudget`] in their extensions, and requests sent outside of a
//! scope or in one without a deadline. Subtracts the network delay to the peer, as estimated from the peer's responses.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use queueing::Span;
use queueing::priority_field::{Trust, accept};
use tower_layer::Layer;
use tower_service::Service;

use super::network_delay::PeerDelays;
use super::task_local::current;
use super::{BUDGET, BoxFuture, ENVOY, GRPC, asked, is_grpc, write_level};
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
    error: fn(OutOfTime) -> BoxError,
    advisory: bool,
    envoy: bool,
}

impl PropagateLayer {
    /// Layer that fails with [`OutOfTime`].
    #[must_use]
    pub fn new() -> Self {
        Self { delays: Arc::default(), error: |error| error.into(), advisory: false, envoy: false }
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
    /// `|late| tonic::Status::deadline_exceeded(late.to_string()).into()`.
    #[must_use]
    pub fn map_error(self, error: fn(OutOfTime) -> BoxError) -> Self {
        Self { error, ..self }
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
        let Some(context) = context else {
            let response = self.inner.call(request);
            return Box::pin(async move { response.await.map_err(Into::into) });
        };
        let PropagateLayer { delays, error, advisory, envoy } = self.layer.clone();
        let authority = request.uri().authority().map_or("", |authority| authority.as_str()).to_owned();
        let now = context.clock.now();
        let budget = context.timer.outgoing_budget(now);
        let left = budget.remaining().left();
        let budget = delays.delayed(now, budget, &authority);
        if budget.remaining().is_missed() && !advisory {
            return Box::pin(async move { Err(error(OutOfTime { sent: false, left })) });
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
            let response = async move { response.await.map_err(Into::into) };
            let response = match advisory {
                true => response.await?,
                false => match tokio::time::timeout(left.into(), response).await {
                    // A client that keeps `grpc-timeout` itself gives up before the time left on the
                    // way back has passed (tonic's with CANCELLED).
                    Ok(Err(_))
                        if grpc_timeout.is_some_and(|limit| context.clock.now().since(now) >= limit) =>
                    {
                        return Err(error(OutOfTime { sent: true, left }));
                    }
                    Ok(response) => response?,
                    Err(_) => return Err(error(OutOfTime { sent: true, left })),
                },
            };
            let returned = response.headers().get(&BUDGET).and_then(|value| value.to_str().ok());
            if let Some(returned) = returned.and_then(|text| field::parse(text).ok()) {
                let end = context.clock.now();
                delays.record(end, &authority, end.since(now), &budget, &returned);
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
