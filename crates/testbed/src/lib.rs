//! Real services on loopback, for experiments that also run in the simulator.
//!
//! A runner is a process that is given a [`Setup`] and a plan of requests on
//! stdin, starts the services, calls them at the planned instants whatever
//! happens, and says on stdout what became of each request at each stage
//! ([`protocol`], `spec/testbed.md`). So one trace can be given to services of
//! any framework, in any language, and to the simulator. Nothing is decided
//! or summed up here: `greenwave exp` does that with the lines.
//!
//! Where services are to be in places of their own, each is a process
//! ([`tier`]), and the runner calls them ([`calls`]).
#![forbid(unsafe_code)]

pub mod calls;
mod error;
pub mod label;
pub mod pace;
pub mod protocol;
mod report;
pub mod rpc;
pub mod run;
#[cfg(feature = "search")]
pub mod search;
pub mod series;
pub mod tier;
pub mod work;

pub use error::Error;
pub use protocol::{Planned, Setup};
pub use report::Report;
