//! Load generator: open-loop and closed-loop clients, and a synthetic server.
//!
//! A [`Plan`] defines a sequence of requests, drawn from a seed. [`Client`] sends it over greenwave's
//! stack, [`kernel::run`] over the Linux kernel's sockets. Both produce a [`Report`] with latencies
//! from the time a request was *due*. [`short_connections`] opens a connection per request, with
//! timeouts. [`closed_loop`] compares servers. [`Synthetic`] is the server.
//!
//! ```
//! use load::{Plan, RequestClass};
//!
//! let class = |name: &str, share, service| RequestClass {
//!     name: name.into(), share, service, length: 64, kind: 0, priority: 0,
//! };
//! let short = class("short", 0.995, "1us".parse()?);
//! let long = class("long", 0.005, "exp 1ms".parse()?);
//! let mut plan = Plan::new(100, "burst 1000 10ms 0ns".parse()?, vec![short, long]);
//! plan.requests = Some(2000);
//! plan.validate()?;
//! assert_eq!(plan.sequence().count(), 2000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod app;
pub mod client;
pub mod closed_loop;
mod condition;
mod connect_error;
mod in_flight;
pub mod kernel;
pub mod plan;
mod plan_check;
pub mod protocol;
mod record;
pub mod report;
mod request_encoder;
pub mod short_connections;

pub use app::Synthetic;
pub use client::{Client, Progress};
pub use condition::FailCondition;
pub use plan::{Plan, PlannedRequest, RequestClass, Spread};
pub use plan_check::PlanCheck;
pub use report::{Breakdown, ClassReport, Pace, Report};
