//! Every fuzz target by name. The bodies stand with the tests that run the
//! same without a fuzzer: crates/net/tests/fuzz, crates/runtime/tests/fuzz.
#![forbid(unsafe_code)]

#[allow(dead_code)] // Shared with the tests of the network layer, which use the rest.
#[path = "../../crates/net/tests/ip/host.rs"]
mod host;
#[path = "../../crates/runtime/tests/fuzz/http.rs"]
mod http;
#[path = "../../crates/net/tests/fuzz/targets/mod.rs"]
mod targets;
#[allow(dead_code)] // Shared with the tests of TCP.
#[path = "../../crates/net/tests/tcp/world.rs"]
mod world;

/// Runs the target called `name` on `data`; panics when a promise is broken.
pub fn run(name: &str, data: &[u8]) {
    if name == "http" {
        return http::http(data);
    }
    let (_, target) =
        targets::TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(data);
}
