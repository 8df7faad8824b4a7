//! Maintenance commands of the workspace: `cargo run -p xtask -- tidy`, `… -- spec`, `… -- picture`,
//! `… -- site`, `… -- dist`.
//!
//! Not a build system: cargo builds and tests.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

mod dist;
mod links;
mod picture;
mod site;
mod spec;
mod tidy;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("tidy") => tidy::run(root),
        Some("spec") => spec::run(root),
        Some("picture") => picture::run(root),
        Some("site") => site::run(root),
        Some("dist") => dist::run(root, &args[1..]),
        other => {
            eprintln!(
                "error: {} is not one of tidy, spec, picture, site, dist\n  try: cargo run -p xtask -- tidy",
                other.unwrap_or("nothing")
            );
            ExitCode::from(2)
        }
    }
}
