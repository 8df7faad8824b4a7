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
pub mod cpu_time;
mod date;
pub mod disk;
pub mod doctor;
pub mod dpdk;
pub mod egress;
pub mod files;
mod frame_pool;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod interface;
pub mod machine_info;
mod mapping;
pub mod netlab;
pub mod netstat;
pub mod packet;
pub mod proc;
mod queue_report;
pub mod rss;
pub mod sandbox;
pub mod shim;
pub mod signal_page;
pub mod signals;
mod sock_diag;
mod sockopt;
#[cfg(test)]
mod soon;
pub mod tap;
pub mod thread;
mod tx_frame;
mod virtio_net_hdr;
mod wait;
pub mod xdp;

pub use clock::Monotonic;
pub use date::today;
pub use machine_info::Machine;
pub use tap::Tap;
