//! TCP/IP that touches nothing: frames in, frames out, `now` as an argument.
//!
//! A [`Stack`] turns frames into events and sends into frames. A
//! [`RxBuffer`](driver::RxBuffer) stands before it and asks the operator's
//! classifier which frame goes first; a [`Device`] is the port through which
//! frames come and go. An [`Endpoint`](endpoint::Endpoint) is one connection
//! alone, for simulators. Nothing here reads a clock, opens a socket or starts a
//! thread, so a whole conversation replays from its inputs.
#![forbid(unsafe_code)]

pub mod buffer_pool;
pub mod classify;
pub mod device;
pub mod driver;
pub mod endpoint;
pub mod stack;
pub mod steer;
mod tcp;
pub mod wire;

pub use device::Device;
pub use stack::{ConnId, Event, EventKind, Stack};
pub use tcp::congestion;
