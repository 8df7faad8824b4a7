//! Fuzz target of settings, run on its corpus without a fuzzer. `make fuzz` goes further.
#![forbid(unsafe_code)]

#[path = "../../../net/tests/fuzz/corpus.rs"]
mod corpus;
mod settings;

//~ fuzzing: settings and plans of simulator and load generator survive seeds and bred inputs
#[test]
fn fuzz_seeds_and_their_mutations_pass() {
    corpus::run("settings", settings::settings, 2000);
}
