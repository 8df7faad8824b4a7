//! gVisor's netstack: a Go program, built if Go is installed.

use std::path::PathBuf;
use std::process::Command;

use netlab::is_installed;

use crate::source_dir;

/// Path of the program, or the reason why it does not exist.
pub type GvisorProgram = Result<PathBuf, String>;

/// Path beside this program.
fn path() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("greenwave-bench-gvisor")
}

/// Program built by an earlier run.
pub fn built() -> GvisorProgram {
    let path = path();
    if path.exists() { Ok(path) } else { Err("not built; `greenwave bench net` builds it".to_owned()) }
}

/// Builds it: minutes and a download the first time, about a second later on.
pub fn build() -> GvisorProgram {
    let source = source_dir::path("bench/gvisor");
    if !source.exists() {
        return Err(format!("source {} is missing", source.display()));
    }
    if !is_installed("go") {
        return built().map_err(|_| "go, which builds it, is not installed".to_owned());
    }
    errln!("building gVisor's netstack with go (downloads it the first time)");
    let out = Command::new("go").args(["build", "-o"]).arg(path()).arg(".").current_dir(source).output();
    match out {
        Ok(out) if out.status.success() => Ok(path()),
        Ok(out) => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            Err(format!("go build: {}", stderr.lines().last().unwrap_or("failed")))
        }
        Err(e) => Err(format!("go: {e}")),
    }
}
