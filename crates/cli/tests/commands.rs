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
    refused(&["demo", "--seconds", "x"], "it is not a whole number");
    refused(&["demo", "--modes", "none,adps,none"], "mode none is given twice");
    refused(&["demo", "--burst", "1/1s", "--seconds", "1"], "no burst to measure in 1 s");
    refused(&["demo", "--service", "1ms"], "of what serves it");
    refused(&["calibrate", "--slices", "1"], "1 is not in 2..");
}

#[test]
fn a_result_that_could_not_be_written_is_refused_before_it_is_measured() {
    refused(&["demo", "--out", "no/such/folder/report.html"], "no/such/folder/report.html: No such file");
    refused(&["demo", "--out", "/"], "/: Is a directory");
    refused(&["calibrate", "--out", "no/such/folder/model.toml"], "no/such/folder/model.toml: No such file");
}

#[test]
fn a_target_where_nobody_listens_is_refused_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let target = listener.local_addr().expect("a listener has an address").to_string();
    drop(listener);
    refused(&["load", "--target", &target, "--rate", "10"], "Connection refused");
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_command_without_a_word() {
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["exp", "list"]).stdout(writer).stderr(std::process::Stdio::piped()).output();
    let stderr = out.expect("greenwave starts").stderr;
    assert_eq!(String::from_utf8_lossy(&stderr), "");
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error_and_no_panic() {
    let full = std::fs::File::create("/dev/full").expect("Linux has /dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["exp", "list"]).stdout(full).stderr(std::process::Stdio::piped()).output();
    let out = out.expect("greenwave starts");
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "error: stdout: No space left on device\n");
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
fn help_fits_a_terminal_of_80_columns() {
    for command in ["", "demo", "serve", "load", "calibrate", "check", "exp"] {
        let out = greenwave(&[command, "--help"].into_iter().filter(|c| !c.is_empty()).collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
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
