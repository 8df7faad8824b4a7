//! `libgreenwave.so`, for tests that run programs on our stack.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The current library: `cargo test -p cli` alone does not build it.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_greenwave"));
        let folder = program.parent().expect("a program is in a folder");
        let target = folder.parent().expect("a profile's folder is in the target folder");
        let release = folder.ends_with("release").then_some("--release");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "--package", "capi", "--target-dir"]).arg(target);
        let built = build.args(release).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.is_ok_and(|status| status.success()), "the library is built");
        folder.join("libgreenwave.so")
    })
}
