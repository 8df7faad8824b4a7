//! `greenwave serve` and `load` follow their flags, and keep their promises when another process
//! interferes with a server.
//!
//! In network namespaces of these tests; needs root. Missing requirements are printed.

#[path = "serving/control.rs"]
mod control;
#[path = "serving/files.rs"]
mod files;
#[path = "common/library.rs"]
mod library;
#[path = "serving/sandbox.rs"]
mod sandbox;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/threads.rs"]
mod threads;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlab::{Child, Namespace, NetLab, Veth, client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
const ADDR: &str = "10.77.0.2/24";
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// A namespace that can have a TAP device; `None` where there can be none, with a line that gives
/// the reason.
fn netns_with_tap(test: &str) -> Option<Namespace> {
    let no_tap = || {
        let there = Path::new("/dev/net/tun").exists();
        (!there).then(|| "this kernel offers no TAP devices".to_owned())
    };
    if let Some(why) = NetLab::unavailable().or_else(no_tap) {
        skipped(test, &why);
        return None;
    }
    Some(NetLab::new("serving").unwrap().namespace("host").unwrap())
}

/// A running server; ended when this is dropped.
struct Server {
    child: Child,
    /// Results, and all other output.
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Server {
    /// A server that listens.
    fn start(netns: &Namespace, device: &str, more: &[&str]) -> Self {
        let mut command = netns.command(GREENWAVE);
        command.args(["serve", "--device", device, "--addr", ADDR]).args(more);
        Self::started(netns, &mut command, more.contains(&"--json"))
    }

    /// A server started by `command`; `aside`: its first line goes to stderr.
    fn started(netns: &Namespace, command: &mut Command, aside: bool) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = netns.spawn(command).unwrap();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut server = Self { child, stdout, stderr };
        let says: &mut dyn BufRead = if aside { &mut server.stderr } else { &mut server.stdout };
        let mut line = String::new();
        while !line.starts_with("listening on 10.77.0.2:") {
            line.clear();
            if says.read_line(&mut line).expect("UTF-8 output") == 0 {
                let mut output = String::new();
                server.stderr.read_to_string(&mut output).expect("UTF-8 output");
                panic!("it ended before it listened: {output}");
            }
        }
        server
    }

    /// Sends Ctrl-C to the server; returns its output after that.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let (code, printed, stderr) = self.ended();
        assert_eq!(code, Some(0), "{printed}{stderr}");
        printed
    }

