//! One TCP connection, without a network: segments and calls in, plans for
//! segments out.
//!
//! [`Connection`] holds the state, `handshake` opens it, `calls` is what the
//! application does to it, `clock` what time does. Of a segment `screen` says
//! whether it counts, `input` follows RFC 9293 §3.10.7 for one that does,
//! `acks` for what it acknowledges, `recovery` for what was lost; `output` says
//! what to send next, `segment` what that looks like; `everyday` has the short
//! ways through all of this. Everything that can be told apart is a part of its
//! own: round-trip time, congestion window, reassembly, the records of what is
//! in flight, the rules of loss (`rack`, `scoreboard`), of repair (`prr`) and of
//! mistakes (`spurious`).

mod acks;
mod answers;
mod autotune;
mod buffer;
mod calls;
mod clock;
pub mod congestion;
mod connection;
mod delayed;
pub(crate) mod everyday;
mod fast;
mod flags;
mod flight;
mod handshake;
mod info;
mod input;
mod manners;
mod output;
mod path;
mod patience;
mod prr;
mod rack;
mod reassembly;
mod recovery;
mod rtt;
mod scoreboard;
mod screen;
mod segment;
mod segments;
mod spurious;
mod state;
mod store;
mod together;
mod transmit;

pub(crate) use buffer::{Pool, Use};
pub(crate) use connection::Context;
pub use info::{Info, Repair};
pub(crate) use input::{Arrival, Verdicts};
pub use manners::Ecn;
pub(crate) use path::Outcome;
pub use patience::KeepAlive;
pub use state::State;
pub(crate) use store::Count;

/// A host's connection.
pub(crate) type Connection = connection::Connection<buffer::ByteQueue>;
/// A connection whose bytes are counted and not kept.
pub(crate) type Counted = connection::Connection<Count>;
