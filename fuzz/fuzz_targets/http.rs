//! See crates/runtime/tests/fuzz/http.rs.
#![no_main]

#[path = "../../crates/runtime/tests/fuzz/http.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::http(data));
