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
pub use info::{Info, RecoveryKind};
pub(crate) use input::{SegmentOutcome, Verdicts};
pub use keepalive::KeepAlive;
pub(crate) use pmtu::Outcome;
pub use state::State;
pub(crate) use store::CountingStore;

/// A host's connection.
pub(crate) type Connection = connection::Connection<buffer::ByteQueue>;
/// A connection whose bytes are counted and not kept.
pub(crate) type PayloadlessConnection = connection::Connection<CountingStore>;
