//! Client against a minimal server, in virtual time.

use std::net::Ipv4Addr;

use net::device::memory::{MemoryDevice, pair};
use net::stack::{Config, ListenOptions};

use super::*;
use crate::plan::RequestClass;
use crate::protocol::Decoded;
use crate::protocol::synthetic::RequestHeader;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7000;

fn host(last: u8) -> Config {
    Config::new([2, 0, 0, 0, 0, last], Ipv4Addr::new(10, 0, 0, last), 24, [last; 16])
}

fn plan(connections: u32, arrivals: &str, service: &str) -> Plan {
    let class = |name: &str, share, length| {
        let service = service.parse().expect(service);
        RequestClass { name: name.into(), share, service, length, kind: 0, priority: 0 }
    };
    let classes = vec![class("short", 0.5, 64), class("long", 0.5, 4096)];
    let mut plan = Plan::new(connections, arrivals.parse().expect(arrivals), classes);
    plan.requests = Some(1000);
    plan
}

/// Server with one core, serving requests in order of completion of their last byte.
struct Server {
    stack: Stack,
    free_at: Time,
    served: VecDeque<(Time, ConnId, TimedResponse)>,
    /// Resets the connection instead of sending the `n`th response.
    reset_at: Option<u64>,
    answers: u64,
}

impl Server {
    fn new() -> Self {
        let mut stack = Stack::new(host(2));
        stack.listen(PORT, ListenOptions::default()).expect("free");
        Self { stack, free_at: Time::ZERO, served: VecDeque::new(), reset_at: None, answers: 0 }
    }

    fn step(&mut self, now: Time, device: &mut MemoryDevice) -> bool {
        let mut busy = false;
        while self.stack.ingress_from(now, device) {
            busy = true;
        }
        if self.stack.poll_timeout().is_some_and(|due| due <= now) {
            self.stack.handle_timeout(now);
        }
        while let Some(event) = self.stack.poll_event() {
            match event.kind {
                EventKind::Readable { .. } => self.take(now, event.conn),
                EventKind::PeerClosed => self.stack.close(now, event.conn),
                _ => {}
            }
        }
        while let Some(&(at, conn, response)) = self.served.front()
            && at <= now
        {
            self.served.pop_front();
            self.answers += 1;
            if self.reset_at == Some(self.answers) {
                self.stack.abort(now, conn);
            } else if let Ok(sent) = self.stack.send(now, conn, &response.encode()) {
                assert_eq!(sent, synthetic::RESPONSE_LEN);
            }
            busy = true;
        }
        self.stack.egress(now, device) > 0 || busy
    }

