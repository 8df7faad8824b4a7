//! Exchange with a stack in this process, in virtual time.

use net::device::memory::{self, MemoryDevice};
use net::stack::{Config, ListenOptions};

use queueing::Span;

use super::*;

/// Server that answers received bytes with `reply`.
struct Server {
    stack: Stack,
    end: MemoryDevice,
    reply: fn(&[u8]) -> (usize, Vec<u8>),
}

impl Server {
    fn step(&mut self, now: Time) {
        while self.stack.ingress_from(now, &mut self.end) {
            while let Some(event) = self.stack.poll_event() {
                let (consumed, answer) = (self.reply)(self.stack.received(event.conn));
                if consumed > 0 {
                    self.stack.consume(now, event.conn, consumed);
                    let sent = self.stack.send(now, event.conn, &answer).expect("it is open");
                    assert_eq!(sent, answer.len());
                }
            }
        }
        self.stack.handle_timeout(now);
        self.stack.egress(now, &mut self.end);
    }
}

fn config(host: u8) -> Config {
    Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16])
}

const TICK: Span = Span::from_micros(10);

/// Runs an exchange of one kind; client and server step every 10 µs.
fn run(kind: RequestStream, reply: fn(&[u8]) -> (usize, Vec<u8>)) -> KindResults {
    run_all(vec![kind], reply).kinds.remove(0)
}

fn run_all(kinds: Vec<RequestStream>, reply: fn(&[u8]) -> (usize, Vec<u8>)) -> ExchangeResults {
    let exchange = Exchange { kinds, warmup: Span::from_millis(1), duration: Span::from_millis(10) };
    let (near, far) = memory::pair(4096, 1514);
    let mut server = Server { stack: Stack::new(config(1)), end: near, reply };
    server.stack.listen(80, ListenOptions::default()).expect("the port is free");
    let (mut device, mut now) = (far, Time::ZERO);
    let mut client = ClosedLoopClient::new(exchange, config(2), "10.0.0.1:80".parse().expect("an address"));
    while !client.is_done() {
        client.step(now, &mut device);
        server.step(now);
        now += TICK;
        assert!(now < Time::from_nanos(10_000_000_000), "{}", client.connect_status());
    }
    client.outcome().clone()
}

fn echo(bytes: &[u8]) -> (usize, Vec<u8>) {
    (bytes.len(), bytes.to_vec())
}

fn exchange(connections: u32, answer: ExpectedResponse, pace: LoadModel) -> RequestStream {
    RequestStream { connections, request: (0..64).collect(), answer, pace }
}

#[test]
fn each_kind_has_its_own_rate_and_counters() {
    let long = RequestStream {
        request: vec![7; 5000],
        ..exchange(2, ExpectedResponse::Echo, LoadModel::poisson(20_000.0, 1))
    };
    let short = exchange(3, ExpectedResponse::Echo, LoadModel::poisson(100_000.0, 2));
    let outcome = run_all(vec![long, short], echo);
    let [long, short] = &outcome.kinds[..] else { panic!("two kinds") };
    assert!((150..250).contains(&long.answers), "{}", long.answers);
    assert!((850..1150).contains(&short.answers), "{}", short.answers);
    assert!(long.bytes.abs_diff(long.answers * 10_000) < 100_000, "{}", long.bytes);
    assert!(short.bytes.abs_diff(short.answers * 128) < 5000, "{}", short.bytes);
    assert_eq!((long.broken, short.broken), (0, 0));
}

