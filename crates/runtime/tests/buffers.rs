//! Buffers that a web server's packets need.
//!
//! Packets need none, because they stay in the device's buffers. An exchange needs four: for bytes
//! that TCP has received and is to send, and for request and response on their way to a worker and
//! back. These rarely need the allocator.
//! Source: the overload paper §3.2: 7 of 12 packets of an exchange are small (58.3 %), and 92 % of
//! small buffers came from its pool.

//~ guard: G2: frames need no buffer; waiting data takes one of two pooled sizes

use std::sync::Arc;

use net::device::memory::pair;
use net::device::{Full, ReceivedFrame};
use net::stack::{Config as Tcp, EventKind, ListenOptions};
use net::{Device, Stack};
use queueing::{Clock, Span, Time, VirtualClock};
use runtime::app::Http;
use runtime::mode::{Classifiers, Mode};
use runtime::shard::{Config, Shard, Step};
use sched::dispatch::{Params, Steering};

/// Maximum length of a small packet: the paper's buffers held 128 bytes.
const SMALL: usize = 128;

/// A device that counts frames, and small ones among them, in both directions.
struct Counted<D> {
    device: D,
    frames: u64,
    small: u64,
}

impl<D> Counted<D> {
    fn count(&mut self, len: usize) {
        self.frames += 1;
        self.small += u64::from(len <= SMALL);
    }
}

impl<D: Device> Device for Counted<D> {
    type Frame = D::Frame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<D::Frame>> {
        let received = self.device.receive(now)?;
        self.count(received.frame.as_ref().len());
        Some(received)
    }

    fn recycle(&mut self, frame: D::Frame) {
        self.device.recycle(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.device.transmit(now, len, fill)?;
        self.count(len);
        Ok(())
    }
}

fn tcp(host: u8) -> Tcp {
    Tcp::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16])
}

#[test]
fn an_exchange_of_the_papers_mix_takes_four_pooled_buffers() {
    let (near, mut far) = pair(4096, 1514);
    let mut near = Counted { device: near, frames: 0, small: 0 };
    let policy = Mode::None.policy(Classifiers::default(), &Params::new(1, 4096), Steering::all(1));
    let mut shard = Shard::new(Config::new(tcp(1), policy, 1), Arc::new(Http));
    shard.stack().listen(80, ListenOptions::default()).unwrap();
    let mut client = Stack::new(Tcp { time_wait: Span::from_millis(1), ..tcp(2) });
    let clock = VirtualClock::new(Time::from_nanos(1));
    let mut answered = 0_u64;
    // Pages of 300 bytes to 3.6 KB, each on its own connection, some at once.
    for round in 0..200 {
        for n in 0..10 {
            let id = client.connect(clock.now(), "10.0.0.1:80".parse().unwrap(), None).unwrap();
            client.private_mut(id).unwrap()[0] = n;
        }
        for _ in 0..40 {
            clock.compute(Span::from_micros(200));
            client.handle_timeout(clock.now());
            client.egress(clock.now(), &mut far);
            loop {
                match shard.step(clock.now(), &mut near) {
                    Step::Idle => break,
                    Step::Assign(mut job) => {
                        job.serve(&Http, &clock);
                        shard.complete(clock.now(), job);
                    }
                    _ => {}
                }
            }
            while client.ingress_from(clock.now(), &mut far) {}
            while let Some(event) = client.poll_event() {
                let id = event.conn;
                match event.kind {
                    EventKind::Connected => {
                        let page = 300 + 370 * usize::from(client.private(id).unwrap()[0]);
                        let agent = "x".repeat(60 + 20 * (round % 10));
                        let request = format!(
                            "GET /bytes/{page} HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
                        );
                        client.send(clock.now(), id, request.as_bytes()).unwrap();
                    }
                    EventKind::Readable { .. } => {
                        let len = client.received(id).len();
                        client.consume(clock.now(), id, len);
                    }
                    EventKind::PeerClosed => {
                        answered += 1;
                        client.close(clock.now(), id);
                    }
                    _ => {}
                }
            }
        }
    }
    assert_eq!(answered, 2000);
    let (frames, small) = (near.frames as f64, near.small as f64);
    let uses = shard.buffers();
    println!("{frames} frames, {:.3} small; {uses:?}: hit rate {:.4}", small / frames, uses.hit_rate());
    assert!((0.55..0.62).contains(&(small / frames)), "the paper's mix has 0.583 small");
    assert!((4 * answered..4 * answered + 100).contains(&uses.requests));
    assert!(uses.hit_rate() >= 0.9);
}
