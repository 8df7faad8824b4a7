//! Tests of address resolution in both families: requests, replies and timeouts.

//~ ip: ARP answers requests, caches within a bound, and re-checks old or contradicted entries (RFC 826, 5227)
//~ ip: neighbor discovery solicits, answers and follows router advertisements (RFC 4861)

use std::net::Ipv4Addr;

use net::EventKind;
use net::stack::{CloseReason, Unreachable};
use queueing::Span;
use wire::ndp::{Message, NeighborAdvertisement};
use wire::{arp, ethernet, ipv6};

use crate::host::{Host, MAC, PAIRS, PEER4, PEER6, STACK4, STACK6};
use crate::world::{World, config};

fn advertisement(mac: [u8; 6], solicited: bool, replaces: bool) -> Message<'static> {
    Message::NeighborAdvertisement(NeighborAdvertisement {
        target: PEER6,
        mac: Some(mac),
        router: false,
        solicited,
        replaces,
    })
}

#[test]
fn a_request_is_repeated_by_the_clock_and_its_failure_reaches_the_waiting_connection() {
    for (_, peer) in PAIRS {
        let mut host = Host::new(config(1));
        let conn = host.stack.connect(host.now, (peer, 80).into(), None).unwrap();
        let mut requested = Vec::new();
        for ms in [0, 250, 1000, 1000] {
            host.now += Span::from_millis(ms);
            host.stack.handle_timeout(host.now);
            let frames = host.frames();
            let question = |f: &Vec<u8>| f[12..14] == [8, 6] || f[20] == 58;
            requested.push(frames.iter().filter(|f| question(f)).count());
        }
        assert_eq!(requested, [1, 1, 1, 0], "{peer}");
        let event = host.stack.poll_event().unwrap();
        assert_eq!(
            (event.conn, event.kind),
            (conn, EventKind::Closed(CloseReason::Unreachable(Unreachable::Host)))
        );
        assert_eq!(host.stack.counters().neighbors_silent, 1);
    }
}

#[test]
fn a_reply_with_a_multicast_address_is_ignored() {
    let mut host = Host::new(config(1));
    host.stack.connect(host.now, (PEER4, 80).into(), None).unwrap();
    host.frames();
    for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0; 6]] {
        host.arp(arp::Operation::Reply, PEER4, mac, STACK4);
        assert!(host.frames().is_empty(), "{mac:02x?}");
    }
    host.arp(arp::Operation::Reply, PEER4, MAC, STACK4);
    assert_eq!(host.frames().len(), 1);
}

#[test]
fn a_waiting_connection_continues_as_soon_as_the_reply_arrives() {
    for (stack, peer) in PAIRS {
        let mut host = Host::new(config(1));
        host.stack.connect(host.now, (peer, 80).into(), None).unwrap();
        host.frames();
        assert!(host.frames().is_empty());
        if peer.is_ipv4() {
            host.arp(arp::Operation::Reply, PEER4, MAC, STACK4);
        } else {
            host.discover(PEER6, STACK6, &advertisement(MAC, true, true));
        }
        let received = host.receive();
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].mac, received[0].source, received[0].target), (MAC, stack, peer));
    }
}

#[test]
fn a_solicitation_is_answered_and_its_sender_cached() {
    let mut host = Host::new(config(1));
    let question = Message::NeighborSolicitation { target: STACK6, source: Some(MAC) };
    host.discover(PEER6, ipv6::solicited_node(STACK6), &question);
    let received = host.discoveries();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].0, received[0].1), (STACK6.into(), PEER6.into()));
    assert!(received[0].2.contains("solicited: true"));
    host.stack.connect(host.now, (PEER6, 80).into(), None).unwrap();
    assert_eq!(host.receive().len(), 1, "no request is needed");
}

#[test]
fn solicitations_from_another_subnet_or_without_an_address_are_answered() {
    // A host with several addresses; a probe of RFC 5227.
    for sender in [[172, 16, 0, 1], [0; 4]].map(Ipv4Addr::from) {
        let mut host = Host::new(config(1));
        host.arp(arp::Operation::Request, sender, MAC, STACK4);
        let frames = host.frames();
        assert_eq!((frames.len(), &frames[0][..6]), (1, &MAC[..]), "{sender}");
        let answer = arp::Packet::parse(&frames[0][ethernet::HEADER_LEN..]).unwrap();
        assert_eq!((answer.operation, answer.sender), (arp::Operation::Reply, STACK4));
        assert_eq!((answer.target, answer.target_mac), (sender, MAC));
    }
    for (sender, mac, target) in [
        ([172, 16, 0, 1], MAC, PEER4),
        ([224, 0, 0, 1], MAC, STACK4),
        ([255; 4], MAC, STACK4),
        ([172, 16, 0, 1], [0xff; 6], STACK4),
    ] {
        let mut host = Host::new(config(1));
        host.arp(arp::Operation::Request, sender.into(), mac, target);
        assert!(host.frames().is_empty(), "{sender:?} by {mac:02x?} for {target}");
    }
}

#[test]
fn neighbor_discovery_forwarded_by_a_router_is_refused() {
    let mut host = Host::new(config(1));
    let question = Message::NeighborSolicitation { target: STACK6, source: Some(MAC) };
    let mut bytes = Vec::new();
    question.emit(&mut bytes);
    wire::icmpv6::finish_checksum(&mut bytes, PEER6, STACK6);
    let mut frame = crate::host::frame(PEER6.into(), STACK6.into(), wire::ip::Protocol::Icmpv6, &bytes);
    frame[ethernet::HEADER_LEN + 7] = 254;
    host.raw(&frame);
    assert!(host.frames().is_empty());
}

#[test]
fn an_unsolicited_advertisement_is_verified_before_it_is_accepted() {
    for replaces in [false, true] {
        let mut host = Host::introduced(config(1));
        host.discover(PEER6, ipv6::ALL_NODES, &advertisement([6; 6], false, replaces));
        host.stack.connect(host.now, (PEER6, 80).into(), None).unwrap();
        let received = host.receive();
        assert!(received.iter().any(|s| s.mac == MAC), "the old address is still in use");
        assert!(
            received.iter().any(|s| s.mac == ipv6::multicast_mac(ipv6::solicited_node(PEER6))),
            "and asked for"
        );
    }
}

#[test]
fn handshake_over_ipv6_takes_a_solicitation_and_a_round_trip() {
    let mut world = World::perfect();
    let (server, client) = world.connect_to(crate::world::SERVER[1]);
    let tuple = world.stacks[0].tuple(server).unwrap();
    assert_eq!((tuple.local, tuple.local_port), (STACK6.into(), 80));
    assert_eq!(tuple.remote, world.stacks[1].tuple(client).unwrap().local);
}
