//! A shard and a client's stack on one wire, in virtual time.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use classify::Verdict;
use net::device::memory::{MemoryDevice, pair};
use net::stack::{EventKind, ListenOptions};
use queueing::{Clock, PrioritySet, Span};
use sched::dispatch::{Params, RequestType, Steering, fcfs, strict};

use super::*;
use crate::app::Framing;
use crate::app::{ConnectionFate, Context};
use crate::mode::{Classifiers, Mode};

mod datagrams;
mod deadlines;
mod endings;
mod guarded;
mod memory;
mod modes;
mod shown;
mod slow;
mod urgency;

/// Line protocol. `!` cannot be framed, `P` panics, `C` closes, `W` writes to the shared bytes and
/// `R` reads them, `7` takes long, `D` or ` D` begins a budget in µs (50 without a number), in which
/// `X` panics, `M` makes the connection a member and
/// `E` ends that, `B` gets a long response, `G` a generated one, which panics with `p` and is too
/// short with `s`. The request type is the digit.
struct Lines;

impl App for Lines {
    fn frame(&self, received: &[u8]) -> Framing {
        if received[0] == b'!' {
            return Framing::Invalid;
        }
        let end = received.iter().position(|&b| b == b'\n');
        end.map_or(Framing::Incomplete, |end| Framing::Complete { len: end + 1 })
    }

    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        segment.first().filter(|byte| byte.is_ascii_digit()).map(|&digit| RequestType(digit.into()))
    }

    fn budget(&self, request: &[u8]) -> Option<Span> {
        assert_ne!(request.first(), Some(&b'X'), "the application's own bug");
        let budget = match request.iter().position(|&byte| byte == b'D')? {
            0 => &request[1..],
            at if request[at - 1] == b' ' => &request[at + 1..],
            _ => return None,
        };
        let digits = budget.iter().take_while(|byte| byte.is_ascii_digit());
        let us = digits.fold(0, |us, digit| us * 10 + u64::from(digit - b'0'));
        Some(Span::from_micros(if us > 0 { us } else { 50 }))
    }

    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        cx.clock.compute(Span::from_micros(if request[0] == b'7' { 100 } else { 1 }));
        match request[0] {
            b'P' => panic!("the application's own bug"),
            b'W' => cx.private[9] = 9,
            b'R' => response.push(b'0' + cx.private[1]),
            b'M' => {
                cx.registration.attach(Some(Arc::new(Priority::HIGHEST)));
                cx.registration.set_classifier(Some(Arc::new(|flow| {
                    let level = flow.app.and_then(|memory| memory.downcast_ref::<Priority>());
                    level.map_or(Verdict::NoVerdict, |level| Verdict::Level(level.level()))
                })));
            }
            b'E' => {
                cx.registration.attach(None);
                cx.registration.set_classifier(None);
            }
            b'B' => response.resize(100_000, b'b'),
            b'G' => *cx.body = Some(Box::new(memory::Letters(0, request[1]))),
            _ => {}
        }
        response.extend_from_slice(request);
        if request[0] == b'C' { ConnectionFate::Close } else { ConnectionFate::Keep }
    }
}

#[derive(Default)]
struct Virtual(Cell<Time>);

impl Clock for Virtual {
    fn now(&self) -> Time {
        self.0.get()
    }
    fn compute(&self, span: Span) {
        self.0.set(self.now() + span);
    }
}

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A shard and a client's stack on one wire under one clock.
struct World {
    clock: Virtual,
    shard: Shard<MemoryDevice, Lines>,
    near: MemoryDevice,
    client: Stack,
    far: MemoryDevice,
    jobs: Vec<Job>,
    got: Vec<(ConnId, Vec<u8>)>,
    closed: Vec<ConnId>,
    /// True if the client leaves input unread.
    unread: Vec<ConnId>,
    partial: usize,
}

