//! Client on kernel sockets against a server on loopback.

use std::io::{BufRead, Read as _};
use std::net::TcpListener;
use std::time::Instant;

use super::*;
use crate::plan::RequestClass;
use crate::protocol::Decoded;
use crate::protocol::synthetic::{RequestHeader, TimedResponse};

struct Wall(Instant);

impl Clock for Wall {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn compute(&self, _: Span) {}
}

fn plan(connections: u32, requests: u64) -> Plan {
    let class = |name: &str, share, length| {
        let service = "1us".parse().expect("distribution");
        RequestClass { name: name.into(), share, service, length, kind: 0, priority: 0 }
    };
    let classes = vec![class("small", 0.5, 32), class("large", 0.5, 5000)];
    let mut plan = Plan::new(connections, "uniform 20000".parse().expect("arrivals"), classes);
    plan.requests = Some(requests);
    plan.timeout = Span::from_secs(20);
    plan
}

/// Server on loopback that runs `serve` for each connection on its own thread.
fn server(connections: usize, serve: fn(std::net::TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections).flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    target
}

/// Answers every synthetic request, in order.
fn serve_synthetic(mut stream: std::net::TcpStream) {
    answer(&mut stream, usize::MAX);
}

fn answer(stream: &mut std::net::TcpStream, most: usize) {
    let (mut received, mut buffer, mut served) = (Vec::new(), [0; 4096], 0);
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..n]);
        while let Decoded::Complete { value, len } = RequestHeader::decode(&received) {
            received.drain(..len);
            let [nic, tcp, event, service] = [1, 2, 3, 4].map(Span::from_nanos);
            let RequestHeader { id, kind, priority, .. } = value;
            let response = TimedResponse { id, kind, priority, nic, tcp, event, service };
            if served == most || stream.write_all(&response.encode()).is_err() {
                return;
            }
            served += 1;
        }
    }
}

fn load(plan: &Plan, target: SocketAddr, protocol: &AppProtocol) -> Result<Report, KernelError> {
    let clock = Wall(Instant::now());
    run(plan, target, protocol, &clock, &mut |_| {}, &AtomicBool::new(false))
}

//~ load: the kernel's sockets can be used instead
#[test]
fn every_request_is_answered_over_the_kernels_sockets() {
    let target = server(8, serve_synthetic);
    let mut last = Progress::default();
    let clock = Wall(Instant::now());
    let report = run(
        &plan(8, 400),
        target,
        &AppProtocol::Synthetic,
        &clock,
        &mut |p| last = p,
        &AtomicBool::new(false),
    )
    .expect("it runs");
    assert_eq!((report.requests(), report.answered(), report.reconnects), (400, 400, 0));
    assert_eq!(last, Progress { open: 8, connections: 8, due: 400, settled: 400, tail: last.tail });
    let small = report.class("small").expect("planned");
    assert_eq!(small.at_p99.event, Span::from_nanos(3), "stages come from the responses");
}

#[test]
fn a_broken_connection_is_reopened_and_its_requests_are_lost() {
    // Each connection is closed after ten responses.
    let target = server(64, |mut stream| answer(&mut stream, 10));
    let mut plan = plan(1, 40);
    plan.arrivals = "uniform 2000".parse().expect("arrivals");
    let report = load(&plan, target, &AppProtocol::Synthetic).expect("it runs");
    assert!(report.reconnects >= 1);
    let unanswered: u64 = report.classes.iter().map(|c| c.unanswered).sum();
    assert!(unanswered >= 1, "requests in flight are lost");
    assert_eq!(report.answered() + unanswered, 40);
}

