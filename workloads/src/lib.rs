//! The programs that share a machine in Caladan's experiments.
//!
//! Best-effort: [`swaptions`], [`streamcluster`], [`stream`] and [`video`] work until they
//! are stopped, report their progress ([`progress`]), and check their own
//! result. Latency-critical: [`storage`] and [`tpcc`] answer requests on
//! greenwave's runtime ([`serve`]). Each is as small as its experiment allows;
//! none is a benchmark of its namesake. Not here: memcached, which runs
//! as Debian packages it, and x264, which [`video`] starts.
//! Source: Caladan (OSDI '20) §7.
//!
//! ```
//! use workloads::swaptions::{Simulation, Swaption};
//!
//! let swaption = Swaption::default();
//! let mut simulation = Simulation::new(swaption, 1);
//! simulation.add(20_000);
//! assert!(simulation.estimate().holds(swaption.price()));
//! ```
#![forbid(unsafe_code)]

pub mod progress;
pub mod serve;
pub mod storage;
pub mod stream;
pub mod streamcluster;
pub mod swaptions;
pub mod tpcc;
pub mod video;
