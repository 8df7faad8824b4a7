//! Common programs: `curl`, `wrk` and `nc` against `greenwave serve`, and `iperf3` through a relay
//! on our stack.

//~ interop: curl, wrk, nc and iperf3 work against the stack

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use net::device::fault_injector::Rates;
use net::{ConnId, Event, EventKind, Stack};
use netlab::{Child, Namespace, is_installed};
use queueing::Time;

use crate::greenwave_host::{Host, PORT};
use crate::port::Kind;
use crate::world::{KERNEL, OURS, World, lab, noise, same, skipped};

/// Our IPv6 address in these tests.
const OURS6: &str = "fd77::2";

/// `greenwave serve` on a TAP device in `netns`, once it listens.
fn serve(netns: &Namespace, app: &str, more: &[&str]) -> Child {
    let mut command = netns.command(env!("CARGO_BIN_EXE_greenwave"));
    let addr = format!("{OURS}/24,{OURS6}/64");
    command.args(["serve", "--device", "tap:gw0", "--addr", &addr, "--app", app]).args(more);
    let mut server = netns.spawn(command.stdout(Stdio::piped()).stderr(Stdio::null())).expect("it starts");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("stdout is a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("stdout is text");
    assert!(line.starts_with("listening on"), "{line:?}");
    server
}

/// The output of `program` in `netns` with `input` on stdin; it must succeed.
fn output(netns: &Namespace, program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = netns.command(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program is there");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let out = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).expect("the program reads all"));
        child.wait_with_output().expect("the program ends")
    });
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// The namespace for a test that needs these programs.
fn with_programs(test: &str, programs: &[&str]) -> Option<Namespace> {
    if let Some(program) = programs.iter().find(|program| !is_installed(program)) {
        skipped(test, &format!("{program} is not there"));
        return None;
    }
    Some(lab(test)?.namespace("kernel").expect("the test network is available"))
}

#[test]
fn curl_gets_and_posts_and_wrk_sees_no_errors() {
    let Some(netns) = with_programs("curl_gets_and_posts_and_wrk_sees_no_errors", &["curl", "wrk"]) else {
        return;
    };
    let _server = serve(&netns, "http", &[]);
    let curl = |args: &[&str], input: &[u8]| {
        output(
            &netns,
            "curl",
            &[&["--silent", "--show-error", "--fail", "--max-time", "30"], args].concat(),
            input,
        )
    };
    let url = format!("http://{OURS}/");
    let url6 = format!("http://[{OURS6}]/bytes/3000000");
    same("three megabytes by IPv6", &curl(&["-6", &url6], b""), &[b'x'; 3_000_000]);
    same("eight megabytes", &curl(&[&format!("{url}bytes/8388608")], b""), &[b'x'; 8 << 20]);
    let body = noise(100_000, 3);
    let post = ["--data-binary", "@-", "--header", "Expect:", &url];
    same("what was posted", &curl(&post, &body), &body);
    let wrk = ["--threads", "1", "--connections", "100", "--duration", "1s", "--timeout", "30s", &url];
    let text = output(&netns, "wrk", &wrk, b"");
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("requests in"), "{text}");
    assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
}

#[test]
fn what_nc_sends_comes_back_to_it() {
    let Some(netns) = with_programs("what_nc_sends_comes_back_to_it", &["nc"]) else { return };
    let server = serve(&netns, "echo", &[]);
    let sent = noise(4 << 20, 4);
    // -N: close our half at the end of the input.
    same("the echo", &output(&netns, "nc", &["-N", &OURS.to_string(), "80"], &sent), &sent);
    same("the echo by IPv6", &output(&netns, "nc", &["-6", "-N", OURS6, "80"], &sent), &sent);
    drop(server);
    let _server = serve(&netns, "echo", &["--proto", "udp"]);
    for (family, addr) in [("-4", OURS.to_string()), ("-6", OURS6.to_owned())] {
        // -W: end after one received datagram.
        let args = [family, "-u", "-W", "1", &addr, "80"];
        same("a datagram", &output(&netns, "nc", &args, &sent[..1000]), &sent[..1000]);
    }
}

/// A relay between pairs of connections, each at the speed of the slower end: a connection to us is
/// forwarded to `target`.
struct Relay {
    target: SocketAddr,
    other: BTreeMap<ConnId, ConnId>,
    /// Connections whose peer has closed its half.
    ended: BTreeMap<ConnId, ()>,
}

