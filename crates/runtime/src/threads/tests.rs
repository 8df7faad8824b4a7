//! Served shards answer with every kind of worker, and stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use net::Stack;
use net::device::memory::{MemoryDevice, pair};
use net::device::{Full, ReceivedFrame};
use net::stack::{ConnId, EventKind, ListenOptions};
use queueing::Time;
use sched::dispatch::{Params, Steering};

use super::*;
use crate::app::Echo;
use crate::mode::{Classifiers, Mode};
use crate::shard::Config;

struct Real(Instant);

impl Clock for Real {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn compute(&self, span: Span) {
        let until = self.now() + span;
        while self.now() < until {}
    }
}

/// A host at the other end of a shard's wire.
struct Client {
    stack: Stack,
    wire: MemoryDevice,
    id: ConnId,
    echoed: Vec<u8>,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PAYLOAD: &[u8] = b"who goes next?";

/// More loops than any run needs, so that a silent shard fails the test.
const TURNS_MAX: usize = 100_000_000;

fn shard() -> (Shard<MemoryDevice, Echo>, MemoryDevice, MemoryDevice) {
    let policy = Mode::None.policy(Classifiers::default(), &Params::new(2, 64), Steering::all(2));
    let config = Config::new(net::stack::Config::new([2, 0, 0, 0, 0, 1], SERVER, 24, [7; 16]), policy, 2);
    let (near, far) = pair(64, 1514);
    let mut shard = Shard::new(config, Arc::new(Echo));
    shard.stack().listen(80, ListenOptions::default()).unwrap();
    (shard, near, far)
}

impl Client {
    fn connected_to(wire: MemoryDevice, now: Time) -> Self {
        let addr = Ipv4Addr::new(10, 0, 0, 2);
        let mut stack = Stack::new(net::stack::Config::new([2, 0, 0, 0, 0, 2], addr, 24, [8; 16]));
        let id = stack.connect(now, SocketAddr::new(SERVER.into(), 80), None).unwrap();
        Self { stack, wire, id, echoed: Vec::new() }
    }

