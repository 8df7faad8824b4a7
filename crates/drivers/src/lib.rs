//! Network devices: ports of the stack on Linux.
//!
//! [`afxdp`] and [`packet`] share an interface with the kernel, [`dpdk`] takes a port from it, and the
//! other end of a [`Tap`] is the kernel's own TCP. [`rss`] spreads flows over receive queues.
//!
//! A device moves frames; it does not parse them beyond its own header.

pub mod afxdp;
pub mod dpdk;
mod frame_pool;
pub mod packet;
pub mod rss;
#[cfg(test)]
#[path = "../../host/src/soon.rs"]
mod soon;
pub mod tap;
mod tx_frame;
mod virtio_net_hdr;

pub use tap::Tap;
