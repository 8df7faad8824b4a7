//! `greenwave guard` in front of a kernel TCP server, between two namespaces: new connections are
//! shed, established ones are not, and nothing is left after any end of its controller.

//~ xdp-guard: attach, detach and status work; a second guard, another XDP program or a missing listener is refused

#![cfg_attr(not(feature = "bpf"), allow(dead_code))]

#[cfg(feature = "bpf")]
#[path = "guard/answer.rs"]
mod answer;
mod common;
#[cfg(feature = "bpf")]
#[path = "guard/overload.rs"]
mod overload;
#[cfg(feature = "bpf")]
#[path = "guard/ports.rs"]
mod ports;
#[cfg(feature = "bpf")]
#[path = "guard/queue_reports.rs"]
mod queue_reports;
#[cfg(feature = "bpf")]
#[path = "guard/reload.rs"]
mod reload;
#[cfg(feature = "bpf")]
#[path = "guard/sandbox.rs"]
mod sandbox;
#[cfg(feature = "bpf")]
#[path = "common/scratch.rs"]
mod scratch;
#[cfg(feature = "bpf")]
#[path = "common/threads.rs"]
mod threads;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::time::Duration;

use netlab::{Child, Namespace, NetLab, Veth};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
const SERVER: ([u8; 4], u16) = ([10, 77, 0, 2], 80);
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);
/// Shorter than the retransmission timeout of a dropped SYN.
const ONE_SYN: Duration = Duration::from_millis(900);

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// A client's namespace, a server's, and the server's listener, from which the test accepts; `None`
/// where there can be none, and `test` is skipped.
struct Rig {
    client: Namespace,
    server: Namespace,
    listener: TcpListener,
}

