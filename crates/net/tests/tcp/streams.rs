//! Tests of whole streams on a faulty link: both arrive complete, and all resources are released.

//~ stack: both streams arrive intact under loss, duplicates, reordering and damage, over IPv4 and IPv6

use std::collections::BTreeMap;

use net::stack::{CloseReason, Ecn};
use net::{ConnId, EventKind};
use proptest::prelude::*;
use queueing::{Span, Time};

use crate::world::{Faults, SERVER, World, config};

/// One end: the data it sends, and the data received.
#[derive(Default)]
struct End {
    conn: Option<ConnId>,
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closed: BTreeMap<ConnId, CloseReason>,
    peer_closed: bool,
}

impl End {
    fn run(&mut self, now: Time, world: &mut World, side: usize) {
        let appetite = 1 + world.dice.below(4000) as usize;
        let stack = &mut world.stacks[side];
        while let Some(event) = stack.poll_event() {
            match event.kind {
                EventKind::Accepted(_) | EventKind::Connected => self.conn = Some(event.conn),
                EventKind::PeerClosed => self.peer_closed = true,
                EventKind::Closed(reason) => {
                    assert!(stack.received(event.conn).is_empty(), "the id is invalid");
                    assert!(self.closed.insert(event.conn, reason).is_none(), "closed once");
                }
                EventKind::Readable { .. } => assert!(self.conn.is_some(), "accepted before readable"),
                EventKind::Writable => {}
            }
        }
        let Some(conn) = self.conn else { return };
        if self.sent < self.to_send.len() {
            let upto = (self.sent + appetite).min(self.to_send.len());
            self.sent += stack.send(now, conn, &self.to_send[self.sent..upto]).unwrap_or(0);
            if self.sent == self.to_send.len() {
                stack.close(now, conn);
                assert!(stack.send(now, conn, b"late").is_err(), "closed for sending");
            }
        }
        let unread = stack.received(conn);
        let n = unread.len().min(appetite);
        self.received.extend_from_slice(&unread[..n]);
        stack.consume(now, conn, n);
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Sends `sizes` bytes in the two directions under `faults`; the server is `remote`.
fn check(remote: &str, faults: Faults, sizes: [usize; 2], buffer: usize, kind: u8, seed: u64) {
    let configs = [1, 2].map(|host| {
        let mut config = config(host);
        (config.recv_buffer, config.send_buffer) = (buffer, buffer);
        (config.recv_buffer_max, config.send_buffer_max) = (0, 0);
        config.rack = kind & 1 == 0;
        config.pacing = kind & 2 != 0;
        config.ecn = [Ecn::Off, Ecn::Classic, Ecn::Dctcp][usize::from(kind >> 2) % 3];
        // Longer than the loss of a last FIN can delay it, or its answer is a reset.
        config.time_wait = Span::from_secs(600);
        config
    });
    let mut world = World::new(configs, faults, seed);
    world.stacks[0].listen(80, net::stack::ListenOptions::default()).unwrap();
    world.stacks[1].connect(world.now, remote.parse().unwrap(), None).unwrap();
    let mut ends = [End::default(), End::default()];
    (ends[0].to_send, ends[1].to_send) = (bytes(sizes[0], 1), bytes(sizes[1], 2));
    for step in 0.. {
        assert!(step < 200_000, "{faults:?} seed {seed}: not finished");
        for (side, end) in ends.iter_mut().enumerate() {
            end.run(world.now, &mut world, side);
        }
        let done = ends.iter().all(|end| !end.closed.is_empty());
        if done && world.stacks.iter().all(|stack| stack.connections() == 0) {
            break;
        }
        // Applications read slowly, but before time advances.
        let unread =
            |(end, stack): (&End, &net::Stack)| end.conn.is_some_and(|c| !stack.received(c).is_empty());
        if ends.iter().zip(&world.stacks).any(unread) {
            world.flush();
            world.arrive(world.now + Span::from_micros(10));
        } else if !world.step() {
            // A handshake may fail: every SYN lost, or the final ACK until the listener gives up.
            // Then no connection was accepted and no data delivered.
            let timed_out = |reason: &CloseReason| {
                matches!(reason, CloseReason::TimedOut | CloseReason::Reset | CloseReason::Unreachable(_))
            };
            let failed = ends[0].conn.is_none() && ends[1].closed.values().all(timed_out);
            let excused = failed && ends[1].received.is_empty() && faults.loss + faults.damage > 0;
            assert!(excused, "{faults:?} seed {seed}: no timer is due");
            return;
        }
    }
    for (end, other) in [(0, 1), (1, 0)] {
        let closed = &ends[end].closed;
        assert!(
            closed.values().all(|reason| *reason == CloseReason::Finished),
            "{faults:?} {sizes:?} {buffer} seed {seed}: {closed:?}"
        );
        assert!(
            ends[end].received == ends[other].to_send,
            "{faults:?} {sizes:?} {buffer} seed {seed}: stream to {end} arrived whole"
        );
        assert!(ends[end].peer_closed);
    }
}

#[test]
fn streams_arrive_on_a_perfect_wire() {
    for remote in SERVER {
        check(remote, Faults::default(), [200_000, 200_000], 64 * 1024, 0, 1);
        check(remote, Faults::default(), [1, 200_000], 256 * 1024, 0, 2);
    }
}

#[test]
fn streams_arrive_through_tiny_windows() {
    for remote in SERVER {
        check(remote, Faults { loss: 2, ..Faults::default() }, [20_000, 20_000], 2000, 0, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn streams_arrive_complete_over_any_faulty_wire(
        remote in prop::sample::select(SERVER.to_vec()),
        loss in 0u64..12,
        repeat in 0u64..10,
        reorder in 0u64..40,
        damage in 0u64..12,
        there in 1usize..200_000,
        back in 1usize..60_000,
        buffer in prop::sample::select(vec![4_000usize, 30_000, 100_000, 256 * 1024]),
        kind in 0u8..12,
        seed in any::<u64>(),
    ) {
        check(remote, Faults { loss, repeat, reorder, damage }, [there, back], buffer, kind, seed);
    }
}
