//! Packet scripts under `tests/scripts`, one test each, named by path: `cargo test -p net --test
//! scripts sack/` runs one topic.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial, run};

mod script;
#[allow(dead_code)] // Shared with the tests of TCP, which use the rest.
#[path = "tcp/world.rs"]
mod world;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut trials: Vec<Trial> = script::tests::all();
    for path in scripts(&root) {
        let name = path.strip_prefix(&root).unwrap_or(&path).with_extension("").display().to_string();
        let shown = format!("tests/scripts/{name}.pkt");
        trials.push(Trial::test(name, move || {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
            script::play(&shown, &text).map_err(Into::into)
        }));
    }
    run(&Arguments::from_args(), trials).exit_code()
}

/// Scripts under `folder`, sorted.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let nested = paths.into_iter().flat_map(|path| {
        if path.is_dir() {
            scripts(&path)
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            vec![path]
        } else {
            Vec::new()
        }
    });
    nested.collect()
}