    /// Waits for its end: exit status, stdout, stderr.
    fn ended(&mut self) -> (Option<i32>, String, String) {
        let end = Instant::now() + LIMIT;
        while self.child.try_wait().expect("it can be waited for").is_none() {
            assert!(Instant::now() < end, "does not exit after ctrl-C");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        let [mut printed, mut stderr] = [String::new(), String::new()];
        self.stdout.read_to_string(&mut printed).expect("it prints text");
        self.stderr.read_to_string(&mut stderr).expect("UTF-8 output");
        (self.child.wait().expect("has exited").code(), printed, stderr)
    }
}

/// The body of `path` from the server at `port`.
#[track_caller]
fn get(netns: &Namespace, port: u16, path: &str) -> String {
    let answer = netns.enter(|| {
        let mut stream = client::connect(SocketAddr::from(([10, 77, 0, 2], port)));
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers in text");
        answer
    });
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    body.to_owned()
}

const GREETING: &str = "greenwave: urgent first\n";

//~ cli: `serve` takes address, host address and port, and prints its summary as JSON
#[test]
fn a_server_listens_at_the_given_address_and_ends_with_json() {
    let Some(netns) = netns_with_tap("a_server_listens_at_the_given_address_and_ends_with_json") else {
        return;
    };
    let server = Server::start(&netns, "tap:gw0", &["--port", "8080", "--host-addr", "10.77.0.7", "--json"]);
    assert!(netns.run("ip", &["addr", "show", "dev", "gw0"]).unwrap().contains("inet 10.77.0.7/24"));
    (0..3).for_each(|_| assert_eq!(get(&netns, 8080, "/"), GREETING));
    let printed = server.stop();
    let result: Value = serde_json::from_str(&printed).expect("JSON, and nothing else");
    schema::conforms(&result);
    let shards = result["shards"].as_array().expect("a list");
    assert_eq!(shards.len(), 1);
    assert_eq!((&shards[0]["connections"], &shards[0]["responses"]), (&3.into(), &3.into()), "{result}");
}

//~ cli: `serve` works in every mode with and without workers, and through a gateway
#[test]
fn other_subnets_are_reached_by_the_given_gateway() {
    let test = "other_subnets_are_reached_by_the_given_gateway";
    let Some(netns) = netns_with_tap(test) else { return };
    if !netlab::is_installed("curl") {
        return skipped(test, "curl is not there");
    }
    let addresses = ["--host-addr", "10.77.0.7", "--gateway", "10.77.0.9"];
    let server = Server::start(&netns, "tap:gw0", &addresses);
    // The default target is gone.
    for [what, addr, device] in
        [["del", "10.77.0.7/24", "gw0"], ["add", "10.77.0.9/24", "gw0"], ["add", "10.88.0.1/32", "lo"]]
    {
        netns.run("ip", &["addr", what, addr, "dev", device]).unwrap();
    }
    let url = "http://10.77.0.2:80/";
    let body = netns.run("curl", &["-sS", "--max-time", "30", "--interface", "10.88.0.1", url]).unwrap();
    assert_eq!(body, GREETING);
    server.stop();
}

//~ cli: `serve` works in every mode with and without workers, and through a gateway
#[test]
fn every_mode_serves_with_and_without_workers() {
    let Some(netns) = netns_with_tap("every_mode_serves_with_and_without_workers") else { return };
    for mode in ["none", "lns", "darc", "adps", "ideal"] {
        for workers in ["0", "2"] {
            let server = Server::start(&netns, "tap:gw0", &["--mode", mode, "--workers", workers]);
            (0..3).for_each(|_| assert_eq!(get(&netns, 80, "/"), GREETING));
            let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap().count();
            // The main thread, one that waits for the stack, the stack's, and the workers.
            let least = 3 + workers.parse::<usize>().unwrap();
            assert!(threads >= least, "{mode}: {threads} threads, {workers} of them workers");
            let printed = server.stop();
            assert!(printed.contains("3 connections, 3 requests, 3 responses"), "{mode}: {printed}");
        }
    }
}

/// Result of `load` on a synthetic server in `netns`.
fn loaded(netns: &Namespace, more: &[&str]) -> Value {
    let mut command = netns.command(GREENWAVE);
    command.args(["load", "--target", "10.77.0.2:80", "--protocol", "synthetic"]);
    let out = command.args(["--timeout", "30s", "--json"]).args(more).output().expect("it starts");
    // 3: this machine was too busy to send at the plan's rate, which is not what is tested.
    assert!(matches!(out.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&out.stderr));
    let result: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    schema::conforms(&result);
    result
}

/// Requests of the class called `name`.
fn requests(result: &Value, name: &str) -> u64 {
    let classes = result["classes"].as_array().expect("a list");
    let class = classes.iter().find(|class| class["class"] == name);
    class.map_or(0, |class| class["requests"].as_u64().expect("a count"))
}

//~ cli: `load` sends bursts over the given connections, path and lengths
#[test]
fn a_load_of_the_synthetic_protocol_is_what_its_flags_say() {
    let Some(netns) = netns_with_tap("a_load_of_the_synthetic_protocol_is_what_its_flags_say") else {
        return;
    };
    let server = Server::start(&netns, "tap:gw0", &["--app", "synthetic", "--json"]);
    let sent = || {
        let table = netns.run("cat", &["/proc/net/dev"]).unwrap();
        let row = table.lines().find_map(|line| line.trim().strip_prefix("gw0:")).expect("its row");
        row.split_whitespace().nth(8).expect("bytes sent").parse::<u64>().expect("a count")
    };
    let plan = ["--burst", "10/20ms", "--duration", "400ms", "--connections", "6"];
    let with = |more: &[&str]| loaded(&netns, &[&plan[..], more].concat());
    // Ten at once, twenty times.
    let none = with(&["--urgent", "0", "--service", "1us"]);
    assert_eq!((requests(&none, "LS"), requests(&none, "other")), (0, 200), "{none}");
    let warm = with(&["--urgent", "0", "--service", "1us", "--warmup", "200ms"]);
    assert_eq!(requests(&warm, "other"), 100, "{warm}");
    let before = sent();
    let long = with(&["--urgent", "1", "--service", "1ms", "--length", "3000"]);
    assert_eq!((requests(&long, "LS"), requests(&long, "other")), (200, 0), "{long}");
    assert!(sent() - before >= 200 * 3000, "{} bytes", sent() - before);
    let mean = long["classes"][0]["mean_ns"].as_u64().expect("a mean");
    assert!(mean >= 1_000_000, "a request takes its service at least: {long}");
    let half = |seed: &str| requests(&with(&["--urgent", "0.5", "--service", "1us", "--seed", seed]), "LS");
    let first = half("7");
    assert_eq!(half("7"), first, "a seed replays its requests");
    assert_ne!(half("8"), first, "another has others");
    let result: Value = serde_json::from_str(&server.stop()).expect("JSON");
    // Each run first checks that the target listens.
    assert_eq!(result["shards"][0]["connections"], 6 * 7, "{result}");
}

/// Checks the error of a command that cannot run.
#[track_caller]
fn refused(netns: &Namespace, args: &[&str], says: &str) {
    let out = netns.command(GREENWAVE).args(args).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    let [what, advice] = lines[..] else { panic!("two lines, not {stderr}") };
    assert!(what.starts_with("error: ") && what.contains(says), "{says:?} is not in {stderr}");
    assert!(advice.starts_with("  try: "), "{stderr}");
}

//~ faults: a second server of one address on one interface is refused
#[test]
fn an_address_on_an_interface_is_served_once() {
    let test = "an_address_on_an_interface_is_served_once";
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let lab = NetLab::new("serving").unwrap();
    let [ours, clients] = ["ours", "clients"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&ours, "gw0"), (&clients, "eth0"), &Veth::default()).unwrap();
    clients.address("eth0", "10.77.0.9".parse().unwrap(), 24).unwrap();
    let mut first = Server::start(&ours, "packet:gw0", &[]);
    let on = ["--device", "packet:gw0", "--addr", ADDR];
    let says = "address 10.77.0.2 is in use: another greenwave has it on gw0";
    refused(&ours, &[&["serve"], &on[..]].concat(), says);
    let lib = library::library().to_str().expect("a path of ours is UTF-8");
    refused(&ours, &[&["run"], &on[..], &["--lib", lib, "--", "true"]].concat(), says);
    assert_eq!(get(&clients, 80, "/"), GREETING);
    // After any end of the first one, the next one can begin.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let second = Server::start(&ours, "packet:gw0", &[]);
    assert_eq!(get(&clients, 80, "/"), GREETING);
    second.stop();
}