impl Rig {
    fn new(test: &str) -> Option<Self> {
        let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
        let why = NetLab::unavailable().or_else(|| (!btf).then(|| "the kernel has no BTF".to_owned()));
        if let Some(why) = why {
            skipped(test, &why);
            return None;
        }
        let lab = NetLab::new(test).unwrap();
        let [client, server] = ["client", "server"].map(|name| lab.namespace(name).unwrap());
        lab.veth((&client, "eth0"), (&server, "eth0"), &Veth::default()).unwrap();
        for (namespace, host) in [(&client, 1), (&server, 2)] {
            namespace.address("eth0", IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)), 24).unwrap();
        }
        let listener = server.enter(|| TcpListener::bind("0.0.0.0:80").unwrap());
        Some(Self { client, server, listener })
    }

    fn guard(&self, args: &[&str]) -> Output {
        self.server.command(GREENWAVE).arg("guard").args(args).output().expect("the program starts")
    }

    /// Checks that a command is refused with `says` and advice.
    fn refused(&self, args: &[&str], says: &str) {
        let out = self.guard(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(says), "{says:?} is not in {stderr:?}");
        assert!(stderr.lines().nth(1).is_some_and(|line| line.starts_with("  try: ")), "{stderr}");
    }

    /// A controller whose guard is attached.
    fn attach(&self, more: &[&str]) -> Child {
        let mut command = self.server.command(GREENWAVE);
        command.args(["guard", "attach", "eth0", "--port", "80"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.server.spawn(&mut command).unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("eth0: port 80"), "{line}");
        child
    }

    fn status(&self) -> Value {
        let out = self.guard(&["status", "eth0", "--json"]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    /// The first status for which `is_it` is true.
    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let found = (0..2_000).map(|_| self.status()).find(is_it);
        found.unwrap_or_else(|| panic!("{what}: {}", self.status()))
    }

    /// A connection by a single SYN, if admitted.
    fn connect(&self) -> Option<TcpStream> {
        self.connect_within(ONE_SYN).ok()
    }

    /// A connection by as many SYNs as a client sends in `time`.
    fn connect_within(&self, time: Duration) -> std::io::Result<TcpStream> {
        self.client.enter(|| TcpStream::connect_timeout(&SocketAddr::from(SERVER), time))
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a count"))
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for the end of a controller; returns its output.
fn ended(mut child: Child) -> String {
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(child.wait().unwrap().success(), "{stdout}");
    stdout
}

//~ xdp-guard: new connections are shed while a running download completes
#[cfg(feature = "bpf")]
#[test]
fn new_connections_are_shed_and_a_running_download_completes() {
    let Some(rig) = Rig::new("new_connections_are_shed_and_a_running_download_completes") else { return };
    let controller = rig.attach(&[]);
    let mut download = rig.connect().expect("admitted with an empty queue");
    download.set_read_timeout(Some(LIMIT)).unwrap();
    let (mut upload, _) = rig.listener.accept().unwrap();
    let sent = netlab::client::noise(3_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            upload.write_all(&sent).unwrap();
            drop(upload);
        });
        let mut received = vec![0; 1_000_000];
        download.read_exact(&mut received).unwrap();
        let overload = rig.overload();
        let status = rig.until("the queue is long", |status| number(&status["delay_ns"]) > 20_000_000);
        assert!(number(&status["classes"][0]["shed"]["rate"]) > 0, "{status}");
        assert!(
            number(&status["waiting"]) < number(&status["room"]),
            "the kernel would have let it in: {status}"
        );
        assert_eq!(number(&status["listen_overflows"]), 0, "{status}");
        drop(overload);
        download.read_to_end(&mut received).unwrap();
        assert!(received == sent, "what was established is served");
    });
    let text = String::from_utf8(rig.guard(&["status", "eth0"]).stdout).unwrap();
    assert!(text.contains("queue-delay on port 80") && text.contains("phantom"), "{text}");
    let metrics = String::from_utf8(rig.guard(&["status", "eth0", "--metrics"]).stdout).unwrap();
    assert!(
        metrics.contains("greenwave_guard_shed_total{device=\"eth0\",class=\"0\",reason=\"rate\"} "),
        "{metrics}"
    );
    signal(&controller, Signal::INT);
    assert!(ended(controller).contains("connections seen"));
    rig.refused(&["status", "eth0"], "no guard is attached");
    assert!((0..8).all(|_| rig.connect().is_some()), "all are admitted again");
}

//~ xdp-guard: a killed controller leaves nothing behind; a stalled one admits everything
#[cfg(feature = "bpf")]
#[test]
fn a_killed_controller_leaves_nothing_behind() {
    let Some(rig) = Rig::new("a_killed_controller_leaves_nothing_behind") else { return };
    let mut controller = rig.attach(&[]);
    let overload = rig.overload();
    controller.kill().unwrap();
    controller.wait().unwrap();
    // The kernel releases its resources a little later.
    let gone = (0..2_000).any(|_| !rig.guard(&["status", "eth0"]).status.success());
    assert!(gone, "the program is still there");
    drop(overload);
    let link = rig.server.run("ip", &["link", "show", "dev", "eth0"]).unwrap();
    assert!(!link.contains("xdp"), "{link}");
    assert!((0..8).all(|_| rig.connect().is_some()), "all are admitted again");
    drop(rig.attach(&[]));
}

//~ xdp-guard: a killed controller leaves nothing behind; a stalled one admits everything
#[cfg(feature = "bpf")]
#[test]
fn a_controller_that_hangs_lets_everybody_in() {
    let Some(rig) = Rig::new("a_controller_that_hangs_lets_everybody_in") else { return };
    let controller = rig.attach(&[]);
    let overload = rig.overload();
    signal(&controller, Signal::STOP);
    drop(overload);
    let status = rig.until("it is silent", |status| status["alive"] == false);
    assert!(number(&status["silent_ns"]) > 1_000_000_000, "{status}");
    let _waiting: Vec<_> = (0..8).map(|_| rig.connect().expect("no limit without a controller")).collect();
    assert!(number(&rig.status()["passed_silent"]) >= 8);
    signal(&controller, Signal::CONT);
    rig.until("it looks again", |status| status["alive"] == true);
    let _overload = rig.overload();
    assert!((0..64).any(|_| rig.connect().is_none()), "and holds to a limit");
}

