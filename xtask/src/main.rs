//! Chores of the workspace: `cargo run -p xtask -- tidy`.
//!
//! Not a build system: everything that builds or tests is cargo's.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

mod tidy;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy::run(root),
        other => {
            eprintln!(
                "error: {} is not a chore\n  try: cargo run -p xtask -- tidy",
                other.unwrap_or("nothing")
            );
            ExitCode::from(2)
        }
    }
}
