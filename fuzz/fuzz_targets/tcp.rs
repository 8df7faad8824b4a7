//! See `tcp` in crates/net/tests/fuzz/targets.
#![no_main]

#[path = "../../crates/net/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::run("tcp", data));
