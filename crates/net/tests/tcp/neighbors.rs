//! Hardware addresses that are wrong: damaged, forged or changed.

use net::EventKind;
use net::wire::{arp, ethernet};
use queueing::Span;

use crate::world::{World, meta, sent};

/// An answer to `to` that says `10.0.0.<host>` has `mac`.
fn claim(host: u8, mac: [u8; 6], to: u8) -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender: [10, 0, 0, host].into(),
        target_mac: [2, 0, 0, 0, 0, to],
        target: [10, 0, 0, to].into(),
    };
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::LEN];
    ethernet::emit_header(&mut frame, packet.target_mac, mac, ethernet::EtherType::Arp);
    packet.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

fn tell(world: &mut World, side: usize, frame: &[u8]) {
    let meta = meta(world.now, frame);
    world.stacks[side].ingress(world.now, frame, &meta);
}

/// A world in which what stack 0 knew grew old, was asked for when it had
/// something to send on the connection, and the answer came damaged.
fn misled() -> (World, net::ConnId) {
    let mut world = World::perfect();
    let (server, _) = world.connect();
    world.run_for(Span::from_secs(61));
    world.stacks[0].send(world.now, server, b"one").unwrap();
    let _ = sent(&mut world.stacks[0], world.now);
    tell(&mut world, 0, &claim(2, [2, 0, 0, 0, 0, 0x42], 1));
    (world, server)
}

/// Sends from stack 0 and tells whether stack 1 has it within `span`.
fn arrives_within(world: &mut World, conn: net::ConnId, span: Span) -> bool {
    world.stacks[0].send(world.now, conn, b"hello").unwrap();
    let events = world.run_for(span);
    events[1].iter().any(|e| matches!(e.kind, EventKind::Readable { .. }))
}

#[test]
fn unasked_contradiction_is_checked_before_it_is_believed() {
    let mut world = World::perfect();
    let (server, _) = world.connect();
    tell(&mut world, 0, &claim(2, [6; 6], 1));
    assert!(arrives_within(&mut world, server, Span::from_millis(1)), "the old address is still used");
}

#[test]
fn damaged_answer_delays_a_connection_by_a_few_timeouts() {
    let (mut world, server) = misled();
    assert!(arrives_within(&mut world, server, Span::from_secs(1)), "asked anew, answered right");
    world.run_for(Span::from_secs(1));
    assert!(arrives_within(&mut world, server, Span::from_millis(1)));
}

#[test]
fn idle_connection_whose_acknowledgement_waited_sleeps() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    world.stacks[1].send(world.now, client, b"x").unwrap();
    world.run_for(Span::from_secs(1));
    assert!(arrives_within(&mut world, server, Span::from_millis(1)));
    world.run_for(Span::from_secs(1));
    assert!(world.stacks.iter().all(|stack| !stack.wants_egress()));
}

#[test]
fn what_went_astray_goes_again_as_soon_as_the_right_address_is_known() {
    let (mut world, server) = misled();
    // A probe and two timeouts, 5, 5 and 10 ms, make it ask anew; the next one is 20 ms away.
    assert!(arrives_within(&mut world, server, Span::from_millis(30)), "with the answer, not with a timeout");
}
