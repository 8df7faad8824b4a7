//! Programs' own tests, from Debian's source packages, on greenwave's stack and on the kernel's.
//!
//! Files with failures run once more, one at a time, since the first run is parallel and some tests
//! depend on timing. The second result counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::harness::{Trial, because};
use super::program::TestedProgram;
use super::results::{Results, SuiteResult};
use super::verdict::TrialResult;
use crate::programs::StackChoice;

mod memcached;
mod redis;

/// Timeout, many times longer than all tests of one program take.
const LIMIT: Duration = Duration::from_secs(1200);

pub fn suite(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let Some(source) = world.sources().and_then(|folder| source(folder, program.upstream())) else {
        let what = format!("--sources names no folder with the source of {}", program.upstream());
        return Ok(TrialResult::Skipped(what));
    };
    let is_redis = program == TestedProgram::Redis;
    let needs: &[&str] = if is_redis { &["tclsh", "redis-cli"] } else { &["prove", "nsenter"] };
    if let Some(tool) = needs.iter().find(|tool| !netlab::is_installed(tool)) {
        return Ok(TrialResult::Skipped(format!("{tool} is not installed")));
    }
    let run = if is_redis { redis::run } else { memcached::run };
    let on = |world: &Trial<'_>| -> Result<SuiteResult, String> {
        let mut output = run(world, &source, &[])?;
        let failed = output.failed();
        if output.is_complete && !failed.is_empty() {
            output.replace(run(world, &source, &failed)?);
        }
        Ok(output)
    };
    let (ours, kernel) = (on(world)?, on(&world.again(StackChoice::Kernel)?)?);
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    Ok(TrialResult::Suite(Box::new(Results::new(&name, ours, kernel))))
}

/// Folder in `sources` with the tests of `name`.
fn source(sources: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(sources).ok()?.flatten().map(|entry| entry.path());
    let of = |path: &PathBuf| {
        let file =
            path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}-")));
        file && path.is_dir()
    };
    entries.filter(of).max()
}

/// Copies `from`, which tests write into, to `to` in the setup's folder.
fn copy(world: &Trial<'_>, from: &Path, to: &str) -> Result<PathBuf, String> {
    let kernel = world.folder().join(to);
    if kernel.exists() {
        std::fs::remove_dir_all(&kernel).map_err(because("a folder"))?;
    }
    std::fs::create_dir(&kernel).map_err(because("a folder"))?;
    world.peer_client(&["cp", "-r", &from.display().to_string(), &kernel.display().to_string()])?;
    std::fs::canonicalize(kernel).map_err(because("a folder"))
}
