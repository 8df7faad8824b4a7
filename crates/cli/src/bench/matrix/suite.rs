//! Programs' own tests, from Debian's source packages, against them on our stack.
//!
//! Redis's take the address of a server that is there already. Memcached's start
//! one for each test, so their server is a script that puts memcached on the
//! stack, and the tests' own address is replaced by ours. What fails is run on
//! the kernel's TCP, too: where it fails as well, we are not why.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Came;
use super::program::{Program, Shape};
use super::serves::serving;
use super::world::{OURS, World, because, finished};
use crate::programs::Stack;

/// What tests said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    passed: usize,
    failed: Vec<String>,
    /// They have run to their end.
    whole: bool,
}

/// Many times what all tests of one program take.
const LIMIT: Duration = Duration::from_secs(1200);

pub fn suite(program: Program, world: &World<'_>) -> Result<Came, String> {
    let Some(source) = world.sources().and_then(|folder| source(folder, program.upstream())) else {
        let what = format!("--sources names no folder with the source of {}", program.upstream());
        return Ok(Came::Skipped(what));
    };
    let needs: &[&str] =
        if program == Program::Redis { &["tclsh", "redis-cli"] } else { &["prove", "nsenter"] };
    if let Some(tool) = needs.iter().find(|tool| !host::lab::is_there(tool)) {
        return Ok(Came::Skipped(format!("{tool} is not there")));
    }
    let run = if program == Program::Redis { redis } else { memcached };
    let ours = run(world, &source, &[])?;
    if !ours.whole || ours.passed == 0 {
        return Err(format!(
            "its tests do not come to their end: {} passed, failed: {:?}",
            ours.passed, ours.failed
        ));
    }
    let version = source.file_name().unwrap_or_default().display();
    let Said { passed, failed, .. } = ours;
    if failed.is_empty() {
        return Ok(Came::Noted(format!("{passed} tests of {version} pass, none fails")));
    }
    let there = run(&world.again(Stack::Kernel)?, &source, &failed)?;
    let (both, only): (Vec<_>, Vec<_>) = failed.into_iter().partition(|test| there.failed.contains(test));
    let both = if both.is_empty() {
        String::new()
    } else {
        format!("; on the kernel's TCP, too, fail: {}", both.join(", "))
    };
    Ok(match only.is_empty() {
        true => Came::Limited(format!("{passed} tests of {version} pass{both}")),
        false => {
            Came::Fails(format!("{passed} tests of {version} pass, these fail: {}{both}", only.join(", ")))
        }
    })
}

/// The folder in `sources` that holds the tests of `name`.
fn source(sources: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(sources).ok()?.flatten().map(|entry| entry.path());
    let of = |path: &PathBuf| {
        let file =
            path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}-")));
        file && path.is_dir()
    };
    entries.filter(of).max()
}

/// Copies what tests write into, as `to` in the world's folder.
fn copy(world: &World<'_>, from: &Path, to: &str) -> Result<PathBuf, String> {
    let there = world.folder().join(to);
    std::fs::create_dir_all(&there).map_err(because("a folder"))?;
    world.peer_client(&["cp", "-r", &from.display().to_string(), &there.display().to_string()])?;
    std::fs::canonicalize(there).map_err(because("a folder"))
}

/// All of redis's tests for servers that are there.
fn redis(world: &World<'_>, source: &Path, _only: &[String]) -> Result<Said, String> {
    let folder = copy(world, &source.join("tests"), "redis")?;
    std::fs::create_dir_all(folder.join("src")).map_err(because("a folder"))?;
    for tool in ["redis-cli", "redis-benchmark", "redis-server"] {
        let file = world.peer_client(&["sh", "-c", "command -v \"$0\"", tool])?;
        let link = folder.join("src").join(tool);
        std::os::unix::fs::symlink(file.trim(), link).map_err(because("a link"))?;
    }
    let server = serving(Program::Redis, world, Shape::Usual, b"")?;
    let place = folder.display().to_string();
    let test = ["env", "-C", &place, "TERM=dumb", "tclsh", "tests/test_helper.tcl"];
    let what = ["--host", OURS, "--port", "6379", "--tags", "-slow"];
    let words: Vec<String> = test.iter().chain(&what).map(|&word| word.to_owned()).collect();
    let out = finished(&world.clients, &words, LIMIT)?;
    drop(server);
    Ok(redis_said(&String::from_utf8_lossy(&out.stdout)))
}

fn redis_said(said: &str) -> Said {
    let mut all = Said { whole: said.contains("\\o/") || said.contains("!!! WARNING"), ..Said::default() };
    for line in said.lines() {
        let failed = ["[err]: ", "[exception]: "].iter().find_map(|begin| line.split_once(begin));
        if line.contains("[ok]: ") {
            all.passed += 1;
        } else if let Some((_, test)) = failed {
            // It is said when it fails, and at the end again.
            let test = test.split(" in tests/").next().unwrap_or(test).trim().to_owned();
            if !all.failed.contains(&test) {
                all.failed.push(test);
            }
        }
    }
    all
}

