//! The server on a TAP device against the Linux kernel's own TCP.
//!
//! Everything happens in a network namespace that this test makes, so the
//! machine's network is left alone. Needs root, `unshare` and `curl`; `wrk`
//! joins in where it is there. What is missing is printed.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Set for the copy of this test that runs in the namespace.
const INSIDE: &str = "GREENWAVE_TEST_NAMESPACE";

/// Says what is not tested. Written past the test harness, which keeps what
/// passing tests print to itself.
fn skipped(why: &str) {
    let line = format!("skipped: the_kernels_tcp_is_served_over_a_tap_device: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn is_there(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok()
}

#[test]
fn the_kernels_tcp_is_served_over_a_tap_device() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let missing = ["unshare", "curl"].into_iter().find(|program| !is_there(program));
    if !geteuid().is_root() {
        return skipped("making a TAP device needs root");
    }
    if let Some(program) = missing {
        return skipped(&format!("{program} is not there"));
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped("this kernel offers no TAP devices");
    }
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        return skipped("network namespaces are not allowed here");
    }
    let this = std::env::current_exe().expect("a test knows its own path");
    let status = Command::new("unshare")
        .arg("-n")
        .arg(this)
        .args(["--exact", "the_kernels_tcp_is_served_over_a_tap_device", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare starts");
    assert!(status.success(), "the copy in the namespace failed: {status}");
}

/// A running server; ended when this is dropped, whatever the test does.
struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it listens.
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_greenwave"))
            .args(["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("greenwave starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut server = Self { child, stdout };
        let mut line = String::new();
        server.stdout.read_line(&mut line).expect("the server's stdout is text");
        assert!(line.starts_with("listening on 10.77.0.2"), "{line:?}");
        server
    }

    /// ctrl-C; what the server printed after that.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("the server runs");
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("the server's stdout is text");
        let status = self.child.wait().expect("the server ends");
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `program` prints; it must succeed.
fn output(program: &str, args: &[&str]) -> Vec<u8> {
    let out = Command::new(program).args(args).output().expect("the program is there");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn curl(args: &[&str]) -> Vec<u8> {
    output("curl", &[&["--silent", "--show-error", "--fail", "--max-time", "60"], args].concat())
}

const URL: &str = "http://10.77.0.2/";

fn inside() {
    let server = Server::start(&["--app", "http"]);
    assert!(!curl(&[URL]).is_empty());
    a_device_of_this_name_is_refused();
    an_address_in_use_is_refused();
    ten_megabytes_arrive_intact();
    one_connection_serves_several_requests();
    wrk_sees_no_errors();
    the_load_generator_gets_its_answers(&["--protocol", "http"]);
    let rest = server.stop();
    assert!(rest.contains(" connections, ") && rest.contains(" requests, "), "{rest}");

    let server = Server::start(&["--app", "synthetic", "--mode", "adps"]);
    the_load_generator_gets_its_answers(&["--protocol", "synthetic"]);
    server.stop();
}

fn a_device_of_this_name_is_refused() {
    let again = ["serve", "--device", "tap:gw0", "--addr", "10.78.0.2/24"];
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).args(again).output().expect("greenwave starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr.starts_with("error: a network device named gw0 exists already"), "{stderr}");
}

fn an_address_in_use_is_refused() {
    let again = ["serve", "--device", "tap:gw1", "--addr", "10.77.0.3/24"];
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).args(again).output().expect("greenwave starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr.starts_with("error: address 10.77.0.1 is in use"), "{stderr}");
}

/// The same bytes twice and once in a piece: a stack that loses, repeats or
/// reorders a segment cannot pass.
fn ten_megabytes_arrive_intact() {
    let url = format!("{URL}bytes/10000000");
    let body = curl(&[&url]);
    assert_eq!(body.len(), 10_000_000);
    let prefix = curl(&[&format!("{URL}bytes/1000")]);
    assert!(body.starts_with(&prefix), "the same bytes start both");
    assert!(body == curl(&[&url]), "the same bytes come twice");
}

fn one_connection_serves_several_requests() {
    let ten = format!("{URL}bytes/10");
    let none = ["--output", "/dev/null"];
    let format = ["--write-out", "%{num_connects}\n"];
    let args = [&none[..], &none, &none, &format, &[URL, &ten, URL]].concat();
    let connects = curl(&args);
    assert_eq!(String::from_utf8_lossy(&connects), "1\n0\n0\n");
}

fn wrk_sees_no_errors() {
    if !is_there("wrk") {
        return skipped("its part with wrk, which is not there");
    }
    let out = output("wrk", &["--threads", "1", "--connections", "50", "--duration", "2s", URL]);
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains("requests in"), "{text}");
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
}

fn the_load_generator_gets_its_answers(protocol: &[&str]) {
    let plan = [
        "load",
        "--target",
        "10.77.0.2:80",
        "--rate",
        "500",
        "--duration",
        "1s",
        "--timeout",
        "30s",
        "--json",
    ];
    let out = output(env!("CARGO_BIN_EXE_greenwave"), &[&plan[..], protocol].concat());
    let json: serde_json::Value = serde_json::from_slice(&out).expect("--json prints JSON");
    for class in json["classes"].as_array().expect("a report has classes") {
        assert!(class["requests"].as_u64() > Some(0), "{class}");
        assert_eq!((&class["never_sent"], &class["unanswered"]), (&0.into(), &0.into()), "{class}");
    }
}
