//! Tests of TCP as peers and applications observe it, under virtual time.

mod backlog;
mod classifiers;
mod closing;
mod fast_open;
mod flags;
mod garbage;
mod growth;
mod handshake;
mod hops;
mod loss;
mod manners;
mod neighbors;
mod peer;
mod repair;
mod shards;
mod streams;
mod transmit;
mod undo;
mod waiting;
mod window;
mod world;
