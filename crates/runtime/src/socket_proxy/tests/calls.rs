//! Slow requests on connections that programs open.

//~ views: requests that a program sends become client spans that name the server

use net::stack::ListenOptions;
use queueing::Span;

use super::super::*;
use super::world::{THERE, World};
use crate::shard::{RequestEnd, Side};

/// A world with a connection that a program has opened, which records all requests.
fn world() -> World {
    let mut world = World::without(1000);
    world.proxy.set_slow(SlowRequestLimits { over: Span::ZERO, most: 10, levels: PrioritySet::ALL });
    world.client.listen(90, ListenOptions::default()).unwrap();
    world.open();
    world.settle();
    world
}

#[test]
fn a_call_is_timed_from_its_first_byte_to_the_first_response_byte() {
    let mut world = world();
    let begin = world.now;
    world.answer(0, b"GET /pay?card=1 HTTP/1.1\r\nHo");
    world.now += Span::from_millis(3);
    world.answer(0, b"st: a\r\n\r\n");
    world.now += Span::from_millis(20);
    assert_eq!(world.slow().0, [], "it is not answered");
    world.ask(0, b"HTTP/1.1 200 OK\r\n");
    let end = world.now;
    let (slow, together) = world.slow();
    let [slow] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((&*slow.attributes.method, &*slow.attributes.path, together), ("GET", "/pay", 0));
    assert_eq!((slow.request, slow.response, slow.end), (37, 17, RequestEnd::Answered));
    assert_eq!(slow.side, Side::Called(THERE.parse().unwrap()));
    assert!(slow.begun > begin && slow.begun + slow.total() < end, "{slow:?}");
    let [nic, tcp, event, service, transmit] = slow.stages;
    assert!(transmit >= Span::from_millis(3) && transmit < Span::from_millis(4), "{transmit}");
    assert!(service >= Span::from_millis(20) && service < Span::from_millis(21), "{service}");
    assert!(nic + tcp + event < Span::from_millis(1), "{slow:?}");
    world.ask(0, b"Content-Length: 0\r\n\r\n");
    assert_eq!(world.slow().0, [], "only the first part of an answer counts");
}

#[test]
fn an_unread_response_waits_in_the_last_stage() {
    let mut world = world();
    world.end(0).borrow_mut().room = 0;
    world.answer(0, b"get a\r\n");
    world.ask(0, b"END\r\n");
    world.now += Span::from_millis(7);
    world.end(0).borrow_mut().room = 100;
    world.notify(0);
    world.settle();
    let (slow, _) = world.slow();
    let [slow] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((&*slow.attributes.method, &*slow.attributes.path), ("GET", ""), "no key is recorded");
    assert!(slow.stages[2] >= Span::from_millis(7), "{slow:?}");
}

#[test]
fn concurrent_calls_are_counted_and_not_logged() {
    let mut world = world();
    world.answer(0, b"get a\r\nget b\r\n");
    world.answer(0, b"get c\r\n");
    world.ask(0, b"END\r\nEND\r\nEND\r\n");
    assert_eq!(world.slow(), (vec![], 3));
    world.answer(0, b"get d\r\n");
    world.ask(0, b"END\r\n");
    let (slow, together) = world.slow();
    assert_eq!((slow.len(), together), (1, 3));
}

#[test]
fn a_call_without_a_response_is_logged_as_closed_if_one_was_expected() {
    for (bytes, is_due) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], true),
        (b"set k 0 0 1 noreply\r\nx\r\n", false),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf", false),
        (b"\x16\x03\x01\x02\x00 is TLS", false),
    ] {
        let mut world = world();
        world.answer(0, bytes);
        world.now += Span::from_millis(7);
        world.leave(0);
        let (slow, together) = world.slow();
        assert_eq!((slow.len(), together), (usize::from(is_due), 0), "{bytes:?}");
        for slow in slow {
            assert_eq!((slow.end, slow.response), (RequestEnd::Gone, 0));
            assert!(slow.stages[3] >= Span::from_millis(7), "it waited for the peer: {slow:?}");
        }
    }
}

#[test]
fn unsolicited_data_completes_no_call() {
    let mut world = world();
    world.ask(0, b"220 who are you?\r\n");
    world.answer(0, b"get a\r\n");
    assert_eq!(world.slow(), (vec![], 0));
    world.ask(0, b"END\r\n");
    assert_eq!(world.slow().0.len(), 1);
}
