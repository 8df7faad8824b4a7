//! Open-loop load: what to send, when, and what became of it.
//!
//! A [`Plan`] stands for a sequence of requests drawn from a seed. A
//! [`Client`] sends it over our own stack, [`kernel::run`] over the Linux
//! kernel's sockets; both keep the same books and end in a [`Report`] whose
//! latencies count from the time a request was *due*. [`visits`] are requests
//! with a connection of their own, by clients who go away. [`Synthetic`] is the
//! server at the other end.
//!
//! ```
//! use load::{Class, Plan};
//!
//! let class = |name: &str, share, service| Class {
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
mod connect_error;
mod in_flight;
pub mod kernel;
pub mod plan;
pub mod protocol;
mod record;
pub mod report;
mod request_encoder;
pub mod short_connections;

pub use app::Synthetic;
pub use client::{Client, Progress};
pub use plan::{Class, Plan, Request, Spread};
pub use report::{Breakdown, ClassReport, Report};
