//! What hostile peers can do, each with its bound as a number.
//!
//! Attackers write segments by hand; what they cannot know (numbers, ports,
//! the secret) they guess from a seed. All in virtual time.

#[allow(dead_code)] // Shared with the tests of TCP, which use the rest.
#[path = "../tcp/peer.rs"]
mod peer;
#[allow(dead_code)]
#[path = "../tcp/world.rs"]
mod world;

mod blind;
mod flood;
mod garbage;
mod hoards;
mod storms;
mod wire;