/// Classifiers whose level is the first digit of a payload.
fn by_digit() -> Classifiers {
    let transport: classify::TransportClassifier = Arc::new(|flow| match flow.payload.first() {
        Some(digit @ b'0'..=b'7') => Verdict::Level(digit - b'0'),
        _ => Verdict::NoVerdict,
    });
    Classifiers { transport: Some(transport), ..Classifiers::default() }
}

fn world(workers: usize, change: impl FnOnce(&mut Config)) -> World {
    let policy = Mode::Learned.policy(by_digit(), &Params::new(workers, 64), Steering::all(workers));
    let mut config = Config::new(net::stack::Config::new(MAC, SERVER, 24, [7; 16]), policy, workers);
    change(&mut config);
    let (near, far) = pair(512, 1514);
    let mut shard = Shard::new(config, Arc::new(Lines));
    shard.stack().listen(80, ListenOptions::default()).unwrap();
    let client = net::stack::Config::new([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2), 24, [8; 16]);
    World {
        clock: Virtual::default(),
        shard,
        near,
        client: Stack::new(client),
        far,
        jobs: Vec::new(),
        got: Vec::new(),
        closed: Vec::new(),
        unread: Vec::new(),
        partial: 0,
    }
}

impl World {
    /// Steps both sides until nothing moves; jobs stay with the worker.
    /// Sends this many SYNs of clients that complete no handshake, since this world's client resets it.
    fn flood(&mut self, syns: u16) {
        let mut flood = Stack::new(self.client.config().clone());
        let remote = SocketAddr::new(SERVER.into(), 80);
        for port in 0..syns {
            flood.connect(self.clock.now(), remote, Some(2_000 + port)).unwrap();
        }
        // A query for the server's address, then the SYNs.
        flood.egress(self.clock.now(), &mut self.far);
        while !matches!(self.shard.step(self.clock.now(), &mut self.near), Step::Idle) {}
        assert!(flood.ingress_from(self.clock.now(), &mut self.far), "the server's address");
        flood.egress(self.clock.now(), &mut self.far);
        self.settle();
    }

    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            quiet += 1;
            self.clock.compute(Span::from_nanos(100));
            let now = self.clock.now();
            loop {
                match self.shard.step(now, &mut self.near) {
                    Step::Idle => break,
                    Step::Assign(job) => self.jobs.push(job),
                    Step::Partial(_) => self.partial += 1,
                    _ => {}
                }
                quiet = 0;
            }
            if self.listen() {
                quiet = 0;
            }
        }
    }

    /// Handles the client's input; true if there was any.
    fn listen(&mut self) -> bool {
        let (now, mut any) = (self.clock.now(), false);
        while self.client.ingress_from(now, &mut self.far) {
            any = true;
        }
        while let Some(event) = self.client.poll_event() {
            match event.kind {
                EventKind::Readable { .. } if self.unread.contains(&event.conn) => {}
                EventKind::Readable { .. } => {
                    let bytes = self.client.received(event.conn).to_vec();
                    self.client.consume(now, event.conn, bytes.len());
                    self.got.push((event.conn, bytes));
                }
                EventKind::PeerClosed | EventKind::Closed(_) => self.closed.push(event.conn),
                _ => {}
            }
        }
        self.client.egress(now, &mut self.far);
        any
    }

    fn connect(&mut self) -> ConnId {
        let remote = SocketAddr::new(SERVER.into(), 80);
        let id = self.client.connect(self.clock.now(), remote, None).unwrap();
        self.settle();
        id
    }

    fn send(&mut self, id: ConnId, text: &str) {
        let taken = self.client.send(self.clock.now(), id, text.as_bytes()).unwrap();
        assert_eq!(taken, text.len());
        self.settle();
    }

    /// Sends without stepping the shard.
    fn queue(&mut self, id: ConnId, text: &str) {
        assert_eq!(self.client.send(self.clock.now(), id, text.as_bytes()), Ok(text.len()));
        self.client.egress(self.clock.now(), &mut self.far);
    }

    /// Requests in service, with their workers.
    fn workers(&self) -> Vec<(u8, String)> {
        let text = |job: &Job| String::from_utf8(job.request.clone()).unwrap();
        self.jobs.iter().map(|job| (job.worker.0, text(job))).collect()
    }

    /// Serves and completes the first job.
    fn serve_one(&mut self) -> String {
        let mut job = self.jobs.remove(0);
        job.serve(&Lines, &self.clock);
        let request = String::from_utf8(job.request.clone()).unwrap();
        self.shard.complete(self.clock.now(), job);
        self.settle();
        request
    }

    /// Serves until no job is left; returns the requests in order.
    fn serve_all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| (!self.jobs.is_empty()).then(|| self.serve_one())).collect()
    }

    fn text(&self, id: ConnId) -> String {
        let bytes = self.got.iter().filter(|(conn, _)| *conn == id).flat_map(|(_, bytes)| bytes.clone());
        String::from_utf8(bytes.collect()).unwrap()
    }

    fn counters(&self) -> Counters {
        self.shard.stats().counters
    }
}

