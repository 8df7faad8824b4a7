//! Discrete-event simulation: whole machines in virtual time.
//!
//! An [`Engine`] orders events. A [`SimDevice`] is a NIC on a modelled cable. A [`CostModel`]
//! gives the CPU time of the stack's work. A [`world`] connects them to the *real* code of
//! `net`, `sched`, `runtime` and `load`, so that a policy measured here runs on Linux
//! unchanged. A [`fabric`] is a network of switches built from `queueing`'s disciplines.
//! [`hunt`] searches for workloads on which a default loses. [`cores`] models a machine under the policies of `sched::cores`. Nothing reads a clock and
//! every random draw is seeded: a run replays exactly.
//!
//! ```
//! use sim::world::server::{self, Config};
//!
//! let config = Config::from_toml(r#"
//!     mode = "none"
//!     workers = 1
//!     seed = 7
//!     [load]
//!     connections = 50
//!     arrivals = "poisson 100000"
//!     requests = 1000
//!     classes = [{ name = "all", share = 1.0, service = "exp 5us" }]
//! "#)?;
//! let outcome = server::run(&config, &mut |_share| {});
//! let class = &outcome.report.classes[0];
//! assert_eq!(class.answered(), 1000);
//! assert!(class.p50() < class.p99());
//! assert_eq!(outcome.digest(), server::run(&config, &mut |_| {}).digest());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod cores;
pub mod cost;
pub mod engine;
pub mod fabric;
pub mod hunt;
pub mod link;
pub mod path;
mod serde_text;
pub mod world;

use std::fmt;

pub use cost::CostModel;
pub use engine::Engine;
pub use link::SimDevice;

/// Invalid configuration; the text gives the value and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConfig(String);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}
