//! The client's layer: every request that a handler makes carries what is left.
//!
//! On by default; a request with [`WithoutBudget`] among its extensions goes
//! as it is, and so does one that is made outside of any scope. What the way
//! to the peer takes is taken off before sending, as far as the peer's own
//! answers have shown it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use queueing::Span;
use tower_layer::Layer;
use tower_service::Service;

use super::network_delay::PeerDelays;
use super::task_local::current;
use super::{BUDGET, BoxFuture, ENVOY, GRPC, is_grpc};
use crate::codec::{ParseError, envoy, field, grpc};

/// An error of any kind.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// In a request's extensions: do not send a budget with it, nor hold it to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithoutBudget;

/// The budget of the task does not suffice for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTime {
    /// Whether the request was sent.
    pub sent: bool,
    /// What was left when it was to be sent.
    pub left: Span,
}

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sent {
            true => write!(f, "no answer in the {} that were left", self.left),
            false => write!(f, "not sent: {} left are not enough", self.left),
        }
    }
}

impl std::error::Error for OutOfTime {}

/// Writes the budget of the task that calls into what it sends.
#[derive(Clone)]
pub struct PropagateLayer {
    delays: Arc<PeerDelays>,
    error: fn(OutOfTime) -> BoxError,
    advisory: bool,
    envoy: bool,
}

impl PropagateLayer {
    /// A layer that fails with [`OutOfTime`].
    #[must_use]
    pub fn new() -> Self {
        Self { delays: Arc::default(), error: |error| error.into(), advisory: false, envoy: false }
    }

    /// The same, telling what is left and no more: a call is made when nothing
    /// is, and waits for its answer as long as that takes. What to do about a
    /// deadline that was missed is then the application's to decide (D2P §3).
    /// No `grpc-timeout` is written, since peers cut calls short by it.
    #[must_use]
    pub fn advisory(self) -> Self {
        Self { advisory: true, ..self }
    }

    /// The same, for peers that read Envoy's header: what is left is written as
    /// `x-envoy-expected-rq-timeout-ms` too, where that is not there and shorter.
    #[must_use]
    pub fn for_envoy(self) -> Self {
        Self { envoy: true, ..self }
    }

    /// The same, failing with what `error` makes of it. tonic wants
    /// `|late| tonic::Status::deadline_exceeded(late.to_string()).into()`.
    #[must_use]
    pub fn map_error(self, error: fn(OutOfTime) -> BoxError) -> Self {
        Self { error, ..self }
    }

    /// C to `authority` (`host:port`), as learned so far; `""` for services
    /// that see requests without one, as below tonic's clients.
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

/// A service under a [`PropagateLayer`].
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
        let context = if request.extensions().get::<WithoutBudget>().is_some() { None } else { current() };
        let Some(context) = context else {
            let response = self.inner.call(request);
            return Box::pin(async move { response.await.map_err(Into::into) });
        };
        let PropagateLayer { delays, error, advisory, envoy } = self.layer.clone();
        let authority = request.uri().authority().map_or("", |authority| authority.as_str()).to_owned();
        let now = context.clock.now();
        let budget = context.timer.outgoing_budget(now);
        let left = budget.remaining().left();
        let budget = delays.delayed(budget, &authority);
        if budget.remaining().is_missed() && !advisory {
            return Box::pin(async move { Err(error(OutOfTime { sent: false, left })) });
        }
        let headers = request.headers_mut();
        headers.insert(&BUDGET, header_value(field::write(&budget)));
        let left_on_arrival = budget.remaining().left();
        if is_grpc(headers) && !advisory {
            write_timeout(headers, &GRPC, left_on_arrival, grpc::parse, grpc::write);
        }
        if envoy {
            write_timeout(headers, &ENVOY, left_on_arrival, envoy::parse, envoy::write);
        }
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = async move { response.await.map_err(Into::into) };
            let response = match advisory {
                true => response.await?,
                false => match tokio::time::timeout(left.into(), response).await {
                    Ok(response) => response?,
                    Err(_) => return Err(error(OutOfTime { sent: true, left })),
                },
            };
            let returned = response.headers().get(&BUDGET).and_then(|value| value.to_str().ok());
            if let Some(returned) = returned.and_then(|text| field::parse(text).ok()) {
                delays.record(&authority, context.clock.now().since(now), &budget, &returned);
            }
            Ok(response)
        })
    }
}

/// Writes that `left` is left as `name`, unless what is there is shorter: that
/// is the caller's own, and stays.
fn write_timeout(
    headers: &mut HeaderMap,
    name: &'static HeaderName,
    left: Span,
    parse: fn(&str) -> Result<Span, ParseError>,
    write: fn(Span) -> String,
) {
    let own = headers.get(name).and_then(|value| parse(value.to_str().ok()?).ok());
    if own.is_none_or(|own| left < own) {
        headers.insert(name, header_value(write(left)));
    }
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("a budget is plain text")
}