//~ load: the kernel's sockets can be used instead
#[test]
fn http_responses_are_matched_in_order() {
    let target = server(4, |mut stream| {
        let (mut head, mut byte, mut answered) = (Vec::new(), [0], 0);
        while let Ok(1) = stream.read(&mut byte) {
            head.push(byte[0]);
            if head.ends_with(b"\r\n\r\n") {
                assert!(head.starts_with(b"GET /x HTTP/1.1\r\n"));
                head.clear();
                answered += 1;
                let status = if answered % 2 == 0 { "200 OK" } else { "503 Busy" };
                let _ =
                    stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nabc").as_bytes());
            }
        }
    });
    let report =
        load(&plan(4, 200), target, &AppProtocol::Http(http::HttpRequest::get("/x"))).expect("it runs");
    assert_eq!((report.answered(), report.garbled), (200, 0));
    // The first of each connection's responses is an error, and every second after it.
    assert!((100..=104).contains(&report.errors()), "{}", report.errors());
}

//~ load: memcached requests follow the USR mix and are matched in order
#[test]
fn memcached_gets_are_matched_in_order() {
    let target = server(4, |stream| {
        let mut lines = std::io::BufReader::new(stream.try_clone().expect("a socket")).lines();
        let mut stream = stream;
        while let Some(Ok(line)) = lines.next() {
            let answer: &[u8] = match line.as_bytes() {
                [b'g', b'e', b't', b' ', b'k', ..] => b"VALUE k 0 2\r\nab\r\nEND\r\n",
                [b's', b'e', b't', b' ', b'k', ..] => {
                    assert_eq!(lines.next().expect("a value").expect("text"), "ab");
                    b"STORED\r\n"
                }
                other => panic!("{other:?}"),
            };
            let _ = stream.write_all(answer);
        }
    });
    let mut plan = plan(4, 200);
    plan.classes[1].kind = memcached::SET;
    let report = load(&plan, target, &AppProtocol::Memcached { keys: 100 }).expect("it runs");
    assert_eq!((report.answered(), report.garbled), (200, 0));
}

//~ load: memcached requests follow the USR mix and are matched in order
#[test]
fn request_bodies_come_from_the_configured_text() {
    let target = server(2, |mut stream| {
        let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            received.extend_from_slice(&buffer[..n]);
            while let Decoded::Complete { value, len } = RequestHeader::decode(&received) {
                let body: Vec<u8> = received.drain(..len).skip(32).collect();
                assert!(body.iter().zip(b"abcabc".iter().cycle()).all(|(have, want)| have == want));
                let RequestHeader { id, kind, priority, .. } = value;
                let [nic, tcp, event, service] = [Span::ZERO; 4];
                let answer = TimedResponse { id, kind, priority, nic, tcp, event, service };
                let _ = stream.write_all(&answer.header(body.len())).and_then(|()| stream.write_all(&body));
            }
        }
    });
    let text = b"abc".to_vec();
    let report = load(&plan(2, 200), target, &AppProtocol::Texts { text }).expect("it runs");
    assert_eq!((report.answered(), report.garbled), (200, 0));
}

#[test]
fn a_stopped_run_counts_requests_in_flight() {
    let target = server(2, |mut stream| {
        let mut sink = [0; 4096];
        while let Ok(1..) = stream.read(&mut sink) {}
    });
    let (plan, stop, clock) = (plan(2, 100_000), AtomicBool::new(false), Wall(Instant::now()));
    let mut stopper = |p: Progress| stop.store(p.due > 0, Ordering::Relaxed);
    let report = run(&plan, target, &AppProtocol::Synthetic, &clock, &mut stopper, &stop).expect("it runs");
    assert!(report.requests() < 100_000 && report.answered() == 0);
}

#[test]
fn an_invalid_run_fails_with_the_reason() {
    let target: SocketAddr = "127.0.0.1:9".parse().expect("address");
    let refused = |plan: &Plan, protocol| load(plan, target, &protocol).expect_err("refused").to_string();
    let mut none = plan(1, 1);
    none.connections = 0;
    assert_eq!(refused(&none, AppProtocol::Synthetic), "connections 0 is outside 1..=1000000");
    let path = AppProtocol::Http(http::HttpRequest::get("no slash"));
    assert_eq!(refused(&plan(1, 1), path), "path \"no slash\" does not begin with / or has a space in it");
}
