//! Allocations of a warm shard: none per request, in the driver stage, TCP, the event queue, the
//! dispatcher, or on the way back.

use std::sync::Arc;

use classify::Verdict;
use net::device::memory::{MemoryDevice, pair};
use net::stack::{Config as Tcp, EventKind, ListenOptions, UdpId, UdpOptions};
use net::{ConnId, Stack};
use queueing::{Clock, Span, Time, VirtualClock};
use runtime::app::Echo;
use runtime::mode::{Classifiers, MODES};
use runtime::shard::{Config, Shard, ShardGuard, Step};
use sched::dispatch::{Params, Steering};

#[path = "../../net/tests/counting/mod.rs"]
mod counting;

use counting::allocations;

/// A shard, a client with some connections, and the wire between them.
struct World {
    clock: VirtualClock,
    shard: Shard<MemoryDevice, Echo>,
    near: MemoryDevice,
    client: Stack,
    far: MemoryDevice,
    conns: Vec<ConnId>,
    socket: UdpId,
}

impl World {
    fn new(mut config: Config, connections: usize) -> Self {
        config.rx_frames_max = 256;
        config.guard = Some(ShardGuard::by_name("queue-delay", &guard::Params::default()).unwrap());
        let (near, far) = pair(256, 1514);
        let mut shard = Shard::new(config, Arc::new(Echo));
        shard.stack().listen(80, ListenOptions::default()).unwrap();
        shard.stack().bind_udp(80, UdpOptions::default()).unwrap();
        let mut client = Stack::new(tcp(2));
        let socket = client.bind_udp(9, UdpOptions::default()).unwrap();
        let mut world = Self {
            clock: VirtualClock::new(Time::from_nanos(1)),
            shard,
            near,
            client,
            far,
            conns: Vec::new(),
            socket,
        };
        for _ in 0..connections {
            let remote = "10.0.0.1:80".parse().unwrap();
            world.conns.push(world.client.connect(world.clock.now(), remote, None).unwrap());
            world.settle();
        }
        world
    }

    /// Steps both sides until nothing moves; returns the number of responses.
    fn settle(&mut self) -> usize {
        let mut responses = 0;
        loop {
            self.clock.compute(Span::from_nanos(500));
            let now = self.clock.now();
            self.client.handle_timeout(now);
            let mut busy = self.client.egress(now, &mut self.far) > 0;
            loop {
                match self.shard.step(now, &mut self.near) {
                    Step::Idle => break,
                    Step::Assign(mut job) => {
                        job.serve(&Echo, &self.clock);
                        self.shard.complete(self.clock.now(), job);
                    }
                    _ => busy = true,
                }
            }
            while self.client.ingress_from(now, &mut self.far) {
                busy = true;
            }
            while let Some(event) = self.client.poll_event() {
                if let EventKind::Readable { .. } = event.kind {
                    let len = self.client.received(event.conn).len();
                    self.client.consume(now, event.conn, len);
                    responses += 1;
                }
            }
            while let Some(datagram) = self.client.receive_from(now, self.socket) {
                self.client.recycle(datagram.payload);
                responses += 1;
            }
            if !busy {
                return responses;
            }
        }
    }

    /// Sends eight requests and two datagrams at once, `rounds` times; returns the number of
    /// answers.
    fn exchange(&mut self, rounds: usize) -> usize {
        let mut answered = 0;
        for round in 0..rounds {
            for n in 0..10 {
                if n < 2 {
                    let remote = "10.0.0.1:80".parse().unwrap();
                    self.client.send_to(self.clock.now(), self.socket, remote, &[n as u8; 64]).unwrap();
                    continue;
                }
                let conn = self.conns[(round * 10 + n) % self.conns.len()];
                self.client.send(self.clock.now(), conn, &[n as u8; 64]).unwrap();
            }
            answered += self.settle();
        }
        answered
    }
}

fn tcp(host: u8) -> Tcp {
    Tcp::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16])
}

//~ runtime: a warm shard allocates nothing for a request in any mode
#[test]
fn a_warm_shard_allocates_nothing_for_a_request_in_any_mode() {
    for (mode, name, _) in MODES {
        let classifiers = Classifiers {
            driver: Some(Arc::new(|packet| {
                packet.payload_byte(0).map_or(Verdict::NoVerdict, |n| Verdict::Level(n % 4))
            })),
            transport: Some(Arc::new(|flow| Verdict::Level(flow.payload[0] % 8))),
            ..Classifiers::default()
        };
        let policy = mode.policy(classifiers, &Params::new(2, 1024), Steering::all(2));
        let mut world = World::new(Config::new(tcp(1), policy, 2), 100);
        assert_eq!(world.exchange(3_000), 30_000, "{name}");
        let before = allocations();
        assert_eq!(world.exchange(1_000), 10_000, "{name}");
        assert_eq!(allocations() - before, 0, "{name}: allocations in 10,000 requests");
    }
}