//~ cli: a guard or device removed by another program is a failure, one's own detach is not
//~ faults: a second guard, scheduler, egress attachment or view is refused and changes nothing
#[cfg(feature = "bpf")]
#[test]
fn a_second_guard_is_refused_and_the_first_can_be_taken_off() {
    let Some(rig) = Rig::new("a_second_guard_is_refused_and_the_first_can_be_taken_off") else { return };
    let controller = rig.attach(&["--class", "10.9.0.0/16,port:80", "--class", "fd00::/8"]);
    let classes = rig.status()["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["who"].clone())
        .collect::<Vec<_>>();
    assert_eq!(classes, ["10.9.0.0/16,port:80", "fd00::/8", "all others"]);
    rig.refused(
        &["attach", "eth0", "--port", "80"],
        "a guard is already attached: queue-delay on port 80, by process",
    );
    assert!(rig.guard(&["detach", "eth0"]).status.success());
    assert!(ended(controller).contains(": detached by greenwave guard detach; "));
    rig.refused(&["detach", "eth0"], "no guard is attached");
}

//~ xdp-guard: a dry run counts; connections by SYN cookies count like others
#[cfg(feature = "bpf")]
#[test]
fn a_dry_run_counts_whom_it_would_have_shed() {
    let Some(rig) = Rig::new("a_dry_run_counts_whom_it_would_have_shed") else { return };
    let controller = rig.attach(&["--dry-run"]);
    let overload = rig.overload();
    assert!((0..20).all(|_| rig.connect().is_some()), "nothing is shed");
    let status = rig.status();
    drop(overload);
    assert!(number(&status["shed"]) > 0 && status["dry_run"] == true, "{status}");
    signal(&controller, Signal::TERM);
    assert!(ended(controller).contains("would have been shed"));
}

//~ xdp-guard: the kernel's drops at listeners count since the attach
#[cfg(feature = "bpf")]
#[test]
fn drops_before_the_attach_do_not_count() {
    let Some(rig) = Rig::new("drops_before_the_attach_do_not_count") else { return };
    rustix::net::listen(&rig.listener, 1).unwrap();
    let waiting: Vec<_> = (0..2).map(|_| rig.connect().expect("there is room")).collect();
    assert!(rig.connect().is_none(), "the accept queue is full");
    let netstat = rig.server.enter(|| std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let lines: Vec<Vec<&str>> = netstat.lines().map(|line| line.split(' ').collect()).collect();
    let at = lines[0].iter().position(|&name| name == "ListenOverflows").expect("the kernel counts them");
    assert_ne!(lines[1][at], "0", "one was dropped");
    let controller = rig.attach(&[]);
    let status = rig.until("it reads", |status| status["waiting"] == 2);
    assert_eq!((&status["listen_overflows"], &status["listen_drops"]), (&0.into(), &0.into()), "{status}");
    signal(&controller, Signal::INT);
    ended(controller);
    drop(waiting);
}

//~ xdp-guard: a shed client receives a valid RST if configured
#[cfg(feature = "bpf")]
#[test]
fn a_shed_connection_gets_a_reset_on_request() {
    let Some(rig) = Rig::new("a_shed_connection_gets_a_reset_on_request") else { return };
    // No other traffic arrives that would wake it.
    for namespace in [&rig.client, &rig.server] {
        namespace.sysctl("net.ipv6.conf.all.disable_ipv6", "1").unwrap();
    }
    for (mode, gro) in [("", "off"), ("", "on"), ("drv", "on"), ("skb", "off")] {
        rig.client.run("ethtool", &["--offload", "eth0", "gro", gro]).unwrap();
        let flags = ["--reject", "reset", "--mode", mode];
        let controller = rig.attach(if mode.is_empty() { &flags[..2] } else { &flags });
        let _overload = rig.overload();
        let status = rig.status();
        assert_eq!(status["refusal"], "reset");
        // Frames that a veth returns in the driver arrive only if the peer polls, as with GRO.
        let warnings = status["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), usize::from(mode == "drv"), "{mode}: {warnings:?}");
        // A client without an answer retries, and is not refused.
        let outcomes: Vec<_> = (0..32).map(|_| rig.connect_within(LIMIT).err().map(|e| e.kind())).collect();
        assert!(outcomes.contains(&Some(std::io::ErrorKind::ConnectionRefused)), "{mode}: {outcomes:?}");
        signal(&controller, Signal::INT);
        ended(controller);
    }
}

//~ xdp-guard: the oldest wait is measured per listener, also with SO_REUSEPORT
#[cfg(feature = "bpf")]
#[test]
fn every_policy_holds_at_any_period_and_says_which_listener_is_late() {
    let test = "every_policy_holds_at_any_period_and_says_which_listener_is_late";
    let Some(rig) = Rig::new(test) else { return };
    let _other = rig.server.enter(|| TcpListener::bind("0.0.0.0:81").unwrap());
    let _waits = rig.connect().expect("there is no guard");
    for (policy, period) in guard::POLICIES.map(|(name, _)| name).into_iter().zip(["1ms", "200ms"].repeat(3))
    {
        let controller =
            rig.attach(&["--port", "81", "--policy", policy, "--interval", period, "--target-delay", "10s"]);
        let status = rig.until("it looks", |status| {
            let late = &status["queues"][0];
            late["port"] == 80 && number(&late["waiting"]) == 1 && number(&late["delay_ns"]) > 1_000_000
        });
        assert_eq!(
            (&status["policy"], &status["queues"][1]["port"]),
            (&policy.into(), &81.into()),
            "{status}"
        );
        rig.connect().expect("one waiting connection is no overload");
        drop(rig.listener.accept().unwrap());
        signal(&controller, Signal::INT);
        assert!(ended(controller).contains("1 connections seen, 0 shed"));
    }
}

//~ xdp-guard: a dry run counts; connections by SYN cookies count like others
#[cfg(feature = "bpf")]
#[test]
fn connections_by_syn_cookies_are_seen_and_served_like_others() {
    let Some(rig) = Rig::new("connections_by_syn_cookies_are_seen_and_served_like_others") else { return };
    rig.server.sysctl("net.ipv4.tcp_syncookies", "2").unwrap();
    let _controller = rig.attach(&["--target-delay", "10s"]);
    let streams: Vec<_> = (0..5).map(|_| rig.connect().expect("no connection waits for 10 s")).collect();
    let status = rig.until("all wait", |status| number(&status["waiting"]) == 5);
    assert_eq!((number(&status["seen"]), number(&status["served"])), (5, 0), "{status}");
    let _accepted: Vec<_> = streams.iter().map(|_| rig.listener.accept().unwrap()).collect();
    rig.until("all are served", |status| number(&status["served"]) == 5 && number(&status["delay_ns"]) == 0);
}

//~ faults: another XDP program keeps its place
#[cfg(feature = "bpf")]
#[test]
fn another_program_keeps_its_place_and_a_driver_without_says_so() {
    let test = "another_program_keeps_its_place_and_a_driver_without_says_so";
    let Some(rig) = Rig::new(test) else { return };
    let other = rig.server.enter(|| {
        let (options, claims) = (drivers::afxdp::Options::default(), drivers::afxdp::Claims::default());
        drivers::afxdp::open("eth0", &options, &claims).unwrap()
    });
    for mode in ["drv", "skb"] {
        let args = ["attach", "eth0", "--port", "80", "--mode", mode];
        rig.refused(&args, "an XDP program is already attached: id ");
    }
    rig.refused(&["detach", "eth0"], "no guard is attached");
    rig.refused(&["status", "eth0"], "no guard is attached");
    drop(other);
    // A kernel has one or the other of these.
    let made = ["dummy", "bridge", "ifb"]
        .map(|kind| rig.server.run("ip", &["link", "add", "gw0", "type", kind]).is_ok());
    assert!(made.contains(&true), "a device without native XDP");
    rig.server.up("gw0").unwrap();
    let out = rig.guard(&["attach", "gw0", "--port", "80"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("native XDP") && stderr.contains("try: guard attach gw0 --mode skb"), "{stderr}");
    drop(rig.attach(&["--mode", "skb"]));
}

#[test]
fn what_cannot_be_guarded_is_said_with_what_could() {
    let check = |args: &[&str], says: &str| {
        let out = common::greenwave(&[&["guard"], args].concat());
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("\n  try: "), "{says:?} is not in {stderr:?}");
    };
    let attach = |args: &[&'static str]| [&["attach", "lo"], args].concat();
    check(&attach(&["--port", "80", "--policy", "luck"]), "luck");
    check(&attach(&["--port", "80", "--interval", "0s"]), "interval 0 ns is outside 1.00 ms..=");
    check(&attach(&["--port", "80", "--class", "10.0.0.0/40"]), "prefix 40 is outside 0..=32");
    check(&attach(&["--port", "80", "--class", "port:81"]), "a class has port 81, and only 80 is guarded");
    check(
        &attach(&["--port", "80", "--queue-report", "81=/dev/null"]),
        "a queue report has port 81, and only 80 is guarded",
    );
    check(&attach(&["--port", "0"]), "0 is not in 1..");
    check(&attach(&[]), "lo is not an Ethernet interface");
    check(&attach(&["--port", "80", "--mode", "hw"]), "hw");
    check(&attach(&["--port", "80", "--reject", "shout"]), "shout");
    check(&attach(&["--port", "80"]), "lo is not an Ethernet interface");
    check(&["attach", "no-such-device", "--port", "80"], "there is no network interface \"no-such-device\"");
    for what in ["status", "detach"] {
        if rustix::process::geteuid().is_root() {
            check(&[what, "no-such-device"], "there is no network interface \"no-such-device\"");
        } else {
            check(&[what, "no-such-device"], "the guard needs CAP_BPF");
        }
    }
}

#[cfg(feature = "bpf")]
#[test]
fn missing_privileges_are_named() {
    let Some(rig) = Rig::new("missing_privileges_are_named") else { return };
    let mut command = rig.server.command("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", GREENWAVE]);
    let out = command.args(["guard", "attach", "eth0", "--port", "80"]).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("CAP_BPF") && stderr.ends_with("  try: run as root\n"), "{stderr}");
}

#[cfg(feature = "bpf")]
#[test]
fn a_port_without_a_listener_is_refused_with_those_that_have_one() {
    let Some(rig) = Rig::new("a_port_without_a_listener_is_refused_with_those_that_have_one") else { return };
    rig.refused(&["attach", "eth0", "--port", "81"], "no listener on TCP port 81");
    let stderr = String::from_utf8(rig.guard(&["attach", "eth0", "--port", "81"]).stderr).unwrap();
    assert!(stderr.contains("try: start the server first, or --port 80"), "{stderr}");
}

#[cfg(not(feature = "bpf"))]
#[test]
fn a_greenwave_without_its_programs_says_what_to_install() {
    let Some(rig) = Rig::new("a_greenwave_without_its_programs_says_what_to_install") else { return };
    rig.refused(&["attach", "eth0", "--port", "80"], "this greenwave was built without BPF programs");
    let stderr = String::from_utf8(rig.guard(&["attach", "eth0", "--port", "80"]).stderr).unwrap();
    assert!(stderr.contains("try: apt-get install clang libelf-dev"), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}
