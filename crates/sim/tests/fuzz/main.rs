//! Fuzz target of settings, run on its corpus without a fuzzer. `make fuzz` goes further.
#![forbid(unsafe_code)]

#[path = "../../../net/tests/fuzz/corpus.rs"]
mod corpus;
mod settings;

#[test]
fn seeds_and_what_is_bred_from_them_break_nothing() {
    corpus::run("settings", settings::settings, 2000);
}
