//! Deadlines that travel with a request.
//!
//! A [`Budget`] is the time a request has left, and where the rest went; a
//! [`StageTimer`] counts it down at one stage, its queue included; [`codec`]
//! writes it on the wire as remaining time, so that machines' clocks need not
//! agree; [`BudgetValidator`] decides what to believe of a peer's; [`DeadlineQueue`]
//! serves by it and drops what cannot make it any more. [`model`] is the
//! paper's algebra. Nothing here reads a clock or does I/O; the layers of the
//! feature `tower`, for hyper, axum and tonic, do.
//! Source: D2P (distributed deadline propagation).
//!
//! ```
//! use deadline::{Budget, Visit};
//! use queueing::{Span, Time};
//!
//! let (now, ms) = (Time::ZERO, Span::from_millis);
//! let born = Budget::new(ms(200));
//! let mut visit = Visit::arrive(now, born, ms(1));
//! visit.start(now + ms(30));
//! let sent_on = visit.leave(now + ms(50));
//! assert_eq!(sent_on.remaining().left(), ms(149));
//! assert_eq!(sent_on.stages()[0].queue, ms(30));
//! ```
#![forbid(unsafe_code)]

mod budget;
pub mod codec;
mod ewma;
pub mod model;
mod network;
mod quantile_estimator;
mod queue;
mod slack;
mod stage_timer;
#[cfg(feature = "tower")]
pub mod tower;
mod validator;

pub use budget::{Budget, Remaining, STAGES_MAX, Stage, SubrequestEstimate};
pub use ewma::ServiceTimeEwma;
pub use network::NetworkDelay;
pub use quantile_estimator::{Estimate, History};
pub use queue::{
    BudgetMedian, DeadlineQueue, DequeueResult, EnqueueResult, ORDERS, Order, Reason, SHEDDINGS, Settings,
    Shedding,
};
pub use slack::Slack;
pub use stage_timer::StageTimer;
pub use validator::{BudgetValidator, InvalidBudget, Limits, Received};
