//! Several ports of one guard: each has a limit of its own.

//~ guard: an overloaded port of a guard is limited alone: each connection to its other ports is served

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use super::{LIMIT, ONE_SYN, Rig, SERVER, ended, number, signal};

/// Port of a second service, next to the one on port 80.
const NEIGHBOUR: u16 = 81;
/// Number of connections to the second service, one after the other: enough for a limit of another
/// port to shed many.
const CONNECTIONS: usize = 200;

impl Rig {
    /// The neighbour's listener. An earlier one may be open for a moment in a process that another test is
    /// about to start.
    pub(super) fn neighbour(&self) -> TcpListener {
        let end = Instant::now() + LIMIT;
        loop {
            match self.server.enter(|| TcpListener::bind(("0.0.0.0", NEIGHBOUR))) {
                Err(e) if e.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                    std::thread::yield_now()
                }
                bound => return bound.unwrap(),
            }
        }
    }

    /// A connection to the neighbour by a single SYN, if admitted.
    pub(super) fn connect_to_neighbour(&self) -> Option<TcpStream> {
        let addr = SocketAddr::from((SERVER.0, NEIGHBOUR));
        self.client.enter(|| TcpStream::connect_timeout(&addr, ONE_SYN)).ok()
    }

    /// Requests to the neighbour, each on a connection of its own; all are served.
    fn all_are_served(&self, neighbour: &TcpListener) {
        for request in 0..CONNECTIONS {
            let mut client = self.connect_to_neighbour().unwrap_or_else(|| {
                panic!("connection {request} to the neighbour is shed: {}", self.status());
            });
            client.write_all(b"?").unwrap();
            let (mut server, _) = neighbour.accept().unwrap();
            server.read_exact(&mut [0]).unwrap();
            server.write_all(b"!").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
    }
}

/// Status of a port.
fn of_port(status: &Value, port: u16) -> &Value {
    let ports = status["by_port"].as_array().unwrap_or_else(|| panic!("{status}"));
    ports.iter().find(|found| found["port"] == port).unwrap_or_else(|| panic!("{port}: {status}"))
}

#[test]
fn an_overloaded_port_costs_its_neighbour_nothing() {
    let Some(rig) = Rig::new("an_overloaded_port_costs_its_neighbour_nothing") else { return };
    for measure in ["accept", "first-byte"] {
        let neighbour = rig.neighbour();
        let controller = rig.attach(&["--port", "81", "--measure", measure]);
        let overload = if measure == "accept" { rig.overload() } else { rig.overload_of_threads() };
        let before = rig.status();
        rig.all_are_served(&neighbour);
        // The neighbour restarts.
        drop(neighbour);
        let neighbour = rig.neighbour();
        rig.all_are_served(&neighbour);
        let status = rig.until("the overload goes on, and all of the neighbour's are counted", |status| {
            let light = of_port(status, NEIGHBOUR);
            number(&of_port(status, 80)["shed"]) > number(&of_port(&before, 80)["shed"]) + 100
                && number(&light["served"]) == number(&light["seen"])
        });
        let (ours, light) = (of_port(&status, 80), of_port(&status, NEIGHBOUR));
        assert_eq!(
            (&ours["limit"], &status["limit"]["kind"]),
            (&status["limit"], &"rate".into()),
            "{status}"
        );
        assert_eq!((&light["limit"]["kind"], &light["shed"]), (&"open".into(), &0.into()), "{status}");
        assert!(number(&light["seen"]) >= 2 * CONNECTIONS as u64, "{status}");
        assert!(number(&ours["shed"]) <= number(&status["shed"]), "the totals: {status}");
        let text = String::from_utf8(rig.guard(&["status", "eth0"]).stdout).unwrap();
        assert!(text.contains("; admits: as above, each port by its own limit\n"), "{text}");
        let row = |port: &str| text.lines().find(|line| line.starts_with(port)).unwrap_or_default();
        assert!(row("80 ").ends_with("/s") && row("81 ").ends_with("all connections"), "{text}");
        let metrics = String::from_utf8(rig.guard(&["status", "eth0", "--metrics"]).stdout).unwrap();
        for line in [
            "greenwave_guard_port_limited{device=\"eth0\",port=\"80\"} 1\n",
            "greenwave_guard_port_limited{device=\"eth0\",port=\"81\"} 0\n",
            "greenwave_guard_port_shed_total{device=\"eth0\",port=\"81\"} 0\n",
        ] {
            assert!(metrics.contains(line), "{line}: {metrics}");
        }
        drop(overload);
        signal(&controller, Signal::INT);
        ended(controller);
    }
}