//~ runtime: an application frames, serves and closes: partial requests wait, invalid bytes reset the connection
#[test]
fn a_request_gets_its_response() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "3 hello\n");
    assert_eq!(world.jobs[0].label.priority.level(), 3);
    assert_eq!(world.serve_all(), ["3 hello\n"]);
    assert_eq!(world.text(id), "3 hello\n");
    let stats = world.shard.stats();
    assert_eq!((stats.counters.requests, stats.counters.responses), (1, 1));
    assert_eq!(stats.stages.get(3, 3).max(), Span::from_micros(1));
}

//~ mechanisms: M6: waiting requests are served strictly by priority
#[test]
fn waiting_requests_are_served_by_priority_at_four_levels() {
    let mut world = world(1, |_| {});
    let ids: Vec<_> = (0..5).map(|_| world.connect()).collect();
    for (id, text) in ids.iter().zip(["7 a\n", "5 b\n", "2 c\n", "0 d\n", "2 e\n"]) {
        world.send(*id, text);
    }
    assert_eq!(world.serve_all(), ["7 a\n", "0 d\n", "2 c\n", "2 e\n", "5 b\n"]);
}

//~ runtime: an application frames, serves and closes: partial requests wait, invalid bytes reset the connection
#[test]
fn a_partial_request_waits_for_its_remaining_bytes() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "3 hel");
    assert_eq!((world.jobs.len(), world.partial), (0, 1));
    world.send(id, "lo\n");
    assert_eq!(world.serve_all(), ["3 hello\n"]);
    assert_eq!(world.counters().partial, 1);
}

//~ stack: priority never reorders the bytes or the responses of one connection
#[test]
fn pipelined_requests_are_answered_in_order_one_at_a_time() {
    let mut world = world(4, |_| {});
    let id = world.connect();
    world.send(id, "5 a\n");
    world.send(id, "5 b\n0 c\n");
    assert_eq!(world.jobs.len(), 1, "one request of a connection is in service");
    assert_eq!(world.serve_all(), ["5 a\n", "5 b\n", "0 c\n"]);
    assert_eq!(world.text(id), "5 a\n5 b\n0 c\n");
}

