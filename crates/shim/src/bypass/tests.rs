//! Tests with snapshots of real processes and sockets, in a network namespace.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use super::processes::Processes;
use super::*;
use host::sock_diag::SockDiag;
use netlab::{Child, Namespace, NetLab, Veth};

const OURS: &str = "10.7.0.2";
const PEER: &str = "10.7.0.9";

/// Opens sockets that should be found and others, and waits.
const PROGRAM: &str = "
import socket, sys
tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
kept = []
def made(kind, bind=None, connect=None, family=socket.AF_INET):
    new = socket.socket(family, kind)
    new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.append(new)
    if bind: new.bind(bind)
    if connect: new.connect(connect)
    elif kind == tcp: new.listen()
    return new
made(tcp, bind=('0.0.0.0', 8080))
made(tcp, bind=('::', 8084), family=socket.AF_INET6)
made(tcp, bind=('127.0.0.1', 8081))
made(tcp, bind=('10.7.0.1', 8082))
made(tcp, connect=('10.7.0.9', 9000))
made(tcp, connect=('127.0.0.1', 8081))
made(udp, bind=('0.0.0.0', 5353))
made(udp, bind=('127.0.0.1', 5354))
made(udp, connect=('10.7.0.9', 9001))
made(udp, bind=('0.0.0.0', 0))
print('ready', flush=True)
sys.stdin.read()
";

/// The namespaces, and the program.
struct World {
    ours: Namespace,
    _clients: Namespace,
    _listener: std::net::TcpListener,
    program: Child,
}

impl World {
    fn new(test: &str) -> Option<Self> {
        let python = || std::process::Command::new("python3").arg("-V").output();
        let missing = || python().is_err().then(|| "the program python3 is not there".to_owned());
        if let Some(why) = NetLab::unavailable().or_else(missing) {
            let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
            return None;
        }
        let lab = NetLab::new("bypass").unwrap();
        let (ours, clients) = (lab.namespace("ours").unwrap(), lab.namespace("clients").unwrap());
        lab.veth((&ours, "gw0"), (&clients, "eth0"), &Veth::default()).unwrap();
        ours.address("gw0", "10.7.0.1".parse().unwrap(), 24).unwrap();
        clients.address("eth0", PEER.parse().unwrap(), 24).unwrap();
        ours.run("ip", &["link", "set", "lo", "up"]).unwrap();
        let listener = clients.enter(|| std::net::TcpListener::bind((PEER, 9000)).unwrap());
        let mut command = ours.command("python3");
        command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = ours.spawn(&mut command).unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Self { ours, _clients: clients, _listener: listener, program })
    }

    fn detector(&self) -> Detector {
        let ours: IpAddr = OURS.parse().unwrap();
        let routes = Routes { addrs: vec![ours], subnets: vec![(ours, 24)], ..Routes::default() };
        Detector::new(routes, sockets::chosen_ports())
    }

    /// The program, inspected for a library of name `library`, with its sockets.
    fn process(&self, library: &str) -> Vec<Process> {
        let mut processes = Processes::new(std::process::id(), 0, Path::new(library));
        processes.scan();
        let mut known: Vec<_> =
            processes.known().filter(|process| process.id == self.program.id()).cloned().collect();
        known.iter_mut().for_each(|process| process.sockets = processes::sockets(process.id));
        known
    }

    fn sockets(&self, all: bool) -> Vec<Socket> {
        self.ours.enter(|| sockets::sockets(&mut SockDiag::new().unwrap(), all).unwrap())
    }
}

fn found(findings: &[BypassingSocket]) -> Vec<(SocketProtocol, Use, String)> {
    let mut found: Vec<_> = findings.iter().map(|it| (it.protocol, it.used, it.addr.to_string())).collect();
    found.sort();
    found
}

#[test]
fn a_program_without_the_library_is_found_by_what_the_stack_should_have() {
    let Some(world) = World::new("a_program_without_the_library_is_found_by_what_the_stack_should_have")
    else {
        return;
    };
    let mut detector = world.detector();
    let (processes, sockets) = (world.process("libgreenwave.so"), world.sockets(true));
    assert!(Detector::wants_all(&processes) && detector.wants_owners(&sockets));
    let findings = detector.judge(&sockets, &processes);
    let expected = [
        (SocketProtocol::Tcp, Use::Listens, "0.0.0.0:8080"),
        (SocketProtocol::Tcp, Use::Listens, "[::]:8084"),
        (SocketProtocol::Tcp, Use::Connects, "10.7.0.9:9000"),
        (SocketProtocol::Udp, Use::Listens, "0.0.0.0:5353"),
        (SocketProtocol::Udp, Use::Connects, "10.7.0.9:9001"),
    ];
    assert_eq!(found(&findings), expected.map(|(protocol, used, addr)| (protocol, used, addr.to_owned())));
    let messages: Vec<_> = findings.iter().map(ToString::to_string).collect();
    let line = format!(
        "python3 (process {}) listens on 0.0.0.0:8080 by the kernel's TCP: started without LD_PRELOAD",
        world.program.id()
    );
    assert!(
        messages.iter().any(|message| message.replace("python3.", "python3").starts_with(&line[..20])
            && message.ends_with(&line[line.len() - 90..])),
        "{messages:#?}"
    );
    // Each is reported once.
    let sockets = world.sockets(true);
    assert!(!detector.wants_owners(&sockets) && detector.judge(&sockets, &processes).is_empty());
}

#[test]
fn the_library_decides_about_all_but_listeners_of_a_program_that_has_it() {
    let Some(world) = World::new("the_library_decides_about_all_but_listeners_of_a_program_that_has_it")
    else {
        return;
    };
    let mut detector = world.detector();
    // Any library that the program has loaded serves as the library.
    let processes = world.process("libc.so.6");
    assert!(processes.iter().all(|process| process.without.is_none()) && !Detector::wants_all(&processes));
    let sockets = world.sockets(false);
    assert!(sockets.iter().all(|socket| socket.listens));
    assert_eq!(detector.judge(&sockets, &processes), [], "it may be moving to the stack");
    let findings = detector.judge(&sockets, &processes);
    let listens = |addr: &str| (SocketProtocol::Tcp, Use::Listens, addr.to_owned());
    assert_eq!(found(&findings), [listens("0.0.0.0:8080"), listens("[::]:8084")]);
    assert!(findings.iter().all(|finding| finding.why == BY_CALLS));
    assert_eq!(detector.judge(&world.sockets(true), &processes), []);
}

#[test]
fn sockets_of_other_processes_are_left_alone_and_looked_for_twice() {
    let Some(world) = World::new("sockets_of_other_processes_are_left_alone_and_looked_for_twice") else {
        return;
    };
    let (mut detector, sockets) = (world.detector(), world.sockets(true));
    for wanted in [true, true, false] {
        assert_eq!(detector.wants_owners(&sockets), wanted);
        assert_eq!(detector.judge(&sockets, &[]), []);
    }
    assert!(!detector.wants_owners(&[]), "closed sockets are forgotten");
    assert!(detector.wants_owners(&sockets));
}
