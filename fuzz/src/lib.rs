//! Table of every fuzz target by name. The bodies are shared with the tests that run them without a
//! fuzzer: crates/{net,runtime,deadline,sim}/tests/fuzz, crates/{host,hostbpf,hostsched,shim}/src/fuzz.rs.
#![forbid(unsafe_code)]

#[path = "../../crates/deadline/tests/fuzz/texts.rs"]
mod budgets;
#[path = "../../crates/sim/tests/fuzz/settings.rs"]
mod settings;
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

/// Targets of packages with one or two.
const OTHERS: &[(&str, targets::Target)] =
    &[("http", http::http), ("budgets", budgets::budgets), ("settings", settings::settings)];

/// Runs the target called `name` on `data`; panics when a promise is violated.
pub fn run(name: &str, data: &[u8]) {
    let mut all = targets::TARGETS.iter().chain(::host::fuzz::TARGETS).chain(hostbpf::fuzz::TARGETS).chain(hostsched::fuzz::TARGETS).chain(shim::fuzz::TARGETS).chain(OTHERS);
    let (_, target) = all.find(|(known, _)| *known == name).expect("a target of that name");
    target(data);
}
