//! Fuzz targets of this crate without a fuzzer: every checked-in seed, and some thousand inputs
//! generated from them. `make fuzz` runs longer.
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

/// Number of generated inputs for a target, by the cost of one.
fn inputs(name: &str) -> u64 {
    match name {
        "connection" => 400,
        "differential" => 120,
        "frames" => 1000,
        _ => 3000,
    }
}

//~ fuzzing: wire formats, rules, request readers and connections survive the seeds and inputs bred from them
#[test]
fn seeds_and_their_mutations_violate_no_promise() {
    for (name, target) in TARGETS {
        corpus::run(name, *target, inputs(name));
    }
}
