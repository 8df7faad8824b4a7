//! Connections that programs open.

//~ programs: attempts to connect that are refused, unreachable or time out are reported and leave nothing

use classify::PacketMeta;
use net::stack::ListenOptions;

use super::*;

#[test]
fn a_program_opens_a_connection_and_bytes_pass_both_ways() {
    let mut world = World::without(1000);
    world.client.listen(90, ListenOptions::default()).unwrap();
    world.open();
    world.proxy.step(world.now, &mut world.near);
    let end = world.end(0);
    assert!(end.borrow().opening && world.proxy.is_quiet(), "an open handshake does not delay a stop");
    end.borrow_mut().outbound.extend(b"request");
    world.notify(0);
    world.settle();
    assert!(!end.borrow().opening);
    assert_eq!(world.received, b"request", "output from before the handshake is kept");
    world.send(0, b"response");
    world.settle();
    assert_eq!(end.borrow().inbound, *b"response");
    assert_eq!((world.proxy.counters.opened, world.proxy.counters.connects_failed), (1, 0));
    end.borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    assert_eq!(world.closed, [EventKind::PeerClosed]);
}

#[test]
fn a_refused_connect_reports_connection_refused() {
    let mut world = World::without(100);
    world.open();
    world.settle();
    assert_eq!(world.proxy.programs.connects_failed, [ConnectFailure::Remote(CloseReason::Reset)]);
    assert!(world.end(0).borrow().dropped);
    assert_eq!((world.proxy.connections(), world.proxy.counters.connects_failed), (0, 1));
}

#[test]
fn an_absent_host_is_unreachable_and_a_silent_one_times_out() {
    let mut world = World::without(100);
    world.open();
    // No host answers ARP.
    for _ in 0..60 {
        world.proxy.step(world.now, &mut world.near);
        world.now += Span::from_millis(500);
        while let Some(received) = world.far.receive(world.now) {
            world.far.recycle(received.frame);
        }
    }
    assert_eq!(
        world.proxy.programs.connects_failed,
        [ConnectFailure::Remote(CloseReason::Unreachable(Unreachable::Host))]
    );
    // The host answers ARP, and then no more TCP.
    let mut world = World::new(100);
    world.open();
    for _ in 0..2000 {
        world.proxy.step(world.now, &mut world.near);
        world.now += Span::from_millis(500);
        while let Some(received) = world.far.receive(world.now) {
            // It still answers ARP.
            if received.frame.as_ref()[12..14] == [8, 6] {
                let frame = received.frame.as_ref();
                world.client.ingress(world.now, frame, &PacketMeta::new(world.now, frame.len()));
                world.client.egress(world.now, &mut world.far);
            }
            world.far.recycle(received.frame);
        }
    }
    assert_eq!(world.proxy.programs.connects_failed, [ConnectFailure::Remote(CloseReason::TimedOut)]);
}

#[test]
fn without_a_route_no_connect_starts() {
    let mut world = World::without(100);
    let to = "192.0.2.1:80".parse().unwrap();
    world.proxy.programs.events.push(AppEvent::Connect {
        call: 1,
        to,
        port: None,
        hops: HopLimits::default(),
    });
    world.settle();
    let why = ConnectFailure::Local(net::stack::ConnectError::NoRoute);
    assert_eq!((&world.proxy.programs.connects_failed[..], world.proxy.connections()), (&[why][..], 0));
}

#[test]
fn a_failed_connect_leaves_no_state() {
    let mut world = World::without(100);
    world.client.listen(90, ListenOptions::default()).unwrap();
    world.proxy.programs.refuses = true;
    world.open();
    world.settle();
    assert_eq!((world.proxy.connections(), world.proxy.stack.connections()), (0, 0));
}

#[test]
fn closing_during_the_handshake_aborts_it() {
    let mut world = World::without(100);
    world.client.listen(90, ListenOptions::default()).unwrap();
    world.open();
    world.proxy.step(world.now, &mut world.near);
    world.end(0).borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    assert!(world.end(0).borrow().dropped);
    assert_eq!(world.proxy.programs.connects_failed, [ConnectFailure::Remote(CloseReason::Aborted)]);
    assert_eq!((world.proxy.connections(), world.proxy.counters.connects_failed), (0, 1));
    assert_eq!(world.proxy.stack.connections(), 0, "no SYN is retransmitted");
}
