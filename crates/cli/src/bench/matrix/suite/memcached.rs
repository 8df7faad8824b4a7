//! memcached's own tests, in Perl; each starts its own servers.
//!
//! The tests' server is replaced by a script that starts memcached on the stack, and their address
//! by that of the stack.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::harness::{OURS, PEER, Trial, because, finished};
use super::super::results::{FileResult, SuiteResult};
use super::super::shared_stack::SharedStack;
use super::{LIMIT, copy};

/// Concurrent files: they sleep most of the time.
const AT_ONCE: &str = "4";

/// Runs memcached's tests, or `only` those files, one after the other.
pub fn run(world: &Trial<'_>, source: &Path, only: &[String]) -> Result<SuiteResult, String> {
    let folder = copy(world, &source.join("t"), "memcached")?;
    let executable = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(because("a file"))?;
        let may = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, may).map_err(because("a file"))
    };
    let shared = SharedStack::new(world)?;
    let quoted = |word: &String| format!("'{}' ", word.replace('\'', "'\\''"));
    let words: String = shared.words("memcached").iter().map(quoted).collect();
    // Its help text hides Unix sockets, so that the tests use TCP.
    executable(
        "memcached-debug",
        format!(
            "#!/bin/sh\ncase \" $* \" in *' -h '*) memcached -h | grep -v unix-socket; exit;; esac\nexec {words}\"$@\"\n"
        ),
    )?;
    executable("timedrun", "#!/bin/sh\nshift\nexec \"$@\"\n".to_owned())?;
    replace(&folder.join("t/lib/MemcachedTest.pm"))?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.join("t")).map_err(because("its tests"))?.flatten() {
        let name = format!("t/{}", entry.file_name().to_string_lossy());
        if name.ends_with(".t") {
            replace(&entry.path())?;
            if only.is_empty() || only.contains(&name) {
                files.push(name);
            }
        }
    }
    files.sort();
    let dir = folder.display().to_string();
    let jobs = if only.is_empty() { AT_ONCE } else { "1" };
    let prove = ["env", "-C", &dir, "prove", "--jobs", jobs, "--exec", "timeout 120 perl"];
    let words: Vec<String> = prove.iter().map(|&word| word.to_owned()).chain(files).collect();
    let out = finished(&world.clients, &words, LIMIT)?;
    shared.stop()?;
    Ok(output(&String::from_utf8_lossy(&out.stdout)))
}

/// Option that the tests pass, and that Debian's build does not know.
const NOT_DEBIANS: &str = " -o relaxed_privileges";

/// Replaces, in the tests, the client and server addresses and the server's options.
fn replace(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(because("a test"))?;
    let text = ["'", "\""].iter().fold(text, |text, quote| {
        let local = |addr: &str| format!("LocalAddr => {quote}{addr}{quote}");
        text.replace(&local("127.0.0.1"), &local(PEER))
    });
    let text = text.replace("127.0.0.1", OURS).replace(NOT_DEBIANS, "");
    std::fs::write(path, text).map_err(because("a test"))
}

fn output(text: &str) -> SuiteResult {
    let mut all = SuiteResult::default();
    // File that the details at the end belong to.
    let mut of = String::new();
    for line in text.lines() {
        if line.starts_with("Files=") {
            all.is_complete = true;
        } else if let Some((name, _)) = line.split_once(' ').filter(|(_, rest)| rest.contains("(Wstat:")) {
            of.clear();
            if let Some(file) = all.files.get_mut(name).filter(|file| !file.failed.is_empty()) {
                file.failed.clear();
                name.clone_into(&mut of);
            }
        } else if let (Some(file), Some(what)) = (all.files.get_mut(&of), line.strip_prefix("  ")) {
            file.failed.push(what.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if let Some((name, result)) = line.split_once(" .").filter(|(name, _)| name.ends_with(".t")) {
            let result = result.trim_start_matches('.').trim();
            let mut file = FileResult::default();
            match result.strip_prefix("skipped") {
                Some(why) => file.skipped = Some(why.trim_start_matches(':').trim().to_owned()),
                None if result == "ok" => {}
                None => file.failed.push(result.to_owned()),
            }
            all.files.insert(name.to_owned(), file);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prove_s_output_is_parsed() {
        let folder = std::env::temp_dir().join(format!("greenwave-prove-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("t")).unwrap();
        for (name, text) in [
            ("a", "1..1\\nok 1\\n"),
            ("b", "1..3\\nok 1\\nnot ok 2\\nok 3\\n"),
            ("c-d", "1..0 # SKIP none\\n"),
            ("f", "1..3\\nok 1\\nok 2\\nok 3 # TODO passes\\n"),
        ] {
            std::fs::write(folder.join(format!("t/{name}.t")), format!("print \"{text}\";\n")).unwrap();
        }
        std::fs::write(folder.join("t/e.t"), "exit 1;\n").unwrap();
        let out = std::process::Command::new("prove").arg("t").current_dir(&folder).output();
        std::fs::remove_dir_all(&folder).unwrap();
        let Ok(out) = out else {
            return errln!("skipped: prove_s_output_is_parsed: the program prove is not there");
        };
        // As on a terminal, both are one text.
        let text = String::from_utf8([out.stderr, out.stdout].concat()).unwrap();
        let ours = output(&text);
        assert!(ours.is_complete, "{text}");
        assert_eq!(ours.failed(), ["t/b.t", "t/e.t"], "{text}");
        assert_eq!(ours.files["t/b.t"].failed, ["Failed test: 2"]);
        let failed = ["Non-zero exit status: 1", "Parse errors: No plan found in TAP output"];
        assert_eq!(ours.files["t/e.t"].failed, failed);
        assert_eq!(ours.files["t/c-d.t"].skipped.as_deref(), Some("none"));
        assert_eq!(ours.files.len(), 5);
        assert!(!output("t/a.t .. ok\n").is_complete);
    }
}
