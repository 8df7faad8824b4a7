//! Tests of wrong hardware addresses: corrupted, forged or changed.

use net::stack::Ecn;
use net::{EventKind, Stack};
use queueing::{Span, Time};
use wire::tcp::{FLAGS_AT, Flags};
use wire::{arp, ethernet, ipv4};

use crate::world::{SERVER, World, config, meta, sent};

/// ARP reply to `to` that claims `mac` for `10.0.0.<host>`.
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

fn inject(world: &mut World, side: usize, frame: &[u8]) {
    let meta = meta(world.now, frame);
    world.stacks[side].ingress(world.now, frame, &meta);
}

/// World in which stack 0's neighbour entry expired, data on the connection triggered a new ARP
/// request, and the reply was corrupted.
fn misled() -> (World, net::ConnId) {
    let mut world = World::perfect();
    let (server, _) = world.connect();
    world.run_for(Span::from_secs(61));
    world.stacks[0].send(world.now, server, b"one").unwrap();
    let _ = sent(&mut world.stacks[0], world.now);
    inject(&mut world, 0, &claim(2, [2, 0, 0, 0, 0, 0x42], 1));
    (world, server)
}

/// Sends from stack 0; true if stack 1 has received it within `span`.
fn arrives_within(world: &mut World, conn: net::ConnId, span: Span) -> bool {
    world.stacks[0].send(world.now, conn, b"hello").unwrap();
    let events = world.run_for(span);
    events[1].iter().any(|e| matches!(e.kind, EventKind::Readable { .. }))
}

#[test]
fn unsolicited_contradiction_is_verified_before_it_is_accepted() {
    let mut world = World::perfect();
    let (server, _) = world.connect();
    inject(&mut world, 0, &claim(2, [6; 6], 1));
    assert!(arrives_within(&mut world, server, Span::from_millis(1)), "the old address is still in use");
}

#[test]
fn damaged_reply_delays_a_connection_by_a_few_timeouts() {
    let (mut world, server) = misled();
    assert!(arrives_within(&mut world, server, Span::from_secs(1)), "a new request, a correct reply");
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
fn misdirected_segments_are_retransmitted_once_the_right_address_is_known() {
    let (mut world, server) = misled();
    // A probe and two timeouts, 5, 5 and 10 ms, trigger a new request; the next one is 20 ms away.
    assert!(arrives_within(&mut world, server, Span::from_millis(30)), "with the reply, not with a timeout");
}

/// Connects from host 2 to host 1, whose ARP reply arrives after `delay`. Returns the control bits
/// of the segments sent then, and of those sent within `span` after it.
fn opened_after(delay: Span, span: Span) -> [Vec<Flags>; 2] {
    let mut stack = Stack::new(net::stack::Config { ecn: Ecn::Classic, ..config(2) });
    let (start, wait) = (Time::from_nanos(1_000_000_000), |stack: &mut Stack, until: Time| {
        let mut flags = Vec::new();
        while let Some(due) = stack.poll_timeout().filter(|due| *due < until) {
            stack.handle_timeout(due);
            flags.extend(segments(&sent(stack, due)));
        }
        flags
    });
    stack.connect(start, SERVER[0].parse().unwrap(), None).unwrap();
    assert_eq!(segments(&sent(&mut stack, start)), []);
    assert_eq!(wait(&mut stack, start + delay), []);
    let answer = claim(1, [2, 0, 0, 0, 0, 1], 2);
    stack.ingress(start + delay, &answer, &meta(start + delay, &answer));
    let first = segments(&sent(&mut stack, start + delay));
    [first, wait(&mut stack, start + delay + span)]
}

/// Control bits of the segments in `frames`.
fn segments(frames: &[Vec<u8>]) -> Vec<Flags> {
    let flags_at = ethernet::HEADER_LEN + ipv4::HEADER_LEN + FLAGS_AT;
    let segments = frames.iter().filter(|frame| frame[12..14] == [8, 0]);
    segments.map(|frame| Flags::from_bits(frame[flags_at])).collect()
}

#[test]
fn timer_of_a_segment_starts_when_it_leaves() {
    let requests = Flags::SYN | Flags::ECE | Flags::CWR;
    let early = opened_after(Span::from_millis(900), Span::from_millis(999));
    assert_eq!(early, [vec![requests], vec![]], "RFC 6298 §5.1");
    let late = opened_after(Span::from_millis(1100), Span::from_millis(999));
    assert_eq!(late, [vec![requests], vec![]], "no SYN was lost that might have been dropped for its bits");
}

#[test]
fn a_reused_connection_slot_gets_no_event_of_the_old_ones_neighbor() {
    let (mut stack, start) = (Stack::new(config(2)), Time::from_nanos(1_000_000_000));
    let silent = stack.connect(start, "10.0.0.9:80".parse().unwrap(), None).unwrap();
    let _ = sent(&mut stack, start);
    stack.abort(start, silent);
    let answer = claim(1, [2, 0, 0, 0, 0, 1], 2);
    let other = stack.connect(start, SERVER[0].parse().unwrap(), None).unwrap();
    let _ = sent(&mut stack, start);
    stack.ingress(start, &answer, &meta(start, &answer));
    assert_eq!(segments(&sent(&mut stack, start)), [Flags::SYN]);
    // No host has 10.0.0.9, which is known after three requests.
    let until = start + Span::from_secs(3);
    while let Some(due) = stack.poll_timeout().filter(|due| *due < until) {
        stack.handle_timeout(due);
        let _ = sent(&mut stack, due);
    }
    assert_eq!(stack.counters().neighbors_silent, 1);
    let ended: Vec<_> =
        std::iter::from_fn(|| stack.poll_event()).filter(|event| event.conn == other).collect();
    assert_eq!(ended, [], "only ARP requests are sent");
}
