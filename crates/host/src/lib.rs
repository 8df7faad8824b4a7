//! Linux beneath the other crates: system calls that need no device and no program in the kernel.
//!
//! Clock: [`Monotonic`]. Processes: [`proc`], [`affinity`], [`sched_policy`], [`signals`], [`thread`].
//! Servers: [`sandbox`] drops privileges, [`control`] answers queries, [`disk`] carries out file I/O of
//! tasks, [`files`] reads and writes with checked owners. Network: [`interface`], [`netstat`],
//! [`sock_diag`]. Reports: [`machine_info`].
//!
//! Nothing here decides; the pure crates do.
//!
//! ```
//! use queueing::{Clock, Span};
//!
//! let clock = host::Monotonic::new();
//! let start = clock.now();
//! clock.compute(Span::from_micros(5));
//! assert!(clock.now().since(start) >= Span::from_micros(5));
//! ```

pub mod address;
pub mod affinity;
pub mod clock;
pub mod control;
pub mod cpu_time;
mod date;
pub mod disk;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod interface;
pub mod machine_info;
pub mod mapping;
pub mod netstat;
pub mod proc;
pub mod queue_report;
pub mod sandbox;
pub mod sched_policy;
#[cfg(test)]
mod scratch;
pub mod signal_page;
pub mod signals;
pub mod sock_diag;
pub mod sockopt;
#[cfg(test)]
mod soon;
pub mod thread;
pub mod wait;

pub use clock::Monotonic;
pub use date::{day, today};
pub use machine_info::Machine;
