//! Tests that need root; without it they are skipped with a message.

use queueing::CoreId;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use super::*;

/// A test bed; `None`, with `test` skipped, if it is not available. The message goes past the test
/// harness, which captures the output of passing tests.
fn lab(test: &str) -> Option<NetLab> {
    use std::io::Write;
    if let Some(why) = NetLab::unavailable() {
        let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
        return None;
    }
    Some(NetLab::new(test).unwrap())
}

/// Two namespaces, a veth pair, an address of each family at both ends.
fn pair(lab: &NetLab) -> [Namespace; 2] {
    let [a, b] = ["a", "b"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&a, "eth0"), (&b, "eth0"), &Veth::default()).unwrap();
    for (i, namespace) in (1..).zip([&a, &b]) {
        namespace.address("eth0", Ipv4Addr::new(10, 9, 8, i).into(), 24).unwrap();
        namespace.address("eth0", Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, i.into()).into(), 64).unwrap();
    }
    [a, b]
}

#[test]
fn namespaces_reach_each_other_by_their_cable_alone() {
    let Some(lab) = lab("namespaces_reach_each_other_by_their_cable_alone") else { return };
    let [a, b] = pair(&lab);
    for addr in ["10.9.8.1:80", "[fd00::1]:80"] {
        let listener = a.enter(|| TcpListener::bind(addr).unwrap());
        let mut stream = b.enter(|| TcpStream::connect(addr).unwrap());
        stream.write_all(b"hello").unwrap();
        drop(stream);
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }
    assert!(TcpListener::bind("10.9.8.1:0").is_err(), "this thread is outside");
}

#[test]
fn parameters_and_queues_are_those_of_one_namespace() {
    let Some(lab) = lab("parameters_and_queues_are_those_of_one_namespace") else { return };
    let [a, b] = ["a", "b"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&a, "eth0"), (&b, "eth0"), &Veth { queues: 4, mtu: 9000, offloads: false }).unwrap();
    let read = |namespace: &Namespace| {
        namespace.enter(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_sack").unwrap())
    };
    a.sysctl("net.ipv4.tcp_sack", "0").unwrap();
    assert_eq!((read(&a).trim(), read(&b).trim()), ("0", "1"));
    let link = b.run("ip", &["-details", "link", "show", "dev", "eth0"]).unwrap();
    assert!(link.contains("mtu 9000") && link.contains("numrxqueues 4"), "{link}");
    let offloads = b.run("ethtool", &["--show-offload", "eth0"]).unwrap();
    assert!(offloads.contains("tcp-segmentation-offload: off"), "{offloads}");
    assert!(offloads.contains("tx-checksumming: off"), "{offloads}");
    a.steer_receive("eth0", CoreId(0)).unwrap();
    assert_eq!(a.mac("eth0").unwrap()[0] & 1, 0, "a host's address");
}

#[test]
fn what_goes_wrong_is_said_with_the_command() {
    let Some(lab) = lab("what_goes_wrong_is_said_with_the_command") else { return };
    let namespace = lab.namespace("a").unwrap();
    let error = namespace.up("eth9").unwrap_err().to_string();
    assert!(error.contains("/a: ip link set dev eth9 up: ") && error.contains("eth9"), "{error}");
    let error = namespace.sysctl("net.ipv4.no_such", "1").unwrap_err().to_string();
    assert!(error.contains("net.ipv4.no_such=1"), "{error}");
    let error = namespace.run("no-such-program", &[]).unwrap_err();
    assert_eq!(error.to_string(), "no-such-program: it is not there");
    assert!(error.advice().is_some());
}

#[test]
fn a_program_ends_with_its_handle() {
    let Some(lab) = lab("a_program_ends_with_its_handle") else { return };
    let namespace = lab.namespace("a").unwrap();
    let child = namespace.spawn(namespace.command("sleep").arg("600")).unwrap();
    let entry = format!("/proc/{}", child.id());
    assert!(std::path::Path::new(&entry).exists());
    let inside = std::fs::read_link(format!("{entry}/ns/net")).unwrap();
    assert_ne!(inside, std::fs::read_link("/proc/self/ns/net").unwrap());
    drop(child);
    assert!(!std::path::Path::new(&entry).exists());
}

#[test]
fn what_a_crashed_run_left_is_ended_by_the_next() {
    let Some(lab) = lab("what_a_crashed_run_left_is_ended_by_the_next") else { return };
    let namespace = lab.namespace("a").unwrap();
    let mut command = namespace.command("sleep");
    // Mark of a process that is gone.
    let mut child = namespace.spawn(command.arg("600").env(process::MARK, "4194305-1")).unwrap();
    let mut other = namespace.spawn(namespace.command("sleep").arg("600")).unwrap();
    NetLab::new("next").unwrap();
    assert!(!child.wait().unwrap().success(), "ended by a signal");
    assert!(other.try_wait().unwrap().is_none(), "programs of this run are kept");
}

//~ guard: an interrupted experiment leaves no process, namespace, control group or folder
#[test]
fn a_group_ends_with_all_that_runs_in_it() {
    if let Some(why) = NetLab::unavailable().or_else(TestGroup::unavailable) {
        return println!("skipped: a_group_ends_with_all_that_runs_in_it: {why}");
    }
    let lab = NetLab::new("group").unwrap();
    let namespace = lab.namespace("inside").unwrap();
    let group = TestGroup::new("test").unwrap();
    group.limit(0.2, queueing::Span::from_millis(10)).unwrap();
    // A grandchild, for which the starter does not wait.
    let mut command = group.command(&namespace, "sh");
    command.args(["-c", "sleep 60 & echo; exec sleep 60"]).stdout(std::process::Stdio::piped());
    let mut child = namespace.spawn(&mut command).unwrap();
    let mut line = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let members = group.members();
    assert_eq!(members.len(), 2, "{members:?}");
    assert!(group.used() > queueing::Span::ZERO);
    drop(group);
    drop(child);
    let lives = |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|c| c == "sleep\n");
    // A zombie keeps its name, but no longer runs.
    let runs =
        |id: &u32| lives(id) && std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|c| !c.is_empty());
    assert!(!members.iter().any(runs), "{members:?}");
}

#[test]
fn a_thread_of_the_kernels_is_taken_in_and_given_back() {
    let unseen = || (!host::proc::sees_kernel_threads()).then(|| "/proc shows no kernel threads".to_owned());
    if let Some(why) = NetLab::unavailable().or_else(TestGroup::unavailable).or_else(unseen) {
        return println!("skipped: a_thread_of_the_kernels_is_taken_in_and_given_back: {why}");
    }
    let lab = NetLab::new("taken").unwrap();
    let [a, b] = ["a", "b"].map(|name| lab.namespace(name).unwrap());
    let device = format!("gt{}", std::process::id() % 100_000);
    lab.veth((&a, &device), (&b, "eth0"), &Veth::default()).unwrap();
    a.thread_receive(&device).unwrap();
    let thread = host::cpu_time::kernel_thread(&format!("napi/{device}-")).expect("the kernel started it");
    let groups = || std::fs::read_to_string(format!("/proc/{thread}/cgroup")).unwrap();
    let before = groups();
    let group = TestGroup::new("taken").unwrap();
    group.take(thread).unwrap();
    assert_eq!(group.members(), [thread]);
    drop(group);
    assert_eq!(groups(), before);
}

#[test]
fn a_folder_is_gone_with_its_handle() {
    let folder = TempDir::new("test").unwrap();
    let file = folder.write("a", b"b").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"b");
    drop(folder);
    assert!(!file.exists());
}
