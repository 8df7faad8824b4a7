//! The server on a TAP device, with the Linux kernel's TCP as client.
//!
//! Everything happens in a network namespace of this test, so the machine's network is left alone.
//! Needs root, `unshare` and `curl`; uses `wrk`, `nft` or `iptables`, and `setpriv` if present.
//! Missing requirements are printed.

#[path = "tap/reload.rs"]
mod reload;
#[path = "common/schema.rs"]
mod schema;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netlab::client::check_echo;
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Set for the copy of this test that runs in the namespace.
const INSIDE: &str = "GREENWAVE_TEST_NAMESPACE";

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(why: &str) {
    let line = format!("skipped: the_kernels_tcp_is_served_over_a_tap_device: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn is_there(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok()
}

//~ mechanisms: M8: the kernel's TCP, curl and wrk are served unchanged over a TAP device
//~ cli: `serve` answers curl and wrk and ends with exit 0 on ctrl-C
//~ input: a device name or address in use gives one line and exit 2
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

/// A running server; ended on drop, also after a failure.
struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it listens.
    fn start(more: &[&str]) -> Self {
        Self::start_on("tap:gw0", more)
    }

    fn start_on(device: &str, more: &[&str]) -> Self {
        let words = ["serve", "--device", device, "--addr", "10.77.0.2/24"];
        Self::spawn(&[&words[..], more].concat(), Stdio::inherit())
    }

    /// Starts a server with the words of a command line; all but its result goes to `stderr`.
    fn spawn(words: &[&str], stderr: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_greenwave"))
            .args(words)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("greenwave starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut server = Self { child, stdout };
        let mut line = String::new();
        server.stdout.read_line(&mut line).expect("the server's stdout is text");
        assert!(line.starts_with("listening on 10.77.0.2"), "{line:?}");
        server
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Sends Ctrl-C; returns the server's output after that.
    fn stop(mut self) -> String {
        self.signal(Signal::INT);
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

/// The output of `program`, which must succeed.
fn output(program: &str, args: &[&str]) -> Vec<u8> {
    let out = Command::new(program).args(args).output().expect("the program is there");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn curl(args: &[&str]) -> Vec<u8> {
    output("curl", &[&["--silent", "--show-error", "--fail", "--max-time", "60"], args].concat())
}

const URL: &str = "http://10.77.0.2/";

/// Address of an echo server.
fn echo() -> SocketAddr {
    ([10, 77, 0, 2], 80).into()
}

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

    for policy in sched::dispatch::POLICIES {
        let server = Server::start(&["--app", "http", "--dispatch", policy.name]);
        one_connection_serves_several_requests();
        if policy.name == "weighted" {
            the_load_generator_gets_its_answers(&["--protocol", "http"]);
        }
        server.stop();
    }

    let workers = ["--workers", "2", "--worker-affinity", "high=0", "--worker-affinity", "low=1", "--pin"];
    let server = Server::start(&[&["--app", "synthetic"], &workers[..]].concat());
    the_load_generator_gets_its_answers(&["--protocol", "synthetic"]);
    server.stop();

    let server = Server::start(&["--app", "echo"]);
    check_echo(echo(), 1_000_000);
    server.stop();

    shards_serve_side_by_side("tap:gw0");
    shards_serve_side_by_side("tap:gw0,queues=2");
    what_a_policy_drops_is_not_answered();
    reload::a_policy_is_read_again_and_connections_stay();
    reload::a_hangup_with_nothing_to_read_changes_nothing();
    a_guard_counts_connections_and_reports_them_at_the_end();
    served_requests_are_shown_live_and_all_counted_at_the_end();
    a_capture_holds_the_frames();
    lost_packets_cost_time_and_no_bytes();
    without_permission_it_says_so();
}

//~ views: a daemon is shown until it ends, and the end still counts everything
/// The view takes histograms from serving shards; none is lost.
fn served_requests_are_shown_live_and_all_counted_at_the_end() {
    if !is_there("ip") {
        return skipped("its part with --ui, as ip is not there");
    }
    output("ip", &["link", "set", "lo", "up"]);
    let ui = "127.0.0.1:9900";
    let server = Server::start(&["--app", "http", "--shards", "2", "--ui", ui]);
    let budget = ["--header", "greenwave-budget: expected=200000, remaining=148000"];
    let shown = |name: &str| -> f64 {
        let text = curl(&[&format!("http://{ui}/metrics")]);
        let text = String::from_utf8_lossy(&text).into_owned();
        let of = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
        text.lines().filter(|line| line.starts_with(name)).filter_map(of).sum()
    };
    // Some before the first poll, some between two polls, some after the last.
    for round in 1..=2 {
        (0..5).for_each(|_| assert!(!curl(&[&budget[..], &[URL]].concat()).is_empty()));
        let expected = f64::from(round) * 5.0;
        let end = Instant::now() + Duration::from_secs(60);
        while shown("greenwave_responses_total{") < expected {
            assert!(Instant::now() < end, "{expected} responses are not shown");
        }
    }
    assert_eq!(shown("greenwave_responses_total{"), 10.0);
    assert_eq!(shown("greenwave_stage_wait_seconds_count{"), 40.0, "each waited at four stages");
    assert!(shown("greenwave_deadline_slack_seconds_count{") > 0.0);
    assert!(!curl(&[URL]).is_empty());
    let rest = server.stop();
    let served = rest.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&"service")).then(|| words[2].parse::<u64>().expect("a count"))
    });
    assert_eq!(served.sum::<u64>(), 11, "{rest}");
}

