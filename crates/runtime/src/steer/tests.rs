//! Each connection lives on the shard that owns it, whichever queue its frames arrive by.

//~ shards: every frame reaches the shard that owns its flow

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use net::Stack;
use net::stack::{ConnId, EventKind, ListenOptions};
use net::steer::{FlowHash, ShardIndex};
use queueing::Clock;
use sched::dispatch::{Params, Steering as Workers};

use super::*;
use crate::app::Echo;
use crate::mode::{Classifiers, Mode};
use crate::shard::{Config, Shard, Stats, Step};
use crate::threads::{self, SharedClock, ThreadSettings};

const SHARDS: u16 = 4;
const CLIENTS: usize = 200;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Capacity of a link in frames; more than are ever in flight.
const FRAMES: usize = 1024;
/// More loops than any run needs, so that a stall fails the test.
const TURNS_MAX: usize = 100_000_000;

fn stack_config(host: u8) -> net::stack::Config {
    net::stack::Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16])
}

fn steering() -> FlowSteering {
    FlowSteering::new(SHARDS, FlowHash::Keyed([5; 16]))
}

type Steer = Steered<MemoryDevice>;

/// One listening shard per device.
fn shards(devices: Vec<Steer>) -> Vec<(Shard<Steer, Echo>, Steer)> {
    let shard = |(shard, device): (usize, Steer)| {
        let policy = Mode::None.policy(Classifiers::default(), &Params::new(1, 256), Workers::all(1));
        let mut stack = stack_config(1);
        stack.shard_index = Some(ShardIndex { steering: steering(), shard: shard as u16 });
        let mut shard = Shard::new(Config::new(stack, policy, 1), Arc::new(Echo));
        shard.stack().listen(80, ListenOptions::default()).unwrap();
        (shard, device)
    };
    devices.into_iter().enumerate().map(shard).collect()
}

/// A host with many connections, on one wire or one per shard.
struct Client {
    stack: Stack,
    wires: Vec<MemoryDevice>,
    conns: Vec<ConnId>,
    echoed: Vec<Vec<u8>>,
}

/// A device that sends each frame by another queue than the one before.
struct Spread<'a> {
    wires: &'a mut [MemoryDevice],
    next: &'a mut usize,
}

impl Device for Spread<'_> {
    type Frame = MemoryFrame;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<MemoryFrame>> {
        None
    }

    fn recycle(&mut self, _frame: MemoryFrame) {}

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        *self.next = (*self.next + 1) % self.wires.len();
        self.wires[*self.next].transmit(now, len, fill)
    }
}

/// Bytes that client `n` sends, different for each client.
fn payload(n: usize) -> Vec<u8> {
    (0..300).map(|i| (n * 7 + i) as u8).collect()
}

impl Client {
    fn new(wires: Vec<MemoryDevice>, now: Time) -> Self {
        let mut stack = Stack::new(stack_config(2));
        let server = SocketAddr::from((SERVER, 80));
        let conns = (0..CLIENTS).map(|_| stack.connect(now, server, None).unwrap()).collect();
        Self { stack, wires, conns, echoed: vec![Vec::new(); CLIENTS] }
    }

    fn turn(&mut self, now: Time, queue: &mut usize) {
        for wire in &mut self.wires {
            while self.stack.ingress_from(now, wire) {}
        }
        self.stack.handle_timeout(now);
        while let Some(event) = self.stack.poll_event() {
            let n = self.conns.iter().position(|conn| *conn == event.conn).unwrap();
            match event.kind {
                EventKind::Connected => assert_eq!(self.stack.send(now, event.conn, &payload(n)), Ok(300)),
                EventKind::Readable { .. } => {
                    self.echoed[n].extend_from_slice(self.stack.received(event.conn));
                    let len = self.stack.received(event.conn).len();
                    self.stack.consume(now, event.conn, len);
                }
                _ => {}
            }
        }
        self.stack.egress(now, &mut Spread { wires: &mut self.wires, next: queue });
    }

    fn done(&self) -> bool {
        self.echoed.iter().all(|echoed| echoed.len() >= 300)
    }

    /// Number of connections that each shard owns.
    fn owned(&self) -> Vec<u64> {
        let mut owned = vec![0; usize::from(SHARDS)];
        for conn in &self.conns {
            let tuple = self.stack.tuple(*conn).unwrap();
            let seen = wire::FourTuple {
                local: tuple.remote,
                local_port: tuple.remote_port,
                remote: tuple.local,
                remote_port: tuple.local_port,
            };
            owned[usize::from(steering().of_flow(&seen))] += 1;
        }
        owned
    }
}

/// Devices over `queues` queues (one, or one per shard) and the client's wires.
fn devices(queues: usize) -> (Vec<Steer>, Vec<MemoryDevice>) {
    let (mut near, far): (Vec<_>, Vec<_>) = (0..queues).map(|_| pair(FRAMES, 1514)).unzip();
    let steered = match queues {
        1 => over_one(near.remove(0), steering(), FRAMES),
        _ => over_queues(near, steering(), FRAMES),
    };
    (steered, far)
}

#[track_caller]
fn check(client: &Client, stats: &[Stats], counts: &[FrameCounts]) {
    for (n, echoed) in client.echoed.iter().enumerate() {
        assert_eq!(*echoed, payload(n), "client {n}");
    }
    let accepted: Vec<u64> = stats.iter().map(|s| s.counters.accepted).collect();
    assert_eq!(accepted, client.owned(), "every connection is accepted once, by its owner");
    let mean = CLIENTS as f64 / f64::from(SHARDS);
    let chi_square: f64 = accepted.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum();
    assert!(chi_square < 16.3, "{accepted:?}: χ² {chi_square} has a chance below 0.1 %");
    assert_eq!(counts.iter().map(|c| c.dropped).sum::<u64>(), 0, "below its capacity no wire drops");
    let (passed, from_others): (u64, u64) =
        counts.iter().fold((0, 0), |sum, c| (sum.0 + c.passed, sum.1 + c.from_others));
    assert_eq!(passed, from_others, "every frame passed on arrives");
    assert!(passed > 0);
}

