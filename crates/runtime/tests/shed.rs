//! Memory of a shed SYN: it allocates nothing and stays in the device's memory.
//!
//! Frame is recycled before the next one is received, and neither the receive buffer nor the
//! stack has seen it.
//! Source: the overload paper §3.1 (G1).

//~ guard: G1: a shed SYN allocates nothing and returns its frame before the next

use std::sync::Arc;

use guard::{Limit, Policy, Signals};
use net::device::{Full, ReceivedFrame};
use net::stack::{Config as Tcp, ListenOptions};
use net::{Device, Stack};
use queueing::{Span, Time};
use runtime::app::Echo;
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{Config, Refusal, Shard, ShardGuard, Step};
use sched::dispatch::{Params, Steering};

#[path = "../../net/tests/counting/mod.rs"]
mod counting;

use counting::allocations;

/// A device that repeats a few SYNs; one frame may be out at a time.
struct Flood {
    frames: Vec<&'static [u8]>,
    handed_out: usize,
    out: Option<*const u8>,
    sent: usize,
}

impl Device for Flood {
    type Frame = &'static [u8];

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
        assert!(self.out.is_none(), "a frame is still out");
        let frame = *self.frames.get(self.handed_out % self.frames.len().max(1))?;
        self.handed_out += 1;
        self.out = Some(frame.as_ptr());
        Some(ReceivedFrame { frame, arrived: Some(now), checked: false })
    }

    fn recycle(&mut self, frame: Self::Frame) {
        assert_eq!(self.out.take(), Some(frame.as_ptr()), "another frame came back");
    }

    fn transmit(&mut self, _: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        fill(&mut [0; 1514][..len]);
        self.sent += 1;
        Ok(())
    }
}

/// A policy that admits no SYN.
struct ShedAll;

impl Policy for ShedAll {
    fn tick(&mut self, _: Time, _: &Signals) -> Limit {
        Limit::Closed
    }
}

/// SYNs of a client that opens `n` connections.
fn syns(n: usize) -> Vec<&'static [u8]> {
    struct Kept(Vec<&'static [u8]>);
    impl Device for Kept {
        type Frame = &'static [u8];
        fn receive(&mut self, _: Time) -> Option<ReceivedFrame<Self::Frame>> {
            None
        }
        fn recycle(&mut self, _: Self::Frame) {}
        fn transmit(&mut self, _: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
            let mut frame = vec![0; len];
            fill(&mut frame);
            self.0.push(frame.leak());
            Ok(())
        }
    }
    let mut kept = Kept(Vec::new());
    let mut client = Stack::new(tcp(2));
    // The client learns the server's address from the server's ARP request.
    let mut server = Stack::new(tcp(1));
    let (mut near, mut far) = net::device::memory::pair(64, 1514);
    server.connect(Time::ZERO, "10.0.0.2:9".parse().unwrap(), None).unwrap();
    server.egress(Time::ZERO, &mut near);
    while client.ingress_from(Time::ZERO, &mut far) {}
    for _ in 0..n {
        client.connect(Time::ZERO, "10.0.0.1:80".parse().unwrap(), None).unwrap();
    }
    client.egress(Time::ZERO, &mut kept);
    // Any other frame is the ARP reply.
    kept.0.retain(|frame| frame[12..14] == [8, 0]);
    assert_eq!(kept.0.len(), n);
    kept.0
}

fn tcp(host: u8) -> Tcp {
    Tcp::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16])
}

#[test]
fn a_flood_of_syns_that_are_shed_allocates_nothing_and_is_copied_nowhere() {
    for (refusal, answers) in [(Refusal::Drop, false), (Refusal::Reset, true)] {
        let policy = Mode::Adps.policy(Classifiers::default(), &Params::new(1, 64), Steering::all(1));
        let mut config = Config::new(tcp(1), policy, 1);
        let period = Span::from_millis(10);
        config.guard = Some(ShardGuard { policy: Box::new(ShedAll), period, refusal, watches: false });
        let mut shard = Shard::new(config, Arc::new(Echo));
        shard.stack().listen(80, ListenOptions::default()).unwrap();
        let mut device = Flood { frames: syns(32), handed_out: 0, out: None, sent: 0 };
        let mut now = Time::from_nanos(1);
        let mut flood = |steps: usize| {
            for _ in 0..steps {
                now += Span::from_nanos(100);
                let step = shard.step(now, &mut device);
                assert!(matches!(step, Step::Drive { shed: true, .. } | Step::Transmit { .. }), "{step:?}");
                assert_eq!(shard.rx_waiting(), 0);
            }
        };
        flood(2_000);
        let before = allocations();
        flood(1_000_000);
        assert_eq!(allocations() - before, 0, "{refusal:?}");
        let stack = shard.stack();
        assert_eq!((stack.counters().frames_received, stack.connections(), stack.buffer_bytes()), (0, 0, 0));
        assert_eq!((device.out, device.sent > 0), (None, answers));
        let counters = shard.stats().counters;
        let counts = counters.guard[0];
        assert_eq!((counts.seen, counts.by_closing), (counters.driver.frames, counters.driver.frames));
    }
}