fn a_device_of_this_name_is_refused() {
    let again = ["serve", "--device", "tap:gw0", "--addr", "10.78.0.2/24"];
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).args(again).output().expect("greenwave starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr.starts_with("error: a network device named gw0 already exists"), "{stderr}");
}

fn an_address_in_use_is_refused() {
    let again = ["serve", "--device", "tap:gw1", "--addr", "10.77.0.3/24"];
    let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).args(again).output().expect("greenwave starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr.starts_with("error: address 10.77.0.1 is in use"), "{stderr}");
}

/// The same bytes twice and once in a piece: a stack that loses, repeats or reorders a segment
/// cannot pass.
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
    let out = output(
        "wrk",
        &["--threads", "1", "--connections", "50", "--duration", "2s", "--timeout", "30s", URL],
    );
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
    schema::conforms(&json);
    for class in json["classes"].as_array().expect("a report has classes") {
        assert!(class["requests"].as_u64() > Some(0), "{class}");
        assert_eq!((&class["never_sent"], &class["unanswered"]), (&0.into(), &0.into()), "{class}");
    }
}

/// The path of a file of its own, which is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of ours is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn what_a_policy_drops_is_not_answered() {
    let rule = "[[rule]]\nname = \"closed\"\nlayer = \"driver\"\nport = 80\n\
                http = { method = \"GET\", path = \"/bytes\" }\ndrop = true\n";
    let policy = Scratch::new("tap-drop.toml");
    std::fs::write(&policy.0, rule).expect("the folder for test files is writable");
    let server = Server::start(&["--app", "http", "--policy", policy.path()]);
    assert!(!curl(&[URL]).is_empty());
    let closed = format!("{URL}bytes/10");
    let dropped = Command::new("curl").args(["--silent", "--max-time", "1", &closed]).output();
    let dropped = dropped.expect("curl is there");
    assert_eq!((dropped.status.code(), dropped.stdout.len()), (Some(28), 0), "28: no answer");
    assert!(!curl(&[URL]).is_empty());
    server.stop();
}

/// Connections of one client over `device` with two shards: both serve some.
fn shards_serve_side_by_side(device: &str) {
    let server = Server::start_on(device, &["--shards", "2"]);
    for _ in 0..8 {
        curl(&[URL]);
    }
    assert_eq!(curl(&[&format!("{URL}bytes/1000000")]).len(), 1_000_000);
    let summary = server.stop();
    let requests: Vec<u64> = summary
        .lines()
        .filter_map(|line| line.split_once(" connections, ")?.1.split_once(" requests")?.0.parse().ok())
        .collect();
    assert_eq!(requests.len(), 2, "{summary}");
    assert_eq!(requests.iter().sum::<u64>(), 9, "{summary}");
    assert_eq!(summary.matches("(0 dropped)").count(), 2, "{summary}");
}

