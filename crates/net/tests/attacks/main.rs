//! Tests of hostile peers, each with a bound as a number.
//!
//! Attackers send hand-made segments and guess unknown values (sequence numbers, ports, the secret)
//! from a seed. All tests run in virtual time.

#[allow(dead_code)] // Shared with the tests of TCP, which use the rest.
#[path = "../tcp/peer.rs"]
mod peer;
#[allow(dead_code)]
#[path = "../tcp/world.rs"]
mod world;

mod ack_storms;
mod blind;
mod flood;
mod garbage;
mod memory_exhaustion;
mod wire;