#[test]
fn a_closed_loop_keeps_its_maximum_in_flight() {
    // The response arrives one tick after the request, so each tick completes one.
    for outstanding in [1, 3] {
        let outcome = run(exchange(5, ExpectedResponse::Echo, LoadModel::Closed { outstanding }), echo);
        assert_eq!(outcome.answers, 5 * u64::from(outstanding) * 1000);
        assert_eq!(outcome.unanswered, 5 * u64::from(outstanding));
        assert_eq!((outcome.broken, outcome.latency.quantile(0.5)), (0, TICK));
        assert_eq!(outcome.bytes, outcome.answers * 128);
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let outcome = run(exchange(5, ExpectedResponse::Echo, LoadModel::poisson(200_000.0, 1)), echo);
    assert!((1800..2200).contains(&outcome.answers), "{}", outcome.answers);
    assert!(outcome.latency.quantile(0.5) > TICK, "it counts from when a request was due");
}

#[test]
fn in_a_burst_every_connection_sends_one_request() {
    let period = TICK * 100;
    let outcome = run(exchange(5, ExpectedResponse::Echo, LoadModel::periodic(5, Some(period))), echo);
    // 1,000 ticks are measured.
    assert_eq!((outcome.answers, outcome.unanswered), (5 * 10, 0));
    assert_eq!(outcome.latency.quantile(0.01), outcome.latency.quantile(1.0), "all of them at once");
}

#[test]
fn a_wrong_response_closes_its_connection() {
    let wrong = |bytes: &[u8]| (bytes.len(), bytes.iter().map(|b| b ^ 1).collect());
    let outcome = run(exchange(2, ExpectedResponse::Echo, LoadModel::Closed { outstanding: 1 }), wrong);
    assert_eq!((outcome.answers, outcome.broken), (0, 2));
}

#[test]
fn http_responses_end_as_their_headers_specify() {
    let page = |bytes: &[u8]| {
        let requests = bytes.len() / 64;
        (requests * 64, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes".repeat(requests))
    };
    let outcome = run(exchange(2, ExpectedResponse::Http, LoadModel::Closed { outstanding: 2 }), page);
    assert_eq!((outcome.answers, outcome.broken), (4000, 0));
}

#[test]
fn a_stream_is_unlimited_in_either_direction() {
    let mut out = exchange(1, ExpectedResponse::Nothing, LoadModel::Closed { outstanding: 1 });
    out.request = vec![7; 16 * 1024];
    let outcome = run(out, |bytes| (bytes.len(), Vec::new()));
    assert!(outcome.bytes > 1 << 20, "{}", outcome.bytes);
    let mut into = exchange(1, ExpectedResponse::Bytes(10_000), LoadModel::Closed { outstanding: 4 });
    into.request = vec![1];
    let outcome = run(into, |bytes| (bytes.len(), vec![9; 10_000 * bytes.len()]));
    assert!(outcome.bytes > 1 << 20, "{}", outcome.bytes);
}

#[test]
fn connects_are_retried_until_the_server_listens() {
    let kinds = vec![exchange(3, ExpectedResponse::Echo, LoadModel::Closed { outstanding: 1 })];
    let exchange = Exchange { kinds, warmup: Span::from_millis(1), duration: Span::from_millis(10) };
    let (near, mut far) = memory::pair(4096, 1514);
    let mut server = Server { stack: Stack::new(config(1)), end: near, reply: echo };
    let mut client = ClosedLoopClient::new(exchange, config(2), "10.0.0.1:80".parse().expect("an address"));
    let (mut now, mut before) = (Time::ZERO, String::new());
    while !client.is_done() && now < Time::from_nanos(1_000_000_000) {
        if now == Time::ZERO + Span::from_millis(50) {
            before = client.connect_status();
            server.stack.listen(80, ListenOptions::default()).expect("the port is free");
        }
        client.step(now, &mut far);
        server.step(now);
        now += TICK;
    }
    assert_eq!(before, "only 0 of 3 connections opened: 10.0.0.1:80 refused or reset the connection");
    let tally = &client.outcome().kinds[0];
    assert_eq!((tally.answers, tally.broken), (3000, 0));
}

#[test]
fn a_paused_client_sends_nothing_until_begin() {
    let kinds = vec![exchange(3, ExpectedResponse::Echo, LoadModel::Closed { outstanding: 1 })];
    let exchange = Exchange { kinds, warmup: Span::from_millis(1), duration: Span::from_millis(10) };
    let (near, mut far) = memory::pair(4096, 1514);
    let mut server = Server { stack: Stack::new(config(1)), end: near, reply: echo };
    server.stack.listen(80, ListenOptions::default()).expect("the port is free");
    let target = "10.0.0.1:80".parse().expect("an address");
    let mut client = ClosedLoopClient::new(exchange, config(2), target).paused();
    let (mut now, begins) = (Time::ZERO, Time::ZERO + Span::from_millis(50));
    while !client.is_done() && now < Time::from_nanos(1_000_000_000) {
        if now == begins {
            assert!(
                client.is_open() && client.connections.iter().all(|connection| connection.due.is_empty())
            );
            client.begin();
        }
        client.step(now, &mut far);
        server.step(now);
        assert!(now >= begins || !client.is_measuring(now));
        now += TICK;
    }
    assert_eq!(now, begins + Span::from_millis(11) + TICK);
    assert_eq!(client.outcome().kinds[0].answers, 3000);
}