impl Relay {
    fn on_event(&mut self, stack: &mut Stack, now: Time, event: Event) {
        let id = event.conn;
        match event.kind {
            EventKind::Accepted(_) => {
                let on = stack.connect(now, self.target, None).expect("a port is free");
                self.other.insert(id, on);
                self.other.insert(on, id);
            }
            EventKind::PeerClosed => drop(self.ended.insert(id, ())),
            EventKind::Closed(_) => {
                if let Some(other) = self.other.remove(&id) {
                    self.other.remove(&other);
                    stack.close(now, other);
                }
            }
            EventKind::Connected | EventKind::Readable { .. } | EventKind::Writable => {}
        }
        if let Some(&other) = self.other.get(&id) {
            self.carry(stack, now, id, other);
            self.carry(stack, now, other, id);
        }
    }

    fn carry(&mut self, stack: &mut Stack, now: Time, from: ConnId, to: ConnId) {
        loop {
            let bytes = stack.received(from);
            if bytes.is_empty() {
                break;
            }
            let bytes = bytes.to_vec();
            let Ok(taken @ 1..) = stack.send(now, to, &bytes) else { return };
            stack.consume(now, from, taken);
        }
        if self.ended.remove(&from).is_some() {
            stack.close(now, to);
        }
    }
}

#[test]
fn iperf3_runs_both_ways_through_a_relay() {
    let test = "iperf3_runs_both_ways_through_a_relay";
    if !is_installed("iperf3") {
        return skipped(test, "iperf3 is not there");
    }
    let Some((mut host, netns)) = World::bare(test, Kind::Tap, Rates::NONE, |_| {}) else { return };
    host.listen(PORT);
    let mut server = netns.command("iperf3");
    server.args(["--server", "--forceflush", "--bind", &KERNEL.to_string()]).stdout(Stdio::piped());
    let mut server = netns.spawn(&mut server).expect("it is there");
    let stdout = BufReader::new(server.stdout.take().expect("stdout is a pipe"));
    // A thread that waits for a line cannot drive the relay.
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut relay = Relay {
        target: SocketAddr::new(KERNEL.into(), 5201),
        other: BTreeMap::new(),
        ended: BTreeMap::new(),
    };
    for options in [&[][..], &["--reverse"], &["--parallel", "4"]] {
        let (ours, port) = (OURS.to_string(), PORT.to_string());
        let args = ["--client", &ours, "--port", &port, "--time", "1", "--json"];
        let args = [&args, options].concat();
        wait_until_it_listens(&mut host, &mut relay, &lines);
        let report = run(&mut host, &mut relay, &netns, &args);
        let end = &report["end"];
        // Bytes that both ends report; they stop counting at slightly different times.
        let received = end["sum_received"]["bytes"].as_u64().unwrap_or_default();
        assert!(report["error"].is_null() && received > 1 << 16, "{options:?}: {report}");
    }
}

/// Drives the relay until `iperf3 --server` listens. It listens again for each client once the end
/// of the one before has come through the relay; until then it refuses others.
fn wait_until_it_listens(host: &mut Host, relay: &mut Relay, lines: &Receiver<String>) {
    let start = Instant::now();
    loop {
        match lines.try_recv() {
            Ok(line) if line.contains("listening") => return,
            Ok(_) => {}
            Err(TryRecvError::Empty) => host.turn(|stack, now, event| relay.on_event(stack, now, event)),
            Err(TryRecvError::Disconnected) => panic!("the server ended before it listened"),
        }
        assert!(start.elapsed() < Duration::from_secs(40), "the server does not listen");
    }
}

/// Runs `iperf3` in `netns` while the relay works.
fn run(host: &mut Host, relay: &mut Relay, netns: &Namespace, args: &[&str]) -> serde_json::Value {
    std::thread::scope(|scope| {
        let client = scope.spawn(|| output(netns, "iperf3", args, b""));
        while !client.is_finished() {
            host.turn(|stack, now, event| relay.on_event(stack, now, event));
        }
        let out = client.join().expect("iperf3 succeeds");
        serde_json::from_slice(&out).expect("--json prints JSON")
    })
}
