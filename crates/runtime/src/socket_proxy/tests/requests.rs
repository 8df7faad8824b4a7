//! Slow requests on accepted connections.

//~ views: requests of an unmodified server become traces with stages

use queueing::Span;

use super::super::*;
use super::world::World;
use crate::shard::{RequestEnd, Side};

/// A world with one connection, which records all requests.
fn world() -> World {
    let mut world = World::without(1000);
    world.proxy.set_slow(SlowRequestLimits { over: Span::ZERO, most: 10, levels: PrioritySet::ALL });
    world.connect();
    world
}

#[test]
fn a_request_is_timed_from_the_device_to_the_first_response_byte() {
    let mut world = world();
    world.ask(0, b"GET /pay?card=1 HTTP/1.1\r\nHo");
    let half = world.now;
    world.now += Span::from_millis(3);
    world.ask(0, b"st: a\r\n\r\n");
    assert_eq!(world.slow().0, [], "it is not answered");
    world.now += Span::from_millis(20);
    world.answer(0, b"HTTP/1.1 200 OK\r\n");
    let (slow, together) = world.slow();
    let [slow] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((&*slow.attributes.method, &*slow.attributes.path, together), ("GET", "/pay", 0));
    assert_eq!(
        (slow.request, slow.response, slow.end, slow.side),
        (37, 17, RequestEnd::Answered, Side::Served)
    );
    assert!(slow.begun > half && slow.begun < world.now, "the segment that completed it");
    let [nic, tcp, event, service, transmit] = slow.stages;
    assert!(service >= Span::from_millis(20), "{service}");
    assert!(nic + tcp + event + transmit < Span::from_millis(1), "{slow:?}");
    world.answer(0, b"Content-Length: 0\r\n\r\n");
    assert_eq!(world.slow().0, [], "only the first part of an answer counts");
}

#[test]
fn concurrent_requests_are_counted_and_not_logged() {
    let mut world = world();
    world.ask(0, b"get a\r\nget b\r\n");
    world.ask(0, b"get c\r\n");
    world.answer(0, b"END\r\nEND\r\nEND\r\n");
    assert_eq!(world.slow(), (vec![], 3));
    world.ask(0, b"get d\r\n");
    world.answer(0, b"END\r\n");
    let (slow, together) = world.slow();
    assert_eq!((slow.len(), together), (1, 3));
    assert_eq!((&*slow[0].attributes.method, &*slow[0].attributes.path), ("GET", ""), "no key is recorded");
}

#[test]
fn an_unanswered_request_is_logged_as_closed_if_a_response_was_expected() {
    let mut world = world();
    (0..3).for_each(|_| world.connect());
    world.ask(0, b"GET / HTTP/1.1\r\n\r\n");
    world.ask(1, b"set k 0 0 1 noreply\r\nx\r\n");
    world.ask(2, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf");
    world.ask(3, b"\x16\x03\x01\x02\x00 is TLS");
    world.now += Span::from_millis(7);
    (0..4).for_each(|n| world.leave(n));
    let (slow, together) = world.slow();
    let [slow] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((slow.end, slow.response, together), (RequestEnd::Gone, 0, 0));
    assert!(slow.stages[3] >= Span::from_millis(7) && slow.stages[4] == Span::ZERO, "{slow:?}");
}

#[test]
fn messages_are_timed_if_a_rule_gives_their_length() {
    let mut world = world();
    let message = b"\x07pay 42.";
    world.ask(0, message);
    world.answer(0, b"done");
    assert_eq!(world.slow().0, [], "its first bytes do not show the protocol");
    let policy = "[message]\nlength_at = 0\nlength_bytes = 1\nlength_adds = 1\n\
        [[rule]]\nlayer = \"transport\"\nport = 80\nmessage = \"any\"\npriority = 0\n";
    let policy = classify::rules::Policy::parse(policy).unwrap();
    world.proxy.set_protocols(policy.protocols());
    world.connect();
    let (half, rest) = message.split_at(3);
    world.ask(1, half);
    world.now += Span::from_millis(3);
    world.ask(1, rest);
    world.now += Span::from_millis(20);
    world.answer(1, b"done");
    let (slow, _) = world.slow();
    let [slow] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((slow.request, slow.response, slow.end), (message.len(), 4, RequestEnd::Answered));
    assert!(slow.stages[3] >= Span::from_millis(20), "from its last byte on: {:?}", slow.stages);
    assert!(slow.stages[3] < Span::from_millis(23), "and not from its first: {:?}", slow.stages);
}

#[test]
fn without_a_slow_request_log_nothing_is_parsed() {
    let mut world = World::new(1000);
    world.ask(0, b"GET / HTTP/1.1\r\n\r\n");
    world.answer(0, b"HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(world.slow(), (vec![], 0));
}
