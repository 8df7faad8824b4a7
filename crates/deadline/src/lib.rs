//! Deadlines that travel with a request.
//!
//! A [`Budget`] is the time that a request has left and a record of the time spent so far.
//! A [`StageTimer`] counts it down at one stage, queueing included. [`codec`] encodes it as
//! remaining time, so clocks need not be synchronized. [`BudgetValidator`] limits budgets that
//! peers send. [`DeadlineQueue`] orders requests by deadline; under overload it
//! serves those first that a [`Forecast`] says will be in time.
//! [`model`] holds the paper's formulas. A [`Cause`] says why a request got no answer of its handler.
//! No clock and no I/O here, except in the layers of the feature `tower` for hyper, axum and tonic.
//! Source: D2P (distributed deadline propagation).
//!
//! ```
//! use deadline::{Budget, StageTimer};
//! use queueing::{Span, Time};
//!
//! let (now, ms) = (Time::ZERO, Span::from_millis);
//! let budget = Budget::new(ms(200));
//! let mut timer = StageTimer::arrive(now, budget, ms(1));
//! timer.start(now + ms(30));
//! let sent_on = timer.outgoing_budget(now + ms(50));
//! assert_eq!(sent_on.remaining().left(), ms(149));
//! assert_eq!(sent_on.stages()[0].queue, ms(30));
//! ```
#![forbid(unsafe_code)]

mod budget;
mod cause;
pub mod codec;
mod ewma;
mod forecast;
pub mod model;
mod network;
mod outcome;
mod quantile_estimator;
mod queue;
mod slack;
mod stage_timer;
#[cfg(feature = "tower")]
pub mod tower;
mod validator;

pub use budget::{Budget, Remaining, STAGES_MAX, StageTime, SubrequestEstimate};
pub use cause::Cause;
pub use ewma::ServiceTimeEwma;
pub use forecast::Forecast;
pub use network::NetworkDelay;
pub use outcome::{MethodOutcomes, MethodRow, Outcome, OutcomeTable};
pub use quantile_estimator::{Estimate, History};
pub use queue::{
    BudgetMedian, DeadlineQueue, DequeueResult, EnqueueResult, ORDERS, Order, QueueHandle, QueueSettings,
    Reason, SHEDDINGS, Shedding, Work,
};
pub use slack::Slack;
pub use stage_timer::StageTimer;
pub use validator::{BudgetHeader, BudgetValidator, InvalidBudget, Limits, ReceivedBudget};
