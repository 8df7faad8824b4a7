//! Linux: the only room that asks the kernel for anything.
//!
//! [`Monotonic`] is the clock, [`Tap`] a device that the kernel's own TCP can
//! talk to, [`afxdp`] and [`packet`] drive an interface beside the kernel,
//! [`dpdk`] a port without it, [`lab`] a network to try things in, [`doctor`]
//! says what works here, [`sandbox`] gives up what is not needed any more, [`control`]
//! lets others ask, [`affinity`] gives a thread its core, [`cores`] shares all of them
//! between programs, [`disk`] carries out what tasks ask of files,
//! [`machine`] says what a report was measured on. Nothing here decides; the pure
//! rooms do.
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
pub mod afxdp;
mod bpf;
pub mod clock;
pub mod control;
pub mod cores;
pub mod disk;
pub mod doctor;
pub mod dpdk;
pub mod fabric;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod interface;
pub mod interrupt;
pub mod lab;
pub mod machine;
mod mapping;
pub mod memory;
pub mod netstat;
mod outgoing;
pub mod packet;
mod pool;
pub mod proc;
pub mod pulse;
mod ready;
pub mod sandbox;
pub mod seam;
mod sock_diag;
mod sockopt;
#[cfg(test)]
mod soon;
pub mod tap;
pub mod thread;
mod today;
mod told;
pub mod usage;
mod vnet;
pub mod xdp;

pub use clock::Monotonic;
pub use machine::Machine;
pub use tap::Tap;
pub use today::today;
