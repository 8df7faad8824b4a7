//! Real services on loopback, for experiments that also run in the simulator.
//!
//! A runner is a process that reads a [`SetupMessage`] and a plan of requests from stdin, starts the
//! services, calls them at the planned times (open loop), and writes the outcome of each
//! request at each stage to stdout ([`protocol`], `spec/testbed.md`). The same trace can thus
//! be given to services of any framework and language, and to the simulator. A runner neither
//! evaluates nor summarises: `greenwave exp` does.
//!
//! For services in separate network namespaces, each service is a process ([`tier`]), and the
//! runner calls them ([`calls`]).
#![forbid(unsafe_code)]

pub mod calls;
pub mod dscp;
mod error;
pub mod open_loop;
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
pub use protocol::{Planned, SetupMessage};
pub use report::OutputHandle;
