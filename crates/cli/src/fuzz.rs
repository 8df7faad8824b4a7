//! Fuzz target for configuration files: arbitrary bytes through the code of `greenwave check` and
//! `exp run`.
//!
//! Promises: no panic; no file takes long; a trailing comment does not change a file's meaning; an
//! error is one line. Seeds are the files of the tree. `GREENWAVE_FUZZ_COUNT` is the number of
//! inputs bred from them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::exp::check_file;
use crate::{check, output};

#[allow(dead_code, clippy::print_stderr, reason = "shared with tests whose seeds lie in a folder")]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// Number of inputs in an ordinary test run.
const COUNT: u64 = 300;

/// Outcomes of `text` as a file of `greenwave check` and of `exp run`.
fn outcomes(file: &Path, text: &[u8]) -> [Result<(), Error>; 3] {
    fs::write(file, text).expect("the file is ours");
    let checked = |json| check::run(&check::Args::of(file, json)).map(drop);
    [checked(false), checked(true), check_file(file)]
}

/// Checks one configuration file.
fn configuration(data: &[u8]) {
    // Concurrent runs would write the same file.
    let file = std::env::temp_dir().join(format!(
        "greenwave-configuration-{}-{:?}.toml",
        std::process::id(),
        std::thread::current().id()
    ));
    let commented = [data, b"\n# a comment\n"].concat();
    let (one, other) = (outcomes(&file, data), outcomes(&file, &commented));
    let _ = fs::remove_file(&file);
    for (one, other) in one.iter().zip(&other) {
        for error in [one, other].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
            let (what, advice) = error.parts();
            assert!(!what.trim().is_empty() && advice != Some(""), "{error}");
            let text = error.to_string();
            assert!(text.lines().count() <= 2, "{text}");
        }
        if let (Ok(()), Err(why)) = (one, other) {
            panic!("a comment changes the outcome: {why}");
        }
    }
}

/// The configuration files of the tree below `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "toml") && !path.ends_with("Cargo.toml") {
            found.push(path);
        }
    }
}

//~ fuzzing: a configuration file of any bytes is accepted or refused in one line
#[test]
fn configurations_of_any_bytes_are_taken_or_refused_in_a_line() {
    output::mute();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates/cli/src", "deploy", "examples", "experiments", "docs", "tests"] {
        files(&root.join(folder), &mut found);
    }
    found.sort();
    let mut seeds: Vec<Vec<u8>> =
        found.iter().map(|path| fs::read(path).expect("a file of the tree")).collect();
    assert!(seeds.len() > 20, "{found:?}");
    // One of each kind.
    seeds.extend(corpus::seeds("rules"));
    let flags = "[serve]\nmode = \"adps\"\nworkers = 2\nsteer = [\"high=0\"]\n[guard.attach]\nport = [80]\n\
                 target-delay = \"20ms\"\nclass = [\"10.0.0.0/8,port:80\"]\n[run]\nspin = \"20us\"\n";
    seeds.push(flags.into());
    let count = std::env::var("GREENWAVE_FUZZ_COUNT").ok().and_then(|count| count.parse().ok());
    corpus::run_on("configuration", configuration, &seeds, count.unwrap_or(COUNT));
}
