//! 100,000 connections to two target ports, in virtual time.

use std::net::{Ipv4Addr, SocketAddr};

use load::protocol::Decoded;
use load::protocol::synthetic::{RequestHeader, TimedResponse};
use load::{Client, Plan, RequestClass};
use net::device::memory::{MemoryDevice, pair};
use net::stack::{Config, ListenOptions};
use net::{EventKind, Stack};
use queueing::{Span, Time};

const CONNECTIONS: u32 = 100_000;
const PORTS: [u16; 2] = [7000, 7001];

fn host(last: u8) -> Config {
    Config::new([2, 0, 0, 0, 0, last], Ipv4Addr::new(10, 0, 0, last), 24, [last; 16])
}

/// Minimal server that answers every request at once.
fn serve(now: Time, stack: &mut Stack, device: &mut MemoryDevice) -> bool {
    let mut busy = false;
    while stack.ingress_from(now, device) {
        busy = true;
    }
    stack.handle_timeout(now);
    while let Some(event) = stack.poll_event() {
        let EventKind::Readable { .. } = event.kind else { continue };
        while let Decoded::Complete { value, len } = RequestHeader::decode(stack.received(event.conn)) {
            let RequestHeader { id, kind, priority, service, .. } = value;
            let (nic, tcp, event_) = (Span::ZERO, Span::ZERO, Span::ZERO);
            let response = TimedResponse { id, kind, priority, nic, tcp, event: event_, service };
            stack.consume(now, event.conn, len);
            stack.send(now, event.conn, &response.encode()).expect("the connection is open");
        }
    }
    stack.egress(now, device) > 0 || busy
}

//~ load: a client opens and uses 100,000 connections on the stack
#[test]
fn a_client_opens_and_uses_a_hundred_thousand_connections() {
    let class = RequestClass {
        name: "all".into(),
        share: 1.0,
        service: "1us".parse().unwrap(),
        length: 64,
        kind: 0,
        priority: 0,
    };
    let mut plan = Plan::new(CONNECTIONS, "uniform 1000000".parse().unwrap(), vec![class]);
    plan.requests = Some(u64::from(CONNECTIONS));
    let targets = PORTS.map(|port| SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), port)).to_vec();
    let mut client = Client::with_targets(&plan, host(1), targets).unwrap();
    let mut server = Stack::new(host(2));
    for port in PORTS {
        server.listen(port, ListenOptions::default()).unwrap();
    }
    let (mut near, mut far) = pair(4096, 1514);
    let mut now = Time::from_nanos(1);
    while !client.is_done() {
        let busy = client.step(now, &mut near) | serve(now, &mut server, &mut far);
        let next = client.poll_timeout().into_iter().chain(server.poll_timeout()).min();
        now += Span::from_nanos(100);
        if !busy {
            now = next.expect("something is to come").max(now);
        }
    }
    assert_eq!(client.error(), None);
    let report = client.report("memory");
    assert_eq!((client.progress().open, report.answered(), report.reconnects), (CONNECTIONS, 100_000, 0));
    let each = server.connection_bytes() / CONNECTIONS as usize;
    assert!(each <= 640, "{each} bytes for each connection of the server");
    println!("{each} bytes for each of {CONNECTIONS} connections of the server");
}