/// Runs all shards and the client in turn, under virtual time.
fn check_in_turn(queues: usize) {
    let (devices, wires) = devices(queues);
    let meters: Vec<FrameMeter> = devices.iter().map(Steered::meter).collect();
    let mut shards = shards(devices);
    let mut now = Time::from_nanos(1_000);
    let (mut client, mut queue) = (Client::new(wires, now), 0);
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn compute(&self, _: Span) {}
    }
    for _ in 0..2_000 {
        client.turn(now, &mut queue);
        for (shard, device) in &mut shards {
            for _ in 0..64 {
                match shard.step(now, device) {
                    Step::Assign(mut job) => {
                        job.serve(&Echo, &Still);
                        shard.complete(now, job);
                    }
                    Step::Idle => break,
                    _ => {}
                }
            }
        }
        now += Span::from_micros(1);
    }
    let stats: Vec<Stats> = shards.iter().map(|(shard, _)| shard.stats().clone()).collect();
    let counts: Vec<FrameCounts> = meters.iter().map(FrameMeter::read).collect();
    check(&client, &stats, &counts);
    for (shard, _) in &mut shards {
        let retransmissions = shard.stack().counters().retransmissions;
        assert_eq!(retransmissions, 0, "nothing was lost");
        assert_eq!(shard.stack().counters().no_connection, 0, "no frame reached a wrong shard");
    }
}

#[test]
fn shards_behind_one_link_serve_their_own_connections() {
    check_in_turn(1);
}

#[test]
fn shards_behind_queues_with_wrong_rss_serve_their_own_connections() {
    check_in_turn(usize::from(SHARDS));
}

struct Real(Instant);

impl Clock for Real {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn compute(&self, _: Span) {}
}

/// Runs the same on threads, by the machine's clock.
fn check_on_threads(queues: usize) {
    let (devices, wires) = devices(queues);
    let meters: Vec<FrameMeter> = devices.iter().map(Steered::meter).collect();
    let shards = shards(devices);
    let clock: SharedClock = Arc::new(Real(Instant::now()));
    let stop = Arc::new(AtomicBool::new(false));
    let serving = std::thread::spawn({
        let (clock, stop) = (clock.clone(), stop.clone());
        move || threads::serve(shards, clock, stop, ThreadSettings::new(threads::WorkerThreads::Inline))
    });
    let (mut client, mut queue) = (Client::new(wires, clock.now()), 0);
    let done = (0..TURNS_MAX).any(|_| {
        client.turn(clock.now(), &mut queue);
        std::thread::yield_now();
        client.done()
    });
    stop.store(true, Ordering::Relaxed);
    let stats = serving.join().unwrap();
    assert!(done, "every client gets its echo");
    let counts: Vec<FrameCounts> = meters.iter().map(FrameMeter::read).collect();
    // A shard may stop before it receives the last bare acknowledgements.
    let (passed, from_others): (u64, u64) =
        counts.iter().fold((0, 0), |sum, c| (sum.0 + c.passed, sum.1 + c.from_others));
    assert!(from_others <= passed);
    let settled: Vec<FrameCounts> =
        counts.iter().map(|c| FrameCounts { passed: from_others, from_others, ..*c }).collect();
    check(&client, &stats, &settled);
}

#[test]
fn shards_on_threads_behind_one_link_serve_their_own_connections() {
    check_on_threads(1);
}

//~ shards: shards accept their own connections, and connect from ports that lead back to them
#[test]
fn shards_on_threads_behind_queues_serve_their_own_connections() {
    check_on_threads(usize::from(SHARDS));
}

//~ shards: rings between shards are bounded and count drops instead of waiting
#[test]
fn a_full_link_drops_and_counts_and_never_blocks() {
    let (near, mut far) = pair(64, 1514);
    let mut devices = over_one(near, FlowSteering::new(2, FlowHash::Toeplitz), 8);
    let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
    for _ in 0..20 {
        far.transmit(Time::ZERO, arp.len(), &mut |buf| buf.copy_from_slice(&arp)).unwrap();
    }
    let mut own = 0;
    while let Some(received) = devices[0].receive(Time::ZERO) {
        devices[0].recycle(received.frame);
        own += 1;
    }
    let counts = devices[0].meter().read();
    assert_eq!((own, counts.own, counts.passed, counts.dropped), (20, 20, 20, 12));
    assert_eq!(std::iter::from_fn(|| devices[1].receive(Time::ZERO)).count(), 8);
}

#[test]
fn a_shard_without_a_device_sends_through_the_first_and_waits_while_that_is_full() {
    let (near, mut far) = pair(2, 1514);
    let mut devices = over_one(near, FlowSteering::new(2, FlowHash::Toeplitz), 4);
    let (first, guest) = devices.split_at_mut(1);
    let sent = (0..6u8).map(|n| guest[0].transmit(Time::ZERO, 1, &mut |buf| buf[0] = n));
    assert_eq!(sent.filter(Result::is_ok).count(), 4, "the link holds four frames");
    let mut got = Vec::new();
    for _ in 0..4 {
        assert!(first[0].receive(Time::ZERO).is_none());
        while let Some(received) = far.receive(Time::ZERO) {
            got.push(received.frame.as_ref()[0]);
            far.recycle(received.frame);
        }
    }
    assert_eq!(got, [0, 1, 2, 3], "no frame is lost while the device is full");
    assert_eq!(first[0].meter().read().forwarded, 4);
}