//~ cli: `serve --guard` counts by class and reason; invalid settings are refused
fn a_guard_counts_connections_and_reports_them_at_the_end() {
    let server = Server::start(&["--app", "http", "--guard", "queue-delay", "--target-delay", "500ms"]);
    curl(&[URL]);
    curl(&[URL]);
    let summary = server.stop();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(summary.lines().any(|line| words(line) == ["0", "2", "0", "0", "0", "2"]), "{summary}");
    assert!(summary.contains("guard: age of the oldest waiting connection, p50"), "{summary}");
    assert!(summary.contains("allocations reused"), "{summary}");
}

fn a_capture_holds_the_frames() {
    let capture = Scratch::new("tap.pcap");
    let server = Server::start(&["--app", "http", "--pcap", capture.path()]);
    curl(&[&format!("{URL}bytes/100000")]);
    server.stop();
    let bytes = std::fs::read(&capture.0).expect("the capture is there");
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "little-endian, in nanoseconds");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
    let (mut at, mut frames, mut payload) = (24, 0, 0);
    while at < bytes.len() {
        let (kept, original_len) = (word(at + 8), word(at + 12));
        assert!(kept <= original_len && kept >= 14, "{kept} of {original_len} bytes at {at}");
        (at, frames, payload) = (at + 16 + kept, frames + 1, payload + original_len);
    }
    assert_eq!(at, bytes.len(), "the last frame is whole");
    assert!(frames > 10 && payload > 100_000, "{frames} frames, {payload} bytes");
}

/// Every 50th packet of either direction is lost.
fn lost_packets_cost_time_and_no_bytes() {
    if !lose_packets() {
        return skipped("its part with lost packets: neither nft nor iptables can drop every 50th here");
    }
    let server = Server::start(&["--app", "http"]);
    let url = format!("{URL}bytes/5000000");
    let body = curl(&[&url]);
    assert_eq!(body.len(), 5_000_000);
    assert!(body == curl(&[&url]), "the same bytes come twice");
    server.stop();
    let server = Server::start(&["--app", "echo"]);
    check_echo(echo(), 5_000_000);
    server.stop();
}

/// True if the namespace's firewall now drops packets.
fn lose_packets() -> bool {
    let works = |program: &str, args: &[&str]| {
        let tried = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let rules = "table inet loss {\n\
        chain into { type filter hook input priority 0; iifname gw0 numgen inc mod 50 49 drop; }\n\
        chain from { type filter hook output priority 0; oifname gw0 numgen inc mod 50 49 drop; }\n}\n";
    let file = Scratch::new("tap-loss.nft");
    std::fs::write(&file.0, rules).expect("the folder for test files is writable");
    let nth = ["-m", "statistic", "--mode", "nth", "--every", "50", "--packet", "49", "-j", "DROP"];
    works("nft", &["-f", file.path()])
        || works("iptables", &[&["-A", "INPUT", "-i", "gw0"], &nth[..]].concat())
            && works("iptables", &[&["-A", "OUTPUT", "-o", "gw0"], &nth[..]].concat())
}

fn without_permission_it_says_so() {
    if !is_there("setpriv") {
        return skipped("its part without root: setpriv is not there");
    }
    // A folder that any user may enter: that of the build may be root's alone.
    let copy = Scratch(std::env::temp_dir().join(format!("greenwave-{}", std::process::id())));
    // Copied by another process: a file that is open for writing cannot be executed, and a child
    // forked here would briefly inherit our descriptor.
    let copied = Command::new("cp").args(["-p", env!("CARGO_BIN_EXE_greenwave"), copy.path()]).status();
    assert!(copied.expect("cp is there").success(), "the temporary folder is writable");
    let out = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", copy.path()])
        .args(["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"])
        .current_dir("/")
        .output()
        .expect("setpriv starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    if matches!(out.status.code(), Some(126 | 127)) {
        return skipped(&format!("its part without root: {stderr}"));
    }
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    // Cause and remedy, and nothing of devices that were not asked for.
    let [first, second] = lines[..] else { panic!("{stderr}") };
    assert!(first.starts_with("error: ") && first.contains("permission"), "{stderr}");
    assert!(second.starts_with("  try: run as root"), "{stderr}");
}