    fn take(&mut self, now: Time, conn: ConnId) {
        while let Decoded::Complete { value, len } = RequestHeader::decode(self.stack.received(conn)) {
            let RequestHeader { id, kind, priority, service, .. } = value;
            let begins = self.free_at.max(now);
            self.free_at = begins + service;
            let event = begins.since(now);
            let (nic, tcp) = (Span::ZERO, Span::ZERO);
            let response = TimedResponse { id, kind, priority, nic, tcp, event, service };
            self.served.push_back((self.free_at, conn, response));
            self.stack.consume(now, conn, len);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.served.front().map(|s| s.0).into_iter().chain(self.stack.poll_timeout()).min()
    }
}

/// Runs client and server in virtual time to the end of the run.
fn drive(mut client: Client, server: &mut Server) -> (Client, Time) {
    let (mut near, mut far) = pair(4096, 1514);
    let mut now = Time::from_nanos(1);
    for _ in 0..10_000_000u64 {
        if client.is_done() {
            return (client, now);
        }
        let busy = client.step(now, &mut near) | server.step(now, &mut far);
        if !busy {
            let next = client.poll_timeout().into_iter().chain(server.poll_timeout()).min();
            now = next.expect("something is to come").max(now + Span::from_nanos(1));
        }
    }
    panic!("the run does not end");
}

fn load(plan: &Plan) -> Report {
    let client = Client::new(plan, host(1), SocketAddr::new(SERVER.into(), PORT)).expect("valid");
    let (client, _) = drive(client, &mut Server::new());
    assert_eq!(client.error(), None);
    client.report("memory")
}

#[test]
fn every_request_is_answered_after_its_service_time() {
    let report = load(&plan(10, "uniform 10000", "20us"));
    assert_eq!((report.requests(), report.answered(), report.reconnects, report.garbled), (1000, 1000, 0, 0));
    for class in &report.classes {
        assert_eq!((class.late, class.never_sent), (0, 0));
        let (p50, max) = (class.p50().as_micros_f64(), class.max().as_micros_f64());
        assert!((20.0..21.0).contains(&p50) && max < 21.0, "{}: {p50} {max}", class.name);
        assert_eq!(class.at_p99.service, Span::from_micros(20));
        assert!(class.at_p99.total().saturating_sub(class.max()) < Span::from_micros(1));
    }
}

//~ load: an overloaded or stalled server is sent every request on time (open loop)
#[test]
fn requests_are_sent_on_schedule_to_an_overloaded_server() {
    // Twice the server's capacity: its queue grows by one request every 20 µs.
    let report = load(&plan(10, "uniform 100000", "20us"));
    assert_eq!((report.answered(), report.classes[0].late), (1000, 0));
    let max = report.classes.iter().map(crate::ClassReport::max).max().expect("two classes");
    assert!((max.as_micros_f64() - 10_010.0).abs() < 50.0, "{max}");
    let breakdown = report.classes[0].at_p99;
    assert!(breakdown.event > breakdown.service * 100, "{breakdown:?}");
}

//~ load: the same seed replays the same requests and report
#[test]
fn the_same_seed_gives_the_same_report() {
    let json = |seed| {
        let plan = Plan { seed, ..plan(20, "poisson 30000", "exp 20us") };
        serde_json::to_string(&load(&plan)).expect("serialises")
    };
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
}

//~ load: requests of a burst share connections
#[test]
fn requests_of_a_burst_share_connections() {
    let mut plan = plan(2, "burst 500 1s 0ns", "1us");
    plan.timeout = Span::from_secs(5);
    let report = load(&plan);
    assert_eq!(report.answered(), 1000);
}

#[test]
fn a_reset_connection_is_reopened() {
    let plan = plan(4, "uniform 10000", "20us");
    let client = Client::new(&plan, host(1), SocketAddr::new(SERVER.into(), PORT)).expect("valid");
    let mut server = Server { reset_at: Some(500), ..Server::new() };
    let report = drive(client, &mut server).0.report("memory");
    assert_eq!(report.reconnects, 1);
    let lost: u64 = report.classes.iter().map(|c| c.unanswered).sum();
    assert!((1..20).contains(&lost), "{lost}");
    assert_eq!(report.answered() + lost, 1000);
}

#[test]
fn thousands_of_connections_open_at_a_bounded_pace() {
    let plan = plan(3000, "uniform 10000", "1us");
    let client = Client::new(&plan, host(1), SocketAddr::new(SERVER.into(), PORT)).expect("valid");
    let (client, _) = drive(client, &mut Server::new());
    assert_eq!(
        client.progress(),
        Progress { open: 3000, connections: 3000, due: 1000, settled: 1000, tail: Span::ZERO }
    );
    assert_eq!(client.report("memory").answered(), 1000);
}

#[test]
fn a_refused_connect_error_names_the_server() {
    let plan = plan(2, "uniform 10000", "1us");
    let mut client = Client::new(&plan, host(1), SocketAddr::new(SERVER.into(), 9)).expect("valid");
    client.open_within(Span::from_millis(100));
    let (client, _) = drive(client, &mut Server::new());
    let error = client.error().expect("refused").to_string();
    assert_eq!(error, "only 0 of 2 connections opened: 10.0.0.2:9 refused or reset the connection");
}

//~ load: a client opens and uses 100,000 connections on the stack
#[test]
fn more_connections_than_ports_is_an_error_with_a_remedy() {
    let plan = plan(100_000, "uniform 10000", "1us");
    let target = |port| SocketAddr::new(SERVER.into(), port);
    let error = Client::new(&plan, host(1), target(1)).err().expect("refused").to_string();
    assert_eq!(error, "connections 100000 is outside 1..=64512; give 2 target ports");
    assert!(Client::with_targets(&plan, host(1), vec![target(1), target(2)]).is_ok());
}
