//! Tests of the transmit order when the device accepts few frames.

//~ stack: connections send in the order of their labels, with a stated bound of waiting

use net::stack::{ListenOptions, TransmitOrder};
use net::{ConnId, EventKind, Stack};
use queueing::{Label, Priority, Span, Time};
use wire::ethernet::Frame;

use crate::world::{Faults, Outbox, World, config};

/// Frames that the device accepts per round.
const SPACE: usize = 4;
/// Number of segments that a connection sends per transmit opportunity.
const TURN: usize = 16;

/// Server with `n` connections; both ends of each.
fn connected(n: usize, order: TransmitOrder) -> (World, Vec<(ConnId, ConnId)>) {
    let server = net::stack::Config { transmit: order, ..config(1) };
    let mut world = World::new([server, config(2)], Faults::default(), 1);
    world.stacks[0].listen(80, ListenOptions::default()).unwrap();
    let conns = (0..n).map(|_| world.connect()).collect();
    (world, conns)
}

fn urgency(level: u8) -> Label {
    Label::new(Priority::new(level).unwrap())
}

/// Frames that the server sends when the device accepts [`SPACE`] frames.
fn round(stack: &mut Stack, now: Time) -> Vec<Vec<u8>> {
    let mut outbox = Outbox { frames: Vec::new(), space: SPACE };
    stack.egress(now, &mut outbox);
    outbox.frames
}

/// TCP payload of a frame.
fn payload(frame: &[u8]) -> &[u8] {
    let ip = Frame::parse(frame).unwrap().payload;
    let tcp = &ip[usize::from(ip[0] & 15) * 4..];
    &tcp[usize::from(tcp[12] >> 4) * 4..]
}

/// Runs rounds of a blocked device until a frame with `byte` is sent; returns the number of frames
/// before it.
fn frames_before(world: &mut World, byte: u8) -> usize {
    let mut before = 0;
    for _ in 0..1000 {
        for frame in round(&mut world.stacks[0], world.now) {
            if payload(&frame).first() == Some(&byte) {
                return before;
            }
            before += 1;
        }
        world.now += Span::from_micros(10);
    }
    panic!("no frame with {byte} in 1000 rounds");
}

/// Frames before an urgent response, after 40 bulk senders have filled their windows.
fn urgent_after_bulk(order: TransmitOrder) -> usize {
    let (mut world, conns) = connected(41, order);
    let (now, [server, _]) = (world.now, &mut world.stacks);
    for (conn, _) in &conns[1..] {
        server.set_label(now, *conn, urgency(7));
        server.send(now, *conn, &[1; 60_000]).unwrap();
    }
    let sent = round(server, now).len();
    assert_eq!(sent, SPACE, "the device is blocked");
    server.set_label(now, conns[0].0, urgency(0));
    server.send(now, conns[0].0, &[9; 100]).unwrap();
    frames_before(&mut world, 9)
}

#[test]
fn an_urgent_response_waits_for_one_turn_at_most() {
    let before = urgent_after_bulk(TransmitOrder::STRICT);
    assert!(before <= TURN, "{before} frames went first");
    let before = urgent_after_bulk(TransmitOrder::WEIGHTED);
    assert!(before <= TURN, "{before} frames went first by weights");
    let before = urgent_after_bulk(TransmitOrder::Fifo);
    assert!(before > 300, "round robin serves all others first: {before}");
}

#[test]
fn unsent_data_becomes_as_urgent_as_the_data_after_it() {
    let (mut world, conns) = connected(2, TransmitOrder::STRICT);
    let (now, [server, _]) = (world.now, &mut world.stacks);
    for (conn, label, byte) in [(conns[0].0, 5, 5), (conns[1].0, 7, 7), (conns[1].0, 0, 8)] {
        server.set_label(now, conn, urgency(label));
        server.send(now, conn, &[byte; 100]).unwrap();
    }
    let frames = round(server, now);
    let starts: Vec<u8> = frames.iter().filter_map(|frame| payload(frame).first().copied()).collect();
    assert_eq!(starts, [7, 5], "the raised connection goes first, its bytes in order");
}