#[test]
fn a_port_that_no_program_accepts_on_costs_its_neighbour_nothing() {
    let test = "a_port_that_no_program_accepts_on_costs_its_neighbour_nothing";
    let Some(rig) = Rig::new(test) else { return };
    let neighbour = rig.neighbour();
    // A port twice is one.
    let _controller = rig.attach(&["--port", "81", "--port", "81"]);
    let _waiting = [(); 2].map(|()| rig.connect().expect("no overload"));
    rig.all_are_served(&neighbour);
    rig.until("they wait", |status| number(&of_port(status, 80)["delay_ns"]) > 300_000_000);
    rig.all_are_served(&neighbour);
    let status = rig.until("it is named", |status| status["queues"][0]["stuck"] == true);
    assert_eq!((&status["queues"][0]["port"], &status["shed"]), (&80.into(), &0.into()), "{status}");
    assert_eq!(status["by_port"].as_array().map(Vec::len), Some(2), "{status}");
}

//~ xdp-guard: a port whose packets are rewritten behind XDP (DNAT) is named in status, JSON and on the terminal
#[test]
fn a_port_whose_packets_are_redirected_is_named() {
    let Some(rig) = Rig::new("a_port_whose_packets_are_redirected_is_named") else { return };
    // As Docker does: a listener that holds the port, and packets that go to another.
    let redirect =
        ["-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "80", "-j", "REDIRECT", "--to-ports", "81"];
    rig.server.run("iptables", &redirect).unwrap();
    let target = rig.neighbour();
    let mut controller = rig.attach(&[]);
    assert_eq!(rig.status()["warnings"], Value::Array(Vec::new()));
    for _ in 0..CONNECTIONS {
        let _client = rig.connect().expect("no overload");
        target.accept().unwrap();
    }
    let status = rig.until("it is named", |status| status["warnings"][0].is_string());
    let port = of_port(&status, 80);
    assert_eq!((number(&port["served"]), number(&port["shed"])), (0, 0), "{status}");
    assert!(number(&port["seen"]) >= CONNECTIONS as u64, "{status}");
    let text = String::from_utf8(rig.guard(&["status", "eth0"]).stdout).unwrap();
    let mut printed = String::new();
    BufReader::new(controller.stderr.as_mut().unwrap()).read_line(&mut printed).unwrap();
    for (output, start) in [(&text, "warning: "), (&printed, "warning: eth0: ")] {
        let line = output.lines().find(|line| line.starts_with(start));
        assert!(line.is_some_and(|line| line.contains("port 80") && line.contains("DNAT")), "{output}");
    }
}

//~ xdp-guard: without --port all listeners that clients reach are guarded, except SSH's
#[test]
fn ports_are_found_from_the_listeners() {
    let Some(rig) = Rig::new("ports_are_found_from_the_listeners") else { return };
    let out = rig.client.command(super::GREENWAVE).args(["guard", "attach", "eth0"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(stderr.contains("no server listens") && stderr.contains("\n  try: "), "{stderr}");
    let listen = |addr: &str| rig.server.enter(|| TcpListener::bind(addr).unwrap());
    let _others = ["[::]:443", "0.0.0.0:22", "127.0.0.1:6379"].map(listen);
    let mut command = rig.server.command(super::GREENWAVE);
    command.args(["guard", "attach", "eth0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut controller = rig.server.spawn(&mut command).unwrap();
    let mut line = String::new();
    BufReader::new(controller.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("eth0: port 80, 443 (all that listen now; 22 only if named)"), "{line}");
    assert_eq!(rig.status()["ports"], serde_json::json!([80, 443]));
    signal(&controller, Signal::INT);
    ended(controller);
    drop(rig.listener);
}

#[test]
fn more_ports_than_a_guard_has_limits_are_refused_with_the_bound() {
    let test = "more_ports_than_a_guard_has_limits_are_refused_with_the_bound";
    let Some(rig) = Rig::new(test) else { return };
    let ports: Vec<String> = (1..=65_u16).map(|port| format!("--port={port}")).collect();
    let args: Vec<&str> = ["attach", "eth0"].into_iter().chain(ports.iter().map(String::as_str)).collect();
    rig.refused(&args, "65 ports exceed the maximum of 64");
}
