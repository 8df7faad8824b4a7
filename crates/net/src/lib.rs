//! TCP/IP stack without I/O: frames in, frames out, `now` as an argument.
//!
//! A [`Stack`] turns frames into events, and calls of the application into frames. In front of the
//! stack, an [`RxBuffer`](driver::RxBuffer) orders frames by the operator's classifier. A
//! [`Device`] carries frames. An [`Endpoint`](endpoint::Endpoint) is a single connection, for
//! simulators. Nothing here reads a clock, opens a socket or starts a thread, so that a connection
//! replays from its inputs.
#![forbid(unsafe_code)]

pub mod buffer_pool;
pub mod device;
pub mod driver;
pub mod endpoint;
pub mod stack;
pub mod steer;
mod tcp;

pub use device::Device;
pub use stack::{ConnId, Event, EventKind, Stack};
pub use tcp::congestion;