#[test]
fn bulk_continues_under_a_flood_of_urgent_responses() {
    let (mut world, conns) = connected(9, TransmitOrder::STRICT);
    world.stacks[0].set_label(world.now, conns[0].0, urgency(7));
    world.stacks[0].send(world.now, conns[0].0, &[7; 200_000]).unwrap();
    let mut received = [0; 2];
    // In each round the device accepts fewer frames than the urgent connections have.
    for _ in 0..20_000 {
        let now = world.now;
        for (conn, _) in &conns[1..] {
            world.stacks[0].set_label(now, *conn, urgency(0));
            let _ = world.stacks[0].send(now, *conn, &[0; 2_000]);
        }
        for frame in round(&mut world.stacks[0], now) {
            world.stacks[1].ingress(now, &frame, &crate::world::meta(now, &frame));
        }
        while let Some(event) = world.stacks[1].poll_event() {
            if let EventKind::Readable { .. } = event.kind {
                let n = world.stacks[1].received(event.conn).len();
                world.stacks[1].consume(now, event.conn, n);
                received[usize::from(event.conn == conns[0].1)] += n;
            }
        }
        for frame in crate::world::sent(&mut world.stacks[1], now) {
            world.stacks[0].ingress(now, &frame, &crate::world::meta(now, &frame));
        }
        world.now += Span::from_micros(50);
        world.stacks.iter_mut().for_each(|stack| stack.handle_timeout(now));
    }
    let [urgent, bulk] = received;
    // After 1 s, aging at 10 ms gives bulk 100 transmit opportunities.
    assert!(bulk >= 200_000, "bulk got {bulk} bytes");
    assert!(urgent > 10 * bulk, "urgent got {urgent} bytes, bulk {bulk}");
}

//~ stack: acknowledgements are sent while bulk data fills the device
#[test]
fn a_bulk_receiver_acknowledges_while_others_fill_the_device() {
    let (mut world, conns) = connected(21, TransmitOrder::STRICT);
    let now = world.now;
    for (conn, _) in &conns[1..] {
        world.stacks[0].set_label(now, *conn, urgency(0));
        world.stacks[0].send(now, *conn, &[0; 60_000]).unwrap();
    }
    let mut acked = 0;
    for _ in 0..40 {
        // The client of connection 0 sends bulk data.
        world.stacks[1].send(world.now, conns[0].1, &[3; 3_000]).unwrap();
        for frame in crate::world::sent(&mut world.stacks[1], world.now) {
            world.stacks[0].ingress(world.now, &frame, &crate::world::meta(world.now, &frame));
        }
        let frames = round(&mut world.stacks[0], world.now);
        acked += usize::from(frames.iter().any(|frame| payload(frame).is_empty()));
        for frame in frames {
            world.stacks[1].ingress(world.now, &frame, &crate::world::meta(world.now, &frame));
        }
        world.now += Span::from_micros(10);
    }
    // A started transmit opportunity takes four rounds.
    assert!(acked >= 10, "in {acked} of 40 rounds an acknowledgement went out");
    assert_eq!(world.stacks[0].received(conns[0].0).len(), 120_000, "the sender was never held up");
}

//~ stack: packets carry the DSCP of their level
#[test]
fn packets_carry_the_code_point_of_their_level() {
    let (mut world, conns) = connected(1, TransmitOrder::STRICT);
    let (now, conn, [server, _]) = (world.now, conns[0].0, &mut world.stacks);
    let dscp = server.config().dscp;
    let marks = |server: &mut Stack| {
        server.send(now, conn, &[1; 100]).unwrap();
        crate::world::sent(server, now).iter().map(|frame| frame[15] >> 2).collect::<Vec<u8>>()
    };
    for level in [0, 4, 7] {
        server.set_label(now, conn, urgency(level));
        assert_eq!(marks(server), [dscp[usize::from(level)]], "level {level}");
    }
    assert_eq!(dscp[7], 0, "unclassified data is best effort");
    server.set_dscp(now, conn, 10);
    assert_eq!((marks(server), server.info(now, conn).unwrap().dscp), (vec![10], 10), "the application's");
    server.set_label(now, conn, urgency(0));
    assert_eq!(marks(server), [10], "at any level");
    server.set_dscp(now, conn, 0);
    assert_eq!(marks(server), [dscp[0]]);
}

#[test]
fn a_chosen_code_point_is_on_single_segments_too() {
    let (mut world, conns) = connected(1, TransmitOrder::STRICT);
    let (ours, peer) = conns[0];
    world.stacks[0].set_dscp(world.now, ours, 10);
    for _ in 0..3 {
        world.stacks[0].send(world.now, ours, &[1; 100]).unwrap();
        let frames = crate::world::sent(&mut world.stacks[0], world.now);
        assert_eq!(frames.iter().map(|frame| frame[15] >> 2).collect::<Vec<_>>(), [10]);
        for frame in frames {
            world.stacks[1].ingress(world.now, &frame, &crate::world::meta(world.now, &frame));
        }
        // All data is acknowledged before the next response.
        world.stacks[1].consume(world.now, peer, 100);
        world.run_for(Span::from_millis(100));
    }
}
