//! The client's layer: every request that a handler makes carries what is left.
//!
//! On by default; a request with [`WithoutBudget`] among its extensions goes
//! as it is, and so does one that is made outside of any scope. What the way
//! to the peer takes is taken off before sending, as far as the peer's own
//! answers have shown it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response};
use queueing::Span;
use tower_layer::Layer;
use tower_service::Service;

use super::peers::Peers;
use super::scope::here;
use super::{BUDGET, Boxed, GRPC, duration, is_grpc};
use crate::Budget;
use crate::codec::{field, grpc};

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
}

impl PropagateLayer {
    /// A layer that fails with [`OutOfTime`].
    #[must_use]
    pub fn new() -> Self {
        Self { peers: Arc::default(), error: |late| late.into() }
    }

    /// The same, failing with what `error` makes of it. tonic wants
    /// `|late| tonic::Status::deadline_exceeded(late.to_string()).into()`.
    #[must_use]
    pub fn failing(self, error: fn(OutOfTime) -> BoxError) -> Self {
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
        let here = if request.extensions().get::<WithoutBudget>().is_some() { None } else { here() };
        let Some(here) = here else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let PropagateLayer { peers, error } = self.layer.clone();
        let authority = request.uri().authority().map_or("", |authority| authority.as_str()).to_owned();
        let now = here.clock.now();
        let budget = here.visit.leave(now);
        let left = budget.remaining().left();
        let budget = budget.delayed(peers.one_way(&authority));
        if budget.remaining().is_missed() {
            return Box::pin(async move { Err(error(OutOfTime { sent: false, left })) });
        }
        write(&mut request, &budget);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = match tokio::time::timeout(duration(left), answer).await {
                Ok(response) => response.map_err(Into::into)?,
                Err(_) => return Err(error(OutOfTime { sent: true, left })),
            };
            let answered = response.headers().get(&BUDGET).and_then(|value| value.to_str().ok());
            if let Some(answered) = answered.and_then(|text| field::parse(text).ok()) {
                peers.record(&authority, here.clock.now().since(now), &budget, &answered);
            }
            Ok(response)
        })
    }
}

/// Writes `budget` into the headers of `request`. A `grpc-timeout` that is
/// there and shorter is the caller's own, and stays.
fn write<Q>(request: &mut Request<Q>, budget: &Budget) {
    let grpc = is_grpc(request.headers());
    let headers = request.headers_mut();
    let text = |text: String| HeaderValue::try_from(text).expect("a budget is plain text");
    headers.insert(&BUDGET, text(field::write(budget)));
    if grpc {
        let left = budget.remaining().left();
        let own = headers.get(&GRPC).and_then(|value| grpc::parse(value.to_str().ok()?).ok());
        if own.is_none_or(|own| left < own) {
            headers.insert(&GRPC, text(grpc::write(left)));
        }
    }
}
