//! One TCP connection, without a network: segments and calls in, plans for
//! segments out.
//!
//! [`Connection`] holds the state; `input` follows RFC 9293 §3.10.7 for a
//! segment that arrives, `acks` for what it acknowledges, `recovery` for what
//! was lost; `output` says what to send next. Everything that can be told apart
//! is a part of its own: round-trip time, congestion window, reassembly, the
//! records of what is in flight, the rules of loss (`rack`, `scoreboard`), of
//! repair (`prr`) and of mistakes (`spurious`).

mod acks;
mod answers;
mod autotune;
mod buffer;
pub mod congestion;
mod connection;
mod delayed;
mod fast;
mod flight;
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
mod spurious;
mod state;
mod transmit;

pub(crate) use buffer::Pool;
pub(crate) use connection::{Connection, Context};
pub(crate) use input::{Arrival, Verdicts};
pub use manners::Ecn;
pub(crate) use path::Outcome;
pub use patience::KeepAlive;
pub(crate) use state::State;
