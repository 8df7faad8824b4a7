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

use super::network_delay::Peers;
use super::task_local::current;
use super::{BUDGET, Boxed, ENVOY, GRPC, is_grpc};
use crate::codec::{Bad, envoy, field, grpc};

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
    peers: Arc<Peers>,
    error: fn(OutOfTime) -> BoxError,
    advisory: bool,
    envoy: bool,
}

impl PropagateLayer {
    /// A layer that fails with [`OutOfTime`].
    #[must_use]
    pub fn new() -> Self {
        Self { peers: Arc::default(), error: |late| late.into(), advisory: false, envoy: false }
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
        self.peers.one_way(authority)
    }
}

impl Default for PropagateLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PropagateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PropagateLayer").field("peers", &self.peers).finish_non_exhaustive()
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
    type Future = Boxed<Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let here = if request.extensions().get::<WithoutBudget>().is_some() { None } else { current() };
        let Some(here) = here else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let PropagateLayer { peers, error, advisory, envoy } = self.layer.clone();
        let authority = request.uri().authority().map_or("", |authority| authority.as_str()).to_owned();
        let now = here.clock.now();
        let budget = here.visit.outgoing_budget(now);
        let left = budget.remaining().left();
        let budget = peers.delayed(budget, &authority);
        if budget.remaining().is_missed() && !advisory {
            return Box::pin(async move { Err(error(OutOfTime { sent: false, left })) });
        }
        let headers = request.headers_mut();
        headers.insert(&BUDGET, text(field::write(&budget)));
        let left_there = budget.remaining().left();
        if is_grpc(headers) && !advisory {
            shorten(headers, &GRPC, left_there, grpc::parse, grpc::write);
        }
        if envoy {
            shorten(headers, &ENVOY, left_there, envoy::parse, envoy::write);
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = async move { answer.await.map_err(Into::into) };
            let response = match advisory {
                true => answer.await?,
                false => match tokio::time::timeout(left.into(), answer).await {
                    Ok(response) => response?,
                    Err(_) => return Err(error(OutOfTime { sent: true, left })),
                },
            };
            let answered = response.headers().get(&BUDGET).and_then(|value| value.to_str().ok());
            if let Some(answered) = answered.and_then(|text| field::parse(text).ok()) {
                peers.record(&authority, here.clock.now().since(now), &budget, &answered);
            }
            Ok(response)
        })
    }
}

/// Writes that `left` is left as `name`, unless what is there is shorter: that
/// is the caller's own, and stays.
fn shorten(
    headers: &mut HeaderMap,
    name: &'static HeaderName,
    left: Span,
    parse: fn(&str) -> Result<Span, Bad>,
    write: fn(Span) -> String,
) {
    let own = headers.get(name).and_then(|value| parse(value.to_str().ok()?).ok());
    if own.is_none_or(|own| left < own) {
        headers.insert(name, text(write(left)));
    }
}

fn text(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("a budget is plain text")
}
