//! `greenwave egress` on veths between namespaces: the attached qdiscs level real traffic, and the
//! previous ones are restored, after any kind of end.

mod order;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use netlab::{self, Namespace, NetLab, Veth};
use serde_json::Value;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// Two namespaces connected by their `eth0`; `None` where there can be none, and `test` is skipped.
fn pair(test: &str) -> Option<[Namespace; 2]> {
    let why =
        NetLab::unavailable().or_else(|| (!netlab::is_installed("tc")).then(|| "tc is not there".to_owned()));
    if let Some(why) = why {
        skipped(test, &why);
        return None;
    }
    let lab = NetLab::new(test).unwrap();
    let [a, b] = ["a", "b"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&a, "eth0"), (&b, "eth0"), &Veth::default()).unwrap();
    for (namespace, host) in [(&a, 1), (&b, 2)] {
        namespace.address("eth0", IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)), 24).unwrap();
    }
    Some([a, b])
}

fn fabric(namespace: &Namespace, args: &[&str]) -> Output {
    namespace.command(GREENWAVE).arg("egress").args(args).output().expect("the program starts")
}

/// Runs a command that must succeed; returns its output.
fn done(namespace: &Namespace, args: &[&str]) -> String {
    let out = fabric(namespace, args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {stderr}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Checks that a command is refused with `says` and advice.
fn refused(namespace: &Namespace, args: &[&str], says: &str) {
    let out = fabric(namespace, args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(says), "{says:?} is not in {stderr:?}");
    assert!(stderr.lines().nth(1).is_some_and(|line| line.starts_with("  try: ")), "{stderr}");
}

/// All traffic control of an interface, as `tc` shows it.
fn shown(namespace: &Namespace) -> String {
    let show = |args: &[&str]| namespace.run("tc", args).unwrap();
    let qdiscs = show(&["qdisc", "show", "dev", "eth0"]);
    let has_clsact = qdiscs.contains("clsact");
    let filters =
        |side| if has_clsact { show(&["filter", "show", "dev", "eth0", side]) } else { String::new() };
    [qdiscs, show(&["class", "show", "dev", "eth0"]), filters("egress"), filters("ingress")].concat()
}

const ATTACH: [&str; 4] = ["attach", "eth0", "--rate", "50mbit"];

/// Sends `len` bytes from `a` to `b` over `port`, and waits until all have arrived.
fn transfer([a, b]: &[Namespace; 2], len: usize, set: impl FnOnce(&TcpStream) + Send) {
    let listener = b.enter(|| TcpListener::bind("10.77.0.2:0").unwrap());
    let target = listener.local_addr().unwrap();
    let mut stream = a.enter(|| TcpStream::connect_timeout(&target, Duration::from_secs(60)).unwrap());
    set(&stream);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received.len()
        });
        stream.write_all(&vec![7; len]).unwrap();
        drop(stream);
        assert_eq!(receiver.join().unwrap(), len);
    });
}

fn status(namespace: &Namespace) -> Value {
    serde_json::from_str(&done(namespace, &["status", "eth0", "--json"])).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a count"))
}

/// Counters of each level: arrived, and sent + dropped + queued.
fn balance(status: &Value) -> Vec<[u64; 2]> {
    let levels = status["levels"].as_array().unwrap().iter();
    let gone = |level: &Value| {
        number(&level["sent"]["packets"]) + number(&level["dropped"]) + number(&level["waiting"]["packets"])
    };
    levels.map(|level| [number(&level["came"]["packets"]), gone(level)]).collect()
}

/// A policy file with `text`.
struct PolicyFile(PathBuf);

