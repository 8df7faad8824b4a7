//! What a person gets who makes a mistake: one line, what to try, exit 2.

use std::path::PathBuf;
use std::process::{Command, Output};

fn greenwave(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_greenwave")).args(args).output().expect("greenwave starts")
}

/// `args` must be refused with one line that holds `expected`.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let out = greenwave(args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
    let mut lines = stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("error: ") && first.contains(expected), "{args:?}: {stderr}");
    assert!(lines.all(|line| line.starts_with("  try: ")), "{args:?} takes more than a line: {stderr}");
    assert!(out.stdout.is_empty(), "{args:?} printed a result");
}

/// A policy file that is gone when this is dropped.
struct Policy(PathBuf);

impl Policy {
    fn new(name: &str, text: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("the folder for test files is writable");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of ours is UTF-8")
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn bad_arguments_are_one_line_and_exit_2() {
    refused(&["frobnicate"], "frobnicate");
    refused(&["demo", "--seconds", "0"], "0");
    refused(&["demo", "--modes", "fifo"], "fifo");
    refused(&["demo", "--burst", "300"], "SIZE/PERIOD");
    refused(&["load", "--target", "127.0.0.1:1"], "--rate");
    refused(&["load", "--target", "nowhere", "--rate", "10"], "nowhere");
    refused(&["load", "--target", "127.0.0.1:1", "--rate", "-1"], "-1");
}

#[test]
fn a_server_that_cannot_be_is_refused_before_anything_is_made() {
    let serve = |more: &[&str], expected: &str| {
        refused(&[&["serve"], more].concat(), expected);
    };
    serve(&["--device", "eth0", "--addr", "10.77.0.2/24"], "eth0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2"], "10.77.0.2");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.0/24"], "10.77.0.0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--port", "0"], "0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--host-addr", "10.78.0.1"], "10.78.0.1");
    serve(&["--device", "tap:a-name-that-is-too-long", "--addr", "10.77.0.2/24"], "15 bytes");
    serve(
        &["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--policy", "no-such-file.toml"],
        "no-such-file",
    );
}

#[test]
fn a_bad_policy_is_refused_with_its_line() {
    let policy = Policy::new(
        "bad.toml",
        "[[rule]]\nname = \"web\"\nlayer = \"driver\"\nport = \"80\"\npriority = 9\n",
    );
    refused(&["check", policy.path()], "bad.toml:5: priority 9 is outside 0..=7");
    refused(&["check", "no-such-file.toml"], "no-such-file.toml");
}

#[test]
fn a_good_policy_is_shown_rule_by_rule() {
    let policy = Policy::new(
        "good.toml",
        "[[rule]]\nname = \"web\"\nlayer = \"driver\"\nport = \"80\"\npriority = 0\n",
    );
    let out = greenwave(&["check", policy.path()]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    for part in ["rule", "web", "driver", "priority 0", "port = \"80\""] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
}

#[test]
fn a_small_demo_measures_both_classes_and_writes_its_page() {
    let page = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo.html");
    let path = page.to_str().expect("a path of ours is UTF-8");
    let modes = ["--modes", "none,adps", "--burst", "20/10ms"];
    let out = greenwave(&[&["demo", "--seconds", "1", "--json", "--out", path], &modes[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    assert_eq!(json["world"], "host");
    for mode in 0..2 {
        for class in 0..2 {
            let row = &json["modes"][mode]["report"]["classes"][class];
            assert!(row["requests"].as_u64() > Some(0), "{row}");
        }
    }
    let html = std::fs::read_to_string(&page).expect("the page is there");
    assert!(html.contains("<svg") && html.contains("adps"), "the page has plots");
    let _ = std::fs::remove_file(&page);
}
