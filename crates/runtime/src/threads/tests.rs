//! A served shard answers, whoever serves, and stops.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use net::Stack;
use net::classify::PacketMeta;
use net::device::memory::pair;
use net::stack::{EventKind, ListenOptions};
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

/// An echo through a served shard, which then stops.
fn check(workers: Workers) {
    let clock: SharedClock = Arc::new(Real(Instant::now()));
    let server = Ipv4Addr::new(10, 0, 0, 1);
    let policy = Mode::None.policy(Classifiers::default(), &Params::new(2, 64), Steering::all(2));
    let config = Config::new(net::stack::Config::new([2, 0, 0, 0, 0, 1], server, 24, [7; 16]), policy, 2);
    let (near, mut far) = pair(64, 1514);
    let mut shard = Shard::new(config, Arc::new(Echo));
    shard.stack().listen(80, ListenOptions::default()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let serving = std::thread::spawn({
        let (clock, stop) = (clock.clone(), stop.clone());
        move || serve(vec![(shard, near)], clock, stop, workers, None)
    });
    let mut client =
        Stack::new(net::stack::Config::new([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2), 24, [8; 16]));
    let id = client.connect(clock.now(), SocketAddrV4::new(server, 80), None).unwrap();
    let mut echoed = Vec::new();
    while echoed != b"who goes next?" {
        let now = clock.now();
        while let Some(received) = far.receive(now) {
            let meta = PacketMeta { received: now, bytes: 0, priority: None };
            client.ingress(now, received.frame.as_ref(), &meta);
            far.recycle(received.frame);
        }
        client.handle_timeout(now);
        while let Some(event) = client.poll_event() {
            match event.kind {
                EventKind::Connected => assert_eq!(client.send(now, id, b"who goes next?"), Ok(14)),
                EventKind::Readable { .. } => echoed = client.received(id).to_vec(),
                _ => {}
            }
        }
        client.egress(now, &mut far);
        std::thread::yield_now();
    }
    stop.store(true, Ordering::Relaxed);
    let stats = serving.join().unwrap();
    assert_eq!((stats.len(), stats[0].counters.responses), (1, 1));
}

#[test]
fn worker_threads_serve_and_stop() {
    check(Workers::Threads);
}

#[test]
fn a_shard_serves_its_own_requests() {
    check(Workers::Inline);
}

#[test]
fn an_application_may_pull_its_events() {
    check(Workers::Custom(Arc::new(|worker: &mut Worker| {
        while let Some(mut job) = worker.wait(PrioritySet::ALL) {
            job.serve(&Echo, worker.clock());
            worker.done(job);
        }
    })));
}