/// Memcached's tests, or `only` those of these files.
fn memcached(world: &World<'_>, source: &Path, only: &[String]) -> Result<Said, String> {
    let folder = copy(world, &source.join("t"), "memcached")?;
    let executable = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(because("a file"))?;
        let may = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, may).map_err(because("a file"))
    };
    let quoted = |word: &String| format!("'{}' ", word.replace('\'', "'\\''"));
    let words: String = world.words(&["memcached".to_owned()]).iter().map(quoted).collect();
    let (net, lock) = (world.ours.path(), folder.join("lock"));
    // One at a time, since there is one address. What asks for help needs none, and hears of no
    // Unix sockets: the tests use TCP then.
    executable(
        "memcached-debug",
        format!(
            "#!/bin/sh\ncase \" $* \" in *' -h '*) memcached -h | grep -v unix-socket; exit;; esac\nexec 9>'{}'\nflock 9\n\
             exec nsenter --net='{net}' {words}\"$@\"\n",
            lock.display()
        ),
    )?;
    executable("timedrun", "#!/bin/sh\nshift\nexec \"$@\"\n".to_owned())?;
    replace(&folder.join("t/lib/MemcachedTest.pm"), &ADDRESSES)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.join("t")).map_err(because("its tests"))?.flatten() {
        let name = format!("t/{}", entry.file_name().to_string_lossy());
        if name.ends_with(".t") && !WITHOUT.contains(&name.as_str()) {
            replace(&entry.path(), &ADDRESSES)?;
            if only.is_empty() || only.contains(&name) {
                files.push(name);
            }
        }
    }
    files.sort();
    let place = folder.display().to_string();
    let prove = ["env", "-C", &place, "prove", "--exec", "timeout 120 perl"];
    let words: Vec<String> = prove.iter().map(|&word| word.to_owned()).chain(files).collect();
    let out = finished(&world.clients, &words, LIMIT)?;
    Ok(memcached_said(&String::from_utf8_lossy(&out.stdout)))
}

/// In the tests: where they are themselves, and where servers are. The order counts.
const ADDRESSES: [(&str, &str); 3] = [
    ("LocalAddr => '127.0.0.1'", "LocalAddr => '10.7.0.9'"),
    ("LocalAddr => \"127.0.0.1\"", "LocalAddr => \"10.7.0.9\""),
    ("127.0.0.1", OURS),
];
/// Tests of the source, and not of the program.
const WITHOUT: [&str; 1] = ["t/whitespace.t"];

fn replace(path: &Path, all: &[(&str, &str)]) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(because("a test"))?;
    let text = all.iter().fold(text, |text, (from, to)| text.replace(from, to));
    std::fs::write(path, text).map_err(because("a test"))
}

fn memcached_said(said: &str) -> Said {
    let mut all = Said::default();
    for line in said.lines() {
        if let Some((file, _)) =
            line.split_once(' ').filter(|(_, rest)| rest.trim_start().starts_with("(Wstat:"))
        {
            all.failed.push(file.to_owned());
        } else if let Some(sums) = line.strip_prefix("Files=") {
            let files = sums.split(',').next().and_then(|files| files.parse::<usize>().ok());
            all.whole = files.is_some();
            all.passed = files.unwrap_or_default();
        }
    }
    all.passed -= all.failed.len().min(all.passed);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_say_is_understood() {
        let said = |passed, failed: &[&str], whole| Said {
            passed,
            failed: failed.iter().map(|&test| test.to_owned()).collect(),
            whole,
        };
        let redis = "[ok]: GET\n[err]: SET it in tests/unit/a.tcl\nExpected 1\n[ok]: DEL (3 ms)\n\
                     !!! WARNING The following tests failed:\n\n*** [err]: SET it in tests/unit/a.tcl\n";
        assert_eq!(redis_said(redis), said(2, &["SET it"], true));
        assert_eq!(redis_said("[ok]: GET\n"), said(1, &[], false));
        let memcached = "t/a.t .. ok\nt/b.t .. Failed 1/3\nt/c.t .. skipped: none\n\nTest Summary Report\n---\n\
                         t/b.t      (Wstat: 256 (exited 1) Tests: 3 Failed: 1)\n  Failed test:  2\n\
                         Files=3, Tests=40, 12 wallclock secs\nResult: FAIL\n";
        assert_eq!(memcached_said(memcached), said(2, &["t/b.t"], true));
        assert_eq!(memcached_said("t/a.t .. ok\n"), said(0, &[], false));
    }
}
