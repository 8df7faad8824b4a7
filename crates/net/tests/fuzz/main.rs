//! The fuzz targets of this room without a fuzzer: every checked-in seed, and
//! some thousand inputs bred from the seeds. `make fuzz` goes further.
#![forbid(unsafe_code)]

mod corpus;
#[allow(dead_code)] // Shared with the tests of the network layer, which use the rest.
#[path = "../ip/host.rs"]
mod host;
mod targets;
#[allow(dead_code)] // Shared with the tests of TCP.
#[path = "../tcp/world.rs"]
mod world;

use targets::TARGETS;

/// Inputs drawn for a target, by what one costs.
fn inputs(name: &str) -> u64 {
    match name {
        "connection" => 400,
        "differential" => 120,
        "frames" => 1000,
        _ => 3000,
    }
}

#[test]
fn seeds_and_what_is_bred_from_them_break_nothing() {
    for (name, target) in TARGETS {
        corpus::run(name, *target, inputs(name));
    }
}
