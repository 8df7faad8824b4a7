//! Linux: the only crate that makes system calls.
//!
//! Clock: [`Monotonic`]. Devices: [`Tap`], whose other end is the kernel's TCP, [`afxdp`] and
//! [`packet`] beside the kernel on an interface, [`dpdk`] without the kernel. Servers: [`sandbox`]
//! drops privileges, [`control`] answers queries, [`disk`] carries out file I/O of tasks. Cores:
//! [`affinity`] pins a thread, [`cores`] shares cores between programs. Tools: [`netlab`] is a test
//! bed, [`doctor`] checks the machine, [`machine_info`] describes it in reports.
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