//~ faults: a server continues on an interface that was down
#[test]
fn an_interface_that_is_down_for_a_while_is_served_on() {
    let Some(netns) = netns_with_tap("an_interface_that_is_down_for_a_while_is_served_on") else { return };
    let server = Server::start(&netns, "tap:gw0", &["--shards", "2"]);
    for _ in 0..3 {
        assert_eq!(get(&netns, 80, "/"), GREETING);
        netns.run("ip", &["link", "set", "gw0", "down"]).unwrap();
        netns.run("ip", &["link", "set", "gw0", "up"]).unwrap();
    }
    assert_eq!(get(&netns, 80, "/"), GREETING);
    server.stop();
}

//~ faults: a removed interface ends `serve` and `run` with a line and exit 2
#[test]
fn an_interface_that_is_taken_away_ends_the_server() {
    let Some(netns) = netns_with_tap("an_interface_that_is_taken_away_ends_the_server") else { return };
    for more in [&[][..], &["--shards", "2"]] {
        let mut server = Server::start(&netns, "tap:gw0", more);
        assert_eq!(get(&netns, 80, "/"), GREETING);
        netns.run("ip", &["link", "delete", "gw0"]).unwrap();
        let (code, _, stderr) = server.ended();
        assert_eq!(code, Some(2), "{stderr}");
        assert!(
            stderr.contains("\nerror: tap:gw0: interface lost: ") && stderr.contains("\n  try: "),
            "{stderr}"
        );
    }
}

//~ faults: a killed `serve` leaves no device, and the next one starts
#[test]
fn a_server_that_is_killed_leaves_no_device() {
    let Some(netns) = netns_with_tap("a_server_that_is_killed_leaves_no_device") else { return };
    for device in ["tap:gw0", "tap:gw0,queues=2"] {
        let mut server = Server::start(&netns, device, &["--shards", "2"]);
        assert_eq!(get(&netns, 80, "/"), GREETING);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        // The next one would be refused if a device of this name were left.
        Server::start(&netns, device, &["--shards", "2"]).stop();
        assert!(!netns.run("ip", &["-brief", "link"]).unwrap().contains("gw0"));
    }
}
