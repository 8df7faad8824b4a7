//! tower layers that carry budgets through services: hyper, axum, tonic.
//!
//! The server's [`DeadlineLayer`] reads the received budget, queues the request in front of the
//! layer's own concurrency limit, and runs the handler in a [`scope`]. The client's
//! [`PropagateLayer`] writes the remaining budget into each request that the handler sends.
//! Handlers query [`remaining`], [`parts`] and [`priority`], and [release their permit](give_way)
//! before they wait for other services. With [levels](Settings::levels), the more urgent level goes first,
//! and the level travels in the same way, in the field `Priority` (RFC 9218). The [`Cause`](crate::Cause)
//! of a rejected request or a failed call is in a response field, a counter and a `tracing` event at debug
//! level. This module has the tasks, timers and [`Clock`]; decisions are made by the rest of the crate.
//! Source: D2P §3 (extract, copy to local storage, schedule, send on).
//!
//! ```
//! use deadline::{Budget, tower};
//! use queueing::Span;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let answer = tower::scope(Budget::new(Span::from_millis(200)), async {
//!     // Requests sent from here through `PropagateLayer` carry what is left.
//!     let left = tower::remaining().expect("inside a scope").left();
//!     if left < Span::from_millis(50) { "cheap" } else { "exact" }
//! });
//! assert_eq!(answer.await, "exact");
//! # });
//! ```

mod client;
mod clock;
mod concurrency_limit;
mod level_queue;
mod limit_counts;
#[cfg(feature = "opentelemetry")]
mod metrics;
mod network_delay;
mod probe;
mod reject_response;
mod route;
mod server;
mod task_local;

pub use client::{OutOfTime, Propagate, PropagateLayer, WithoutBudget};
pub use clock::Clock;
pub use concurrency_limit::Settings;
pub use limit_counts::LimitCounts;
pub use reject_response::{Grpc, RejectResponse, Rejection, Text, error_cause, response_cause};
pub use route::route_template;
pub use server::{Deadline, DeadlineLayer};
pub use task_local::{
    budget, give_way, level, parts, priority, remaining, scope, scope_at, slack, spawn, spawn_parallel,
};

use std::future::Future;
use std::pin::Pin;

use http::HeaderName;
use queueing::{Priority, priority_field};

use crate::codec::{envoy, field, grpc};

/// Boxed future, since the wrapped service's type varies.
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Target of the layers' `tracing` events.
const LOG_TARGET: &str = "greenwave::deadline";

// Static, so that requests do not construct them.
static BUDGET: HeaderName = HeaderName::from_static(field::HEADER);
static GRPC: HeaderName = HeaderName::from_static(grpc::HEADER);
static ENVOY: HeaderName = HeaderName::from_static(envoy::HEADER);
static CAUSE: HeaderName = HeaderName::from_static(crate::Cause::HEADER);
static PRIORITY: HeaderName = HeaderName::from_static(priority_field::NAME);

/// Level in the field `Priority` of `headers`, if there is one.
fn asked(headers: &http::HeaderMap) -> Option<Priority> {
    priority_field::read(headers.get_all(&PRIORITY).iter().map(http::HeaderValue::as_bytes))
}

/// Sets the field `Priority` of `headers` to `level`.
fn write_level(headers: &mut http::HeaderMap, level: Priority) {
    headers.insert(&PRIORITY, http::HeaderValue::from_static(priority_field::write(level)));
}

/// True if `headers` are those of a gRPC call.
fn is_grpc(headers: &http::HeaderMap) -> bool {
    let kind = headers.get(http::header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
