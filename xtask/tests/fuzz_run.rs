//! Tests of `fuzz/run`: all targets run, failures are named, an interrupt ends it, and no target is
//! left out. Targets are scripts here, so nothing is built.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A workspace with these targets, each a shell script.
struct Workspace(PathBuf);

impl Workspace {
    fn new(test: &str, targets: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("greenwave-fuzz-run-{test}-{}", std::process::id()));
        let workspace = Self(root);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/run");
        workspace.program("fuzz/run", &fs::read_to_string(script).expect("fuzz/run"));
        // Stand-ins for Rust's tools: cargo fuzz exists, builds, and for this machine.
        workspace.program("home/.cargo/bin/cargo", "#!/bin/sh\n");
        workspace.program("home/.cargo/bin/rustc", "#!/bin/sh\necho host: here\n");
        let mut manifest = String::new();
        for (name, body) in targets {
            workspace.program(&format!("fuzz/target/here/release/{name}"), &format!("#!/bin/sh\n{body}\n"));
            workspace.file(&format!("fuzz/fuzz_targets/{name}.rs"), "");
            workspace.file(&format!("fuzz/seeds/{name}/one"), "");
            manifest += &format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        }
        workspace.file("fuzz/Cargo.toml", &manifest);
        workspace
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(&path, text).expect("a file is written");
        path
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.file(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
    }

    fn command(&self, args: &[&str]) -> Command {
        // A shell ignores SIGINT in background jobs, and so would the script.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(self.0.join("fuzz/run"));
        command.args(args).env("HOME", self.0.join("home")).env_remove("CARGO_TARGET_DIR");
        command.env("FUZZ_JOBS", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        outcome(&self.command(args).output().expect("the script starts"))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// True if the script can run here; it reports the reason where it cannot.
fn runs() -> bool {
    let there = ["bash", "c++"].iter().all(|program| {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    });
    if !there {
        println!("skipped: fuzz_run: bash or a C++ compiler is not there");
    }
    there
}

const GOOD: &str = "echo '#9 DONE cov: 7 ft: 8'; echo 'stat::number_of_executed_units: 9'";
const BAD: &str = "echo 'why it failed'; echo 'Test unit written to fuzz/artifacts/bad/crash-1'; exit 77";

//~ fuzzing: `fuzz/run` runs all targets, names those that fail with their input, and ends on an interrupt
#[test]
fn all_targets_run_though_some_fail_and_the_end_names_those_and_their_inputs() {
    if !runs() {
        return;
    }
    let worse = "kill -9 $$";
    let workspace = Workspace::new("all", &[("bad", BAD), ("good", GOOD), ("later", GOOD), ("worse", worse)]);
    let (code, stdout, stderr) = workspace.run(&[]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    for good in ["good", "later"] {
        let line = stdout.lines().find(|line| line.starts_with(good)).unwrap_or_else(|| panic!("{stdout}"));
        assert!(line.ends_with(" 9 inputs,      7 edges covered"), "{line:?}");
    }
    assert!(stderr.contains("why it failed"), "{stderr}");
    assert!(stderr.contains("cp fuzz/artifacts/bad/crash-1 fuzz/seeds/bad/ && fuzz/run bad"), "{stderr}");
    assert!(stderr.ends_with("error: 2 of 4 fuzz targets failed: bad worse\n"), "{stderr}");
    let (code, stdout, stderr) = workspace.run(&["later", "good"]);
    assert_eq!((code, stdout.lines().count(), &stderr[..]), (Some(0), 2, ""), "{stdout}");
}

//~ fuzzing: `fuzz/run` runs all targets, names those that fail with their input, and ends on an interrupt
#[test]
fn a_target_without_a_file_an_entry_or_seeds_is_an_error() {
    if !runs() {
        return;
    }
    let workspace = Workspace::new("set-up", &[("good", GOOD)]);
    let (code, _, stderr) = workspace.run(&["none"]);
    assert_eq!((code, &stderr[..]), (Some(1), "error: none is no fuzz target; valid: good\n"));
    workspace.file("fuzz/fuzz_targets/new.rs", "");
    fs::create_dir(workspace.0.join("fuzz/seeds/empty")).expect("a folder is made");
    fs::remove_dir_all(workspace.0.join("fuzz/seeds/good")).expect("seeds are removed");
    let (code, stdout, stderr) = workspace.run(&[]);
    assert_eq!((code, &stdout[..]), (Some(1), ""));
    assert!(stderr.ends_with(": good new\n"), "{stderr}");
}

//~ fuzzing: `fuzz/run` runs all targets, names those that fail with their input, and ends on an interrupt
#[test]
fn an_interrupt_ends_all_that_runs() {
    if !runs() {
        return;
    }
    let slow = "touch fuzz/started-$$; exec sleep 600";
    let workspace = Workspace::new("interrupt", &[("one", slow), ("two", slow), ("three", slow)]);
    let child = workspace.command(&[]).process_group(0).spawn().expect("the script starts");
    let started = || -> Vec<String> {
        let entries = fs::read_dir(workspace.0.join("fuzz")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix("started-").map(str::to_owned)).collect()
    };
    while started().len() < 2 {
        std::thread::yield_now();
    }
    // To the whole process group, as a terminal does.
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let (code, _, stderr) = outcome(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, &stderr[..]), (Some(130), "interrupted\n"));
    assert_eq!(started().len(), 2, "no other was started");
    for process in started() {
        assert!(!Path::new("/proc").join(&process).exists(), "process {process} is still there");
    }
}