#[test]
fn a_more_urgent_segment_makes_its_connection_more_urgent() {
    let mut world = world(1, |_| {});
    let (busy, other, id) = (world.connect(), world.connect(), world.connect());
    world.send(busy, "7 busy\n");
    world.send(other, "5 other\n");
    world.send(id, "6 first\n");
    world.send(id, "0 second\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "6 first\n", "0 second\n", "5 other\n"]);
    assert_eq!(world.counters().stale, 1);
}

//~ runtime: bounded queues lose nothing; a request that exceeds the receive buffer is refused
#[test]
fn a_full_event_queue_loses_nothing() {
    let mut world = world(1, |config| config.dispatch = Box::new(strict(1)));
    let ids: Vec<_> = (0..5).map(|_| world.connect()).collect();
    for (id, text) in ids.iter().zip(["7 a\n", "5 b\n", "2 c\n", "0 d\n", "2 e\n"]) {
        world.send(*id, text);
    }
    assert_eq!(world.serve_all(), ["7 a\n", "5 b\n", "0 d\n", "2 c\n", "2 e\n"]);
    assert!(world.counters().queue_full >= 3);
}

//~ mechanisms: M7: steered priorities stay on their workers under every policy; impossible lists are refused
#[test]
fn steered_priorities_stay_on_their_worker() {
    let mut world = world(2, |config| {
        config.steering = Steering::from_lists(2, [("low", &[1][..])]).unwrap().sets();
    });
    let ids: Vec<_> = (0..3).map(|_| world.connect()).collect();
    world.send(ids[0], "7 a\n");
    world.send(ids[1], "7 b\n");
    world.send(ids[2], "0 c\n");
    let on: Vec<_> = world.jobs.iter().map(|j| (j.worker.0, j.label.priority.level())).collect();
    assert_eq!(on, [(1, 7), (0, 0)]);
}

//~ mechanisms: M7: a worker receives only the priorities that it waits for
#[test]
fn a_worker_gets_only_the_priorities_it_waits_for() {
    let mut world = world(1, |config| config.dispatch = Box::new(fcfs(9)));
    world.shard.wants(WorkerId(0), PrioritySet::NONE.with(Priority::HIGHEST));
    let (low, high) = (world.connect(), world.connect());
    world.send(low, "7 low\n");
    world.send(high, "0 high\n");
    assert_eq!(world.serve_all(), ["0 high\n"]);
    world.shard.wants(WorkerId(0), PrioritySet::ALL);
    world.settle();
    assert_eq!(world.serve_all(), ["7 low\n"]);
}

//~ mechanisms: M5: classifier and application exchange values in 64 private bytes, both ways
#[test]
fn the_applications_shared_bytes_are_written_back() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "W\n");
    let Origin::Connection(conn) = world.jobs[0].from else { panic!("it came by a connection") };
    world.shard.stack().private_mut(conn).unwrap()[1] = 1;
    world.serve_one();
    let private = world.shard.stack().private(conn).unwrap();
    assert_eq!((private[1], private[9]), (1, 9), "what the classifier wrote meanwhile stays");
}

//~ runtime: bounded queues lose nothing; a request that exceeds the receive buffer is refused
#[test]
fn a_request_that_fills_the_receive_buffer_is_refused() {
    let mut world = world(1, |config| config.stack.recv_buffer = 4 * 1024);
    let id = world.connect();
    world.send(id, &"x".repeat(4 * 1024));
    assert_eq!((world.closed.clone(), world.counters().oversized), (vec![id], 1));
}

/// Frames per transmission when three requests wait, each served at once, and the shard holds
/// responses for `hold`.
fn sent_at_once(hold: Span) -> Vec<usize> {
    let budget = WorkBudget { transport: 8, assign: 1, hold, ..WorkBudget::default() };
    let mut world = world(1, |config| config.budget = budget);
    let ids: Vec<_> = (0..3).map(|_| world.connect()).collect();
    ids.iter().for_each(|&id| world.queue(id, "3\n"));
    let mut sent = Vec::new();
    loop {
        match world.shard.step(world.clock.now(), &mut world.near) {
            Step::Idle => return sent,
            Step::Transmit { frames } => sent.push(frames),
            Step::Assign(mut job) => {
                job.serve(&Lines, &world.clock);
                world.shard.complete(world.clock.now(), job);
            }
            _ => {}
        }
    }
}

#[test]
fn responses_are_coalesced_for_a_bounded_time() {
    assert!(sent_at_once(Span::ZERO).len() >= 3, "each response is sent at once");
    assert_eq!(sent_at_once(Span::from_millis(1)), [3]);
    // A request takes 1 µs here.
    assert_eq!(sent_at_once(Span::from_nanos(500)).len(), 2);
}
