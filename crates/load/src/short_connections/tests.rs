//! Short connections to a stack in this process, in virtual time.

//~ guard: every visit to a real server ends in one of seven counted results

use std::net::Ipv4Addr;

use net::Stack;
use net::device::memory::{self, MemoryDevice};
use net::stack::ListenOptions;

use super::*;

/// Server that answers one request with `answer` every `ticks` ticks, and queues the others.
struct Server {
    stack: Stack,
    end: MemoryDevice,
    waiting: VecDeque<ConnId>,
    answer: &'static str,
    /// Ticks per response.
    ticks: u32,
    tick: u32,
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const TICK: Span = Span::from_micros(20);

impl Server {
    fn step(&mut self, now: Time) {
        while self.stack.ingress_from(now, &mut self.end) {
            while let Some(event) = self.stack.poll_event() {
                match event.kind {
                    EventKind::Readable { .. } => self.waiting.push_back(event.conn),
                    EventKind::PeerClosed => self.stack.detach(now, event.conn),
                    _ => {}
                }
            }
        }
        self.tick += 1;
        if self.tick.is_multiple_of(self.ticks)
            && let Some(conn) = self.waiting.pop_front()
        {
            let len = self.stack.received(conn).len();
            self.stack.consume(now, conn, len);
            let _ = self.stack.send(now, conn, self.answer.as_bytes());
        }
        self.stack.handle_timeout(now);
        self.stack.egress(now, &mut self.end);
    }
}

fn config(host: u8) -> Config {
    Config::new([2, 0, 0, 0, 0, u8::from(host > 1)], Ipv4Addr::new(10, 0, 0, host), 24, [host; 16])
}

fn workload(pace: ArrivalModel) -> ShortConnections {
    let ms = Span::from_millis;
    let request = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    ShortConnections {
        request,
        pace,
        timeout: ms(20),
        warmup: ms(20),
        duration: ms(200),
        slice: ms(50),
        seed: 3,
    }
}

fn open(rate_per_s: f64) -> ShortConnections {
    workload(ArrivalModel::Open { rate_per_s, burst: None })
}

/// Outcome of requests to a server that needs `ticks` per response; without a listener if
/// `listens` is false.
fn run(
    workload: ShortConnections,
    ticks: u32,
    answer: &'static str,
    listens: bool,
) -> ShortConnectionResults {
    let (near, mut far) = memory::pair(4096, 1514);
    let stack = Stack::new(config(1));
    let mut server = Server { stack, end: near, waiting: VecDeque::new(), answer, ticks, tick: 0 };
    if listens {
        server.stack.listen(80, ListenOptions::default()).expect("the port is free");
    }
    let stacks = (2..6).map(config).collect();
    let mut clients = ClientPopulation::new(workload, stacks, "10.0.0.1:80".parse().expect("an address"));
    let mut now = Time::ZERO;
    while !clients.is_done() {
        clients.step(now, &mut far);
        server.step(now);
        now += TICK;
        assert!(now < Time::from_nanos(10_000_000_000), "it comes to an end");
    }
    clients.outcome().clone()
}

#[test]
fn below_capacity_every_request_succeeds() {
    let outcome = run(open(5_000.0), 1, OK, true);
    let all = &outcome.all;
    assert_eq!(all.count(RequestOutcome::Ok), all.total());
    assert!((800..1200).contains(&all.total()), "{} requests of about 1000", all.total());
    assert_eq!(outcome.slices.len(), 4);
    assert_eq!(outcome.slices.iter().map(|slice| slice.due).sum::<u64>(), all.total());
    assert_eq!((outcome.limited, all.latency.count()), (0, all.total()));
}

#[test]
fn a_request_that_times_out_in_the_queue_gets_no_response() {
    // Unbounded queue: 5,000 requests/s, 500 served.
    let outcome = run(open(5_000.0), 100, OK, true);
    let all = &outcome.all;
    assert!(all.count(RequestOutcome::NoResponse) > all.total() * 8 / 10, "{all:?}");
    assert_eq!(
        all.count(RequestOutcome::ConnectTimeout)
            + all.count(RequestOutcome::Refused)
            + all.count(RequestOutcome::ClientLimit),
        0,
        "{all:?}"
    );
}

#[test]
fn without_a_listener_every_request_is_refused() {
    let all = run(open(5_000.0), 1, OK, false).all;
    assert_eq!(all.count(RequestOutcome::Refused), all.total());
}

#[test]
fn an_unexpected_status_is_a_bad_response() {
    let all = run(open(1_000.0), 1, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", true).all;
    assert_eq!(all.count(RequestOutcome::BadResponse), all.total());
}

#[test]
fn a_closed_loops_rate_is_the_service_rate() {
    // Ten ticks, 200 µs, per response: 5,000 per second, 1,000 in total.
    let outcome = run(workload(ArrivalModel::Closed { clients: 8, think: Span::ZERO }), 10, OK, true);
    let answers: u64 = outcome.slices.iter().map(|slice| slice.answers).sum();
    assert!((950..=1000).contains(&answers), "{answers} answers");
    assert_eq!(outcome.all.count(RequestOutcome::Ok), outcome.all.total());
}
