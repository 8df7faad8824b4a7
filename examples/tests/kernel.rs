//! Tests of the examples, with the kernel's TCP as client over their TAP devices.
//!
//! Everything happens in network namespaces that this test makes. Needs root and `curl`; missing
//! requirements are printed.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use netlab::client::check_echo;
use netlab::{Child, Namespace, NetLab, is_installed};

/// Reports a skipped test, bypassing the harness, which hides the output of passing tests.
fn skipped(name: &str, why: &str) {
    let line = format!("skipped: {name}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs `program` in its own namespace, and `ask` as its client.
fn with(name: &str, program: &str, ask: impl FnOnce(&Namespace)) {
    let no_tap = || {
        let there = std::path::Path::new("/dev/net/tun").exists();
        (!there).then(|| "this kernel offers no TAP devices".to_owned())
    };
    let no_curl = || (!is_installed("curl")).then(|| "curl is not there".to_owned());
    if let Some(why) = NetLab::unavailable().or_else(no_tap).or_else(no_curl) {
        return skipped(name, &why);
    }
    let lab = NetLab::new("examples").expect("a test network");
    let netns = lab.namespace("here").expect("a namespace");
    let mut command = netns.command(program);
    let mut server: Child = netns.spawn(command.stdout(Stdio::piped())).expect("the example starts");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("stdout is a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("it is text");
    assert_eq!(line, "listening on 10.77.0.2\n");
    ask(&netns);
}

fn curl(netns: &Namespace, args: &[&str]) -> String {
    let always = ["--silent", "--show-error", "--fail", "--max-time", "30"];
    netns.run("curl", &[&always, args].concat()).expect("an answer")
}

#[test]
fn the_echo_answers_the_kernel() {
    with("the_echo_answers_the_kernel", env!("CARGO_BIN_EXE_echo"), |netns| {
        netns.enter(|| {
            for len in [1, 1_000, 300_000] {
                check_echo(([10, 77, 0, 2], 7).into(), len);
            }
        });
    });
}

#[test]
fn the_axum_app_answers_curl_by_http_1_and_2_with_the_classifiers_label() {
    let name = "the_axum_app_answers_curl_by_http_1_and_2_with_the_classifiers_label";
    with(name, env!("CARGO_BIN_EXE_axum_app"), |netns| {
        assert_eq!(curl(netns, &["http://10.77.0.2/pay"]), "paid at level 0\n");
        assert_eq!(curl(netns, &["http://10.77.0.2/report"]), "a report, at level 7\n");
        let both = curl(netns, &["http://10.77.0.2/pay", "http://10.77.0.2/report"]);
        assert_eq!(both, "paid at level 0\na report, at level 7\n", "one connection, two requests");
        let by_2 = curl(netns, &["--http2-prior-knowledge", "http://10.77.0.2/report"]);
        assert_eq!(by_2, "a report, at level 7\n");
    });
}

#[test]
fn the_tonic_app_answers_a_call() {
    with("the_tonic_app_answers_a_call", env!("CARGO_BIN_EXE_tonic_app"), |netns| {
        // A gRPC message: uncompressed, five bytes, text.
        let mut call = netns.command("sh");
        let script = "printf '\\0\\0\\0\\0\\005world' | curl --silent --show-error --fail --max-time 30 \
            --http2-prior-knowledge -H 'content-type: application/grpc' -H 'te: trailers' \
            --data-binary @- http://10.77.0.2:50051/hello.Greeter/Greet";
        let out = call.args(["-c", script]).output().expect("a shell");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(String::from_utf8_lossy(&out.stdout[5..]), "hello world, at level 2");
    });
}
