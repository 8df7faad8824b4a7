//! Tests of the network layer: IPv6, neighbours, ICMP, fragments, UDP, address configuration.

#[path = "../tcp/world.rs"]
#[allow(dead_code)] // Shared with the tests of TCP.
mod world;

mod dhcp;
mod fragments;
mod host;
mod icmp;
mod neighbors;
mod paths;
mod slaac;
mod udp;