impl PolicyFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("greenwave-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

//~ egress: every packet of real traffic is counted at its level and sent, dropped or queued
#[test]
fn every_packet_is_counted_at_its_level_and_sent_dropped_or_waiting() {
    let Some(pair) = pair("every_packet_is_counted_at_its_level_and_sent_dropped_or_waiting") else { return };
    let policy =
        PolicyFile::new("levels", "thresholds = [100000, 400000]\nbuckets = 4\nqueue = 400\nidle = \"600s\"");
    let stdout = done(&pair[0], &[&ATTACH[..], &["--policy", policy.path()]].concat());
    assert!(stdout.contains("3 levels of"), "{stdout}");
    let before = balance(&status(&pair[0]));
    transfer(&pair, 1_000_000, |_| ());
    // The last acknowledgements may still be in flight.
    let settled = (0..200).map(|_| status(&pair[0])).find(|now| {
        let now = balance(now);
        now.iter().zip(&before).all(|(now, before)| now[0] - before[0] == now[1] - before[1])
    });
    let status = settled.expect("what came is sent, dropped or waiting");
    let bytes: Vec<u64> = (0..3).map(|at| number(&status["levels"][at]["came"]["bytes"])).collect();
    // A threshold is exceeded by the packet that crosses it, 64 KB at most, and by other packets of
    // the host.
    assert!((100_000..=170_000).contains(&bytes[0]), "{bytes:?}");
    assert!((400_000..=470_000).contains(&(bytes[0] + bytes[1])), "{bytes:?}");
    assert!(bytes.iter().sum::<u64>() > 1_000_000, "{bytes:?}");
    assert_eq!(number(&status["levels"][2]["flows"]), 1, "{status}");
    let text = done(&pair[0], &["status", "eth0"]);
    assert!(text.contains("at 50mbit, by ") && text.contains("level"), "{text}");
    done(&pair[0], &["detach", "eth0"]);
}

//~ egress: senders can pin the level of their packets; a paused flow starts again at the top
#[test]
fn a_sender_can_say_the_level_of_its_packets() {
    let Some(pair) = pair("a_sender_can_say_the_level_of_its_packets") else { return };
    let text = "thresholds = [1000, 5000]\nbuckets = 2\n[pin]\ndscp = { 46 = 1 }";
    let policy = PolicyFile::new("pinned", text);
    done(&pair[0], &[&ATTACH[..], &["--policy", policy.path()]].concat());
    // DSCP 46, above the two ECN bits.
    transfer(&pair, 300_000, |stream| rustix::net::sockopt::set_ip_tos(stream, 46 << 2).unwrap());
    let status = status(&pair[0]);
    assert!(number(&status["pinned"]["bytes"]) > 300_000, "{status}");
    assert!(number(&status["levels"][1]["came"]["bytes"]) > 300_000, "{status}");
    assert_eq!(number(&status["levels"][2]["came"]["packets"]), 0, "{status}");
}

//~ egress: detach restores the previous qdiscs; a second attach is refused
#[test]
fn detach_puts_back_what_was_there() {
    let Some([a, _b]) = pair("detach_puts_back_what_was_there") else { return };
    let check = |set_up: &[&[&str]]| {
        set_up.iter().for_each(|args| drop(a.run("tc", args).unwrap()));
        let before = shown(&a);
        for policy in ["fish", "pias", "fifo"] {
            done(&a, &[&ATTACH[..], &["--policy", policy]].concat());
            assert_ne!(shown(&a), before);
            done(&a, &["detach", "eth0"]);
            assert_eq!(shown(&a), before, "{policy}");
        }
        refused(&a, &["detach", "eth0"], "no greenwave policy is attached");
        refused(&a, &["status", "eth0"], "no greenwave policy is attached");
    };
    check(&[]);
    check(&[&["qdisc", "add", "dev", "eth0", "root", "handle", "5:", "pfifo", "limit", "77"]]);
    let tbf = ["rate", "10mbit", "burst", "32k", "latency", "50ms"];
    check(&[&[&["qdisc", "replace", "dev", "eth0", "root", "handle", "6:", "tbf"][..], &tbf].concat()]);
    // A foreign clsact and filter stay.
    check(&[
        &["qdisc", "add", "dev", "eth0", "clsact"],
        &[
            "filter",
            "add",
            "dev",
            "eth0",
            "egress",
            "pref",
            "9",
            "bpf",
            "da",
            "bytecode",
            "1,6 0 0 4294967295",
        ],
    ]);
}

/// `gso_max_size` of the interface.
fn gso_max_size(namespace: &Namespace) -> u64 {
    let text = namespace.run("ip", &["-d", "-j", "link", "show", "dev", "eth0"]).unwrap();
    number(&serde_json::from_str::<Value>(&text).unwrap()[0]["gso_max_size"])
}

//~ egress: attach lowers the size of the kernel's packets at low rates, says so, and detach restores it
#[test]
fn the_size_of_packets_is_lowered_at_low_rates_and_restored() {
    let Some([a, _b]) = pair("the_size_of_packets_is_lowered_at_low_rates_and_restored") else { return };
    let before = gso_max_size(&a);
    let stdout = done(&a, &["attach", "eth0", "--rate", "100mbit"]);
    assert!(stdout.contains(&format!("gso_max_size {before} -> 3028 until detach")), "{stdout}");
    assert_eq!(gso_max_size(&a), 3_028);
    assert_eq!(number(&status(&a)["quantum_bytes"]), 3_406);
    done(&a, &["detach", "eth0"]);
    assert_eq!(gso_max_size(&a), before);
    done(&a, &["attach", "eth0", "--rate", "10gbit"]);
    assert_eq!(gso_max_size(&a), before, "a packet of 64 KB takes less than 0.1 ms");
    done(&a, &["detach", "eth0"]);
    // The administrator's change stays.
    done(&a, &["attach", "eth0", "--rate", "100mbit"]);
    a.run("ip", &["link", "set", "dev", "eth0", "gso_max_size", "30000"]).unwrap();
    done(&a, &["detach", "eth0"]);
    assert_eq!(gso_max_size(&a), 30_000);
}

//~ egress: status warns when all traffic is on one level and when nothing ever waits
#[test]
fn status_warns_of_levels_without_effect() {
    let Some(pair) = pair("status_warns_of_levels_without_effect") else { return };
    let kinds = |thresholds: &str, rate: &str| {
        let text = format!("thresholds = [{thresholds}]\nbuckets = 4\nidle = \"60s\"");
        let policy = PolicyFile::new("warned", &text);
        done(&pair[0], &["attach", "eth0", "--rate", rate, "--policy", policy.path()]);
        transfer(&pair, 4_000_000, |_| ());
        let status = status(&pair[0]);
        done(&pair[0], &["detach", "eth0"]);
        let warnings = status["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("100000000", "1tbit"), ["one-level", "never-waits"]);
    assert_eq!(kinds("1000000", "50mbit"), [""; 0]);
}

/// A filter that passes every packet on, with `preference`.
fn add_filter(namespace: &Namespace, preference: &str, code: &str) {
    let args = ["filter", "add", "dev", "eth0", "egress", "pref", preference, "bpf", "da", "bytecode", code];
    namespace.run("tc", &args).unwrap();
}

//~ egress: attach runs first among the filters at the egress or refuses; status warns of packets that it did not see
#[test]
fn the_classifier_runs_first_or_status_warns() {
    let Some(pair) = pair("the_classifier_runs_first_or_status_warns") else { return };
    let a = &pair[0];
    let warns = |kind: &str| {
        let status = status(a);
        let warnings = status["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning["kind"] == kind)
    };
    // TC_ACT_OK, which ends the classification.
    let ends = "1,6 0 0 0";
    a.run("tc", &["qdisc", "add", "dev", "eth0", "clsact"]).unwrap();
    add_filter(a, "9", ends);
    done(a, &ATTACH);
    transfer(&pair, 100_000, |_| ());
    assert!(!warns("unseen"), "ours has preference 8");
    let arrived = number(&status(a)["levels"][0]["came"]["bytes"]);
    assert!(arrived > 100_000, "{arrived}");
    add_filter(a, "3", ends);
    transfer(&pair, 100_000, |_| ());
    assert!(warns("unseen"));
    let unseen = number(&status(a)["unseen"]["bytes"]);
    assert!(unseen > 100_000, "{unseen}");
    let text = done(a, &["status", "eth0"]);
    assert!(text.contains("warning: ") && text.contains("a filter of preference 3"), "{text}");
    done(a, &["detach", "eth0"]);
    add_filter(a, "1", ends);
    refused(a, &ATTACH, "a filter of preference 1 runs first at the egress");
}

//~ egress: detach restores the previous qdiscs; a second attach is refused
#[test]
fn what_cannot_be_put_back_is_not_taken_down() {
    let Some([a, _b]) = pair("what_cannot_be_put_back_is_not_taken_down") else { return };
    a.run("tc", &["qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb", "default", "1"]).unwrap();
    a.run("tc", &["class", "add", "dev", "eth0", "parent", "7:", "classid", "7:1", "htb", "rate", "1mbit"])
        .unwrap();
    let before = shown(&a);
    refused(&a, &ATTACH, "detach could not restore the root qdisc htb 7:: ");
    assert_eq!(shown(&a), before);
}

//~ egress: detach restores the previous qdiscs; a second attach is refused
//~ faults: a second guard, scheduler, egress attachment or view is refused and changes nothing
#[test]
fn a_second_attach_is_refused_and_changes_nothing() {
    let Some([a, _b]) = pair("a_second_attach_is_refused_and_changes_nothing") else { return };
    done(&a, &ATTACH);
    let before = shown(&a);
    refused(&a, &[&ATTACH[..], &["--policy", "pias"]].concat(), "already attached: fish at 50mbit");
    assert_eq!(shown(&a), before);
    done(&a, &["detach", "eth0"]);
}

/// A folder with a wrapper of `tc`, for the start of PATH.
struct FalseTc(PathBuf);

impl FalseTc {
    /// Runs `script` first, then the real `tc`.
    fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("greenwave-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let tc = folder.join("tc");
        std::fs::write(&tc, format!("#!/bin/sh\nPATH='{path}'\n{script}\nexec tc \"$@\"\n")).unwrap();
        std::fs::set_permissions(&tc, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// As [`fabric`], with this `tc`, whose script gets `number`.
    fn fabric(&self, namespace: &Namespace, args: &[&str], number: usize) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = namespace.command(GREENWAVE);
        command.arg("egress").args(args).env("PATH", format!("{}:{path}", self.0.display()));
        command.env("NUMBER", number.to_string()).env("FOLDER", &self.0);
        command.output().expect("the program starts")
    }
}

impl Drop for FalseTc {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//~ egress: attach and detach killed at any step leave what detach restores
#[test]
fn killed_at_any_step_attach_and_detach_leave_what_detach_takes_away() {
    let test = "killed_at_any_step_attach_and_detach_leave_what_detach_takes_away";
    let Some([a, _b]) = pair(test) else { return };
    a.run("tc", &["qdisc", "add", "dev", "eth0", "root", "handle", "5:", "pfifo", "limit", "77"]).unwrap();
    let before = shown(&a);
    // Call NUMBER kills its caller; a batch of lines halfway.
    let tc = FalseTc::new(
        "killed",
        "echo >>\"$FOLDER/calls\"; [ \"$(wc -l <\"$FOLDER/calls\")\" -ne \"$NUMBER\" ] || {
            [ \"$1\" != -batch ] || head -n 5 | tc -batch -
            kill -9 $PPID; exit 1; }",
    );
    let killed = |args: &[&str], call: usize| {
        let _ = std::fs::remove_file(tc.0.join("calls"));
        let out = tc.fabric(&a, args, call);
        assert!(out.status.success() || out.status.code().is_none(), "{args:?}, call {call}: {out:?}");
        !out.status.success()
    };
    let mut calls = [0, 0];
    while killed(&ATTACH, calls[0] + 1) {
        calls[0] += 1;
        let out = fabric(&a, &["detach", "eth0"]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() || stderr.contains("no greenwave policy"),
            "call {}: {stderr}",
            calls[0]
        );
        assert_eq!(shown(&a), before, "attach killed at call {}: {stderr}", calls[0]);
    }
    while killed(&["detach", "eth0"], calls[1] + 1) {
        calls[1] += 1;
        let out = fabric(&a, &["detach", "eth0"]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() || stderr.contains("no greenwave policy"),
            "call {}: {stderr}",
            calls[1]
        );
        assert_eq!(shown(&a), before, "detach killed at call {}: {stderr}", calls[1]);
        done(&a, &ATTACH);
    }
    assert_eq!(shown(&a), before);
    // Calls to look, to try kinds of qdisc and the previous ones, and to attach; to look, and two
    // to undo.
    assert!(calls[0] > 5 && calls[1] >= 4, "{calls:?}");
}

//~ egress: attach and detach killed at any step leave what detach restores
#[test]
fn an_attach_that_fails_half_way_leaves_nothing() {
    let Some([a, _b]) = pair("an_attach_that_fails_half_way_leaves_nothing") else { return };
    let before = shown(&a);
    // Accepts NUMBER lines of a batch and fails at the next.
    let tc = FalseTc::new(
        "choking",
        "[ \"$1\" != -batch ] || {
            cat >\"$FOLDER/lines\"
            if [ \"$(wc -l <\"$FOLDER/lines\")\" -gt 3 ]; then
                head -n \"$NUMBER\" \"$FOLDER/lines\" >\"$FOLDER/some\"
                echo 'qdisc add dev eth0 parent fab:fff nonsense' >>\"$FOLDER/some\"
                exec tc -batch - <\"$FOLDER/some\"
            fi
            exec tc -batch - <\"$FOLDER/lines\"
        }",
    );
    for good in [1, 2, 7, 100] {
        let out = tc.fabric(&a, &ATTACH, good);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with("error: tc ") && stderr.contains("not found"), "tc's own words: {stderr}");
        assert_eq!(shown(&a), before, "after {good} lines: {stderr}");
    }
}

//~ egress: invalid policies and rates are refused with value and remedy
#[test]
fn what_cannot_be_attached_is_said_with_what_could() {
    let egress = |args: &[&str]| Command::new(GREENWAVE).arg("egress").args(args).output().unwrap();
    let check = |args: &[&str], says: &str| {
        let out = egress(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("\n  try: "), "{says:?} is not in {stderr:?}");
    };
    check(
        &["attach", "no-such-device", "--rate", "1gbit"],
        "there is no network interface \"no-such-device\"",
    );
    check(&["attach", "lo", "--rate", "1gbit"], "lo is not an Ethernet interface");
    check(&["attach", "lo", "--rate", "0gbit"], "\"0gbit\" is not a number above 0");
    check(&["attach", "lo", "--rate", "1kbit"], "rate 1kbit is outside 1mbit..=1tbit");
    check(&["attach", "lo"], "--rate");
    check(&["attach", "lo", "--rate", "1gbit", "--policy", "no/such.toml"], "no/such.toml: No such file");
    let policy = PolicyFile::new("wrong", "thresholds = [5000, 1000]\nbuckets = 2");
    check(&["attach", "lo", "--rate", "1gbit", "--policy", policy.path()], "threshold 1000 is not above");
    check(&["detach", "no-such-device"], "no-such-device");
    check(&["status", "no-such-device"], "no-such-device");
    for name in ["fish", "pias", "fifo"] {
        let out = egress(&["policy", name]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && text.contains("thresholds = ["), "{name}: {text}");
    }
}
