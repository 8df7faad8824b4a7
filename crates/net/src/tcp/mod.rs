//! The TCP state machine of one connection: segments and user calls in, segment plans out.
//!
//! Does no I/O: the stack passes segments and the time in and sends the planned segments.
//!
//! - `connection` holds the state, `state` its transitions; `handshake` opens, `calls` holds the user calls.
//! - `acceptability`, `input` and `acks` process an arriving segment (RFC 9293 §3.10.7).
//! - `recovery` detects and repairs loss, with `rack`, `scoreboard`, `prr` and `spurious`.
//! - `output` plans the next segment, `segment_builder` builds it; `timers` holds the deadlines.
//! - `fast_path` handles the common case of all of these.
//!
//! Source: RFC 9293; each file names its own.

mod acceptability;
mod ack_rate_limit;
mod acks;
mod autotune;
mod buffer;
mod calls;
pub mod congestion;
mod connection;
mod delayed_ack;
mod ecn_pacing;
mod fast_open;
pub(crate) mod fast_path;
mod flags;
mod handshake;
mod info;
mod input;
mod keepalive;
mod loss_rate;
mod output;
mod pmtu;
mod prr;
mod rack;
mod reassembly;
mod recovery;
mod retransmit_queue;
mod rtt;
mod scoreboard;
mod segment_builder;
mod spurious;
mod state;
mod store;
mod timers;
mod tso;
mod tx_priority;

pub(crate) use buffer::{MemoryClass, Pool};
pub(crate) use connection::Context;
pub use ecn_pacing::Ecn;
pub(crate) use flags::Hold;
pub use info::{Info, RecoveryKind};
pub(crate) use input::{SegmentOutcome, Verdicts};
pub use keepalive::KeepAlive;
pub(crate) use pmtu::Outcome;
pub use state::State;
pub(crate) use store::CountingStore;

/// Connection of a host.
pub(crate) type Connection = connection::Connection<buffer::ByteQueue>;
/// Connection that counts its payload bytes and does not store them.
pub(crate) type PayloadlessConnection = connection::Connection<CountingStore>;
