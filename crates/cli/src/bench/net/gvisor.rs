//! gVisor's netstack: a Go program that is built when there is a Go.

use std::path::PathBuf;
use std::process::Command;

use host::netlab::is_installed;

use crate::source_dir;

/// The program, or why there is none.
pub type Program = Result<PathBuf, String>;

/// Beside our own program.
fn path() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("greenwave-bench-gvisor")
}

/// What an earlier run has built.
pub fn built() -> Program {
    let path = path();
    if path.exists() { Ok(path) } else { Err("not built; `greenwave bench net` builds it".to_owned()) }
}

/// Builds it: some minutes and a download the first time, a second later on.
pub fn build() -> Program {
    let source = source_dir::path("bench/gvisor");
    if !source.exists() {
        return Err(format!("its source {} is not there", source.display()));
    }
    if !is_installed("go") {
        return built().map_err(|_| "go is not there to build it".to_owned());
    }
    eprintln!("building gVisor's netstack with go (the first time it is downloaded)");
    let out = Command::new("go").args(["build", "-o"]).arg(path()).arg(".").current_dir(source).output();
    match out {
        Ok(out) if out.status.success() => Ok(path()),
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr);
            Err(format!("go build: {}", said.lines().last().unwrap_or("failed")))
        }
        Err(e) => Err(format!("go: {e}")),
    }
}
