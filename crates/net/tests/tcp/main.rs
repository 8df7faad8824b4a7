//! Tests of TCP as peers and applications observe it, under virtual time.

mod backlog;
mod buffer_autotuning;
mod classifiers;
mod closing;
mod ecn_and_pacing;
mod fast_open;
mod flags;
mod garbage;
mod handshake;
mod hops;
mod loss;
mod loss_recovery;
mod neighbors;
mod peer;
mod shards;
mod streams;
mod timers;
mod transmit;
mod undo;
mod window;
mod world;