    fn turn(&mut self, now: Time) {
        while self.stack.ingress_from(now, &mut self.wire) {}
        self.stack.handle_timeout(now);
        while let Some(event) = self.stack.poll_event() {
            match event.kind {
                EventKind::Connected => assert_eq!(self.stack.send(now, self.id, PAYLOAD), Ok(PAYLOAD.len())),
                EventKind::Readable { .. } => self.echoed = self.stack.received(self.id).to_vec(),
                _ => {}
            }
        }
        self.stack.egress(now, &mut self.wire);
    }
}

/// Checks an echo through each of `shards` served shards, and their stop.
fn check(workers: WorkerThreads, shards: usize) {
    let clock: SharedClock = Arc::new(Real(Instant::now()));
    let mut served = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..shards {
        let (shard, near, far) = shard();
        served.push((shard, near));
        clients.push(Client::connected_to(far, clock.now()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let serving = std::thread::spawn({
        let (clock, stop) = (clock.clone(), stop.clone());
        move || serve(served, clock, stop, ThreadSettings::new(workers))
    });
    let answered = (0..TURNS_MAX).any(|_| {
        let now = clock.now();
        clients.iter_mut().for_each(|client| client.turn(now));
        std::thread::yield_now();
        clients.iter().all(|client| client.echoed == PAYLOAD)
    });
    stop.store(true, Ordering::Relaxed);
    let stats = serving.join().unwrap();
    assert!(answered, "every shard answers");
    let responses: Vec<u64> = stats.iter().map(|s| s.counters.responses).collect();
    assert_eq!(responses, vec![1; shards]);
}

//~ runtime: a shard serves with worker threads or by itself
#[test]
fn worker_threads_serve_and_stop() {
    check(WorkerThreads::Threads, 1);
}

//~ runtime: a shard serves with worker threads or by itself
#[test]
fn a_shard_serves_its_own_requests() {
    check(WorkerThreads::Inline, 1);
}

//~ mechanisms: M7: an application can pull its events
#[test]
fn an_application_may_pull_its_events() {
    check(
        WorkerThreads::Custom(Arc::new(|worker: &mut Worker| {
            while let Some(mut job) = worker.wait(PrioritySet::ALL) {
                job.serve(&Echo, worker.clock());
                worker.done(job);
            }
        })),
        1,
    );
}

//~ runtime: several shards serve side by side
#[test]
fn several_shards_serve_side_by_side() {
    check(WorkerThreads::Inline, 3);
    check(WorkerThreads::Threads, 2);
}

/// A device without input, which panics if `breaks`.
struct Breaks {
    breaks: bool,
    /// Devices that are not dropped yet.
    there: Arc<AtomicUsize>,
}

impl Device for Breaks {
    type Frame = Vec<u8>;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        assert!(!self.breaks, "this device breaks");
        None
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn transmit(&mut self, _: Time, _: usize, _: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        Err(Full)
    }
}

impl Drop for Breaks {
    fn drop(&mut self) {
        self.there.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Panic message of `serve` when the last of `shards` panics, and the number of devices left.
fn broken(workers: WorkerThreads, shards: usize) -> (String, usize) {
    let there = Arc::new(AtomicUsize::new(shards));
    let served = (1..=shards).map(|number| {
        let policy = Mode::None.policy(Classifiers::default(), &Params::new(2, 64), Steering::all(2));
        let config = Config::new(net::stack::Config::new([2, 0, 0, 0, 0, 1], SERVER, 24, [7; 16]), policy, 2);
        let device = Breaks { breaks: number == shards, there: there.clone() };
        (Shard::new(config, Arc::new(Echo)), device)
    });
    let served: Vec<_> = served.collect();
    let clock: SharedClock = Arc::new(Real(Instant::now()));
    let stop = Arc::new(AtomicBool::new(false));
    let serving = std::thread::spawn({
        let stop = stop.clone();
        move || serve(served, clock, stop, ThreadSettings::new(workers))
    });
    let is_over = (0..TURNS_MAX).any(|_| {
        std::thread::yield_now();
        serving.is_finished()
    });
    stop.store(true, Ordering::Relaxed);
    assert!(is_over, "the others stop too");
    let why = serving.join().expect_err("a shard panicked");
    let why = why.downcast_ref::<&str>().map_or(String::new(), |why| (*why).to_owned());
    (why, there.load(Ordering::Relaxed))
}

//~ faults: a panic in a shard or worker ends `serve` and removes its devices
#[test]
fn a_shards_panic_ends_the_others_and_drops_its_device() {
    for shards in [1, 3] {
        for workers in [WorkerThreads::Inline, WorkerThreads::Threads] {
            assert_eq!(broken(workers, shards), ("this device breaks".to_owned(), 0));
        }
    }
}

//~ faults: a panic in a shard or worker ends `serve` and removes its devices
#[test]
fn a_worker_that_panics_ends_the_server() {
    let clock: SharedClock = Arc::new(Real(Instant::now()));
    let (shard, near, _far) = shard();
    let stop = Arc::new(AtomicBool::new(false));
    let breaks = |worker: &mut Worker| assert!(worker.id().0 == 0, "this worker breaks");
    let serving = std::thread::spawn({
        let stop = stop.clone();
        move || {
            serve(
                vec![(shard, near)],
                clock,
                stop,
                ThreadSettings::new(WorkerThreads::Custom(Arc::new(breaks))),
            )
        }
    });
    let is_over = (0..TURNS_MAX).any(|_| {
        std::thread::yield_now();
        serving.is_finished()
    });
    stop.store(true, Ordering::Relaxed);
    assert!(serving.join().is_err() && is_over, "the server must stop");
}

//~ operations: SIGHUP reloads configuration and policy of `serve` and `run` without dropping a connection
#[test]
fn running_shards_take_new_classifiers() {
    for workers in [WorkerThreads::Inline, WorkerThreads::Threads] {
        let snapshots: Vec<Arc<SnapshotExchange<Classifiers>>> = vec![Arc::default(), Arc::default()];
        let asked = Arc::new(AtomicBool::new(false));
        let clock: SharedClock = Arc::new(Real(Instant::now()));
        let (mut served, mut clients) = (Vec::new(), Vec::new());
        for _ in &snapshots {
            let (shard, near, far) = shard();
            served.push((shard, near));
            clients.push(Client::connected_to(far, clock.now()));
        }
        for snapshot in &snapshots {
            let asked = asked.clone();
            let driver: classify::DriverClassifier = Arc::new(move |_| {
                asked.store(true, Ordering::Relaxed);
                classify::Verdict::NoVerdict
            });
            snapshot.request(Box::new(Classifiers { driver: Some(driver), ..Classifiers::default() }));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let threads = ThreadSettings { classifiers: snapshots.clone(), ..ThreadSettings::new(workers) };
        let serving = std::thread::spawn({
            let (clock, stop) = (clock.clone(), stop.clone());
            move || serve(served, clock, stop, threads)
        });
        let answered = (0..TURNS_MAX).any(|_| {
            let now = clock.now();
            clients.iter_mut().for_each(|client| client.turn(now));
            std::thread::yield_now();
            clients.iter().all(|client| client.echoed == PAYLOAD)
        });
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap();
        assert!(answered && asked.load(Ordering::Relaxed));
        let is_empty = |snapshot: &Arc<SnapshotExchange<Classifiers>>| {
            snapshot.take().is_some_and(|left| left.driver.is_none())
        };
        assert!(snapshots.iter().all(is_empty), "the shards have them now");
    }
}
