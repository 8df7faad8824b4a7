//! Tests of UDP in both families: order by label, bounds, fragments.

//~ ip: UDP in both families uses the same classifiers and a receive queue ordered by label (RFC 768)

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use classify::{PacketMeta, Verdict};
use net::stack::{Config, Ipv6, ListenError, SendError, SendOptions, UdpId, UdpOptions, UdpPath};
use queueing::{Label, Priority, Span};
use wire::ip::Protocol;
use wire::{icmp, udp};

use crate::host::{Host, PAIRS, frame};
use crate::world::{World, config};

fn datagram(source: IpAddr, target: IpAddr, payload: &[u8]) -> Vec<u8> {
    let datagram = udp::Datagram { source_port: 9, target_port: 53, payload };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(source, target, &mut bytes);
    bytes
}

fn read(host: &mut Host, id: UdpId) -> Vec<Vec<u8>> {
    let now = host.now;
    std::iter::from_fn(|| host.stack.receive_from(now, id)).map(|d| d.payload).collect()
}

/// Sockets of both ends on port 53.
fn sockets(world: &mut World) -> [UdpId; 2] {
    [0, 1].map(|i| world.stacks[i].bind_udp(53, UdpOptions::default()).unwrap())
}

#[test]
fn a_datagram_of_any_length_is_reassembled() {
    for (stack, peer) in PAIRS {
        let mut world = World::perfect();
        let ids = sockets(&mut world);
        for len in [0usize, 1, 1452, 1472, 1473, 4000, 65_507] {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            world.stacks[0].send_to(world.now, ids[0], (peer, 53).into(), &payload).unwrap();
            world.run_for(Span::from_millis(10));
            assert_eq!(world.stacks[1].poll_udp(), Some(ids[1]), "{len} to {peer}");
            let got = world.stacks[1].receive_from(world.now, ids[1]).unwrap();
            assert!(got.payload == payload, "{len}");
            assert_eq!((got.remote, got.local), (SocketAddr::new(stack, 53), peer));
            assert_eq!(world.stacks[1].receive_from(world.now, ids[1]), None);
        }
        assert!(world.stacks[1].counters().reassembled >= 3);
    }
}

//~ mechanisms: M8: the urgent datagram is read first and displaces a less urgent one
#[test]
fn the_urgent_datagram_is_read_first_and_replaces_another() {
    let classifier: classify::TransportClassifier =
        Arc::new(|cx| Verdict::Level(cx.payload.first().copied().unwrap_or(9)));
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let options =
            UdpOptions { capacity: 3, classifier: Some(classifier.clone()), ..UdpOptions::default() };
        let id = host.stack.bind_udp(53, options).unwrap();
        for level in [5, 7, 3, 0, 7] {
            host.send(peer, stack, Protocol::Udp, &datagram(peer, stack, &[level]));
        }
        assert_eq!(read(&mut host, id), [[0], [3], [5]]);
        assert_eq!(host.stack.counters().udp_full, 2);
    }
}

#[test]
fn the_drivers_verdict_is_the_label_without_a_classifiers_verdict() {
    let (stack, peer) = PAIRS[1];
    let mut host = Host::introduced(config(1));
    let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
    let frame = frame(peer, stack, Protocol::Udp, &datagram(peer, stack, b"x"));
    let meta = PacketMeta { priority: Priority::new(2), ..crate::world::meta(host.now, &frame) };
    host.stack.ingress(host.now, &frame, &meta);
    let got = host.stack.receive_from(host.now, id).unwrap();
    assert_eq!((got.label, got.received), (Label::new(Priority::new(2).unwrap()), host.now));
}

#[test]
fn a_wrong_checksum_is_dropped_and_a_missing_one_is_accepted_over_ipv4() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        let mut bytes = datagram(peer, stack, b"x");
        bytes[7] ^= 1;
        host.send(peer, stack, Protocol::Udp, &bytes);
        assert_eq!(read(&mut host, id), [[0; 0]; 0]);
        bytes[6..8].fill(0);
        host.send(peer, stack, Protocol::Udp, &bytes);
        assert_eq!(read(&mut host, id).len(), usize::from(stack.is_ipv4()));
    }
}

#[test]
fn a_refused_send_returns_its_reason() {
    let mut host = Host::new(Config { ipv6: Some(Ipv6 { slaac: false, ..Ipv6::default() }), ..config(1) });
    let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
    assert_eq!(host.stack.bind_udp(53, UdpOptions::default()), Err(ListenError::PortInUse(53)));
    let mut send =
        |id, to: &str, len: usize| host.stack.send_to(host.now, id, to.parse().unwrap(), &vec![0; len]);
    assert_eq!(send(UdpId(54), "10.0.0.2:1", 1), Err(SendError::NotOpen));
    assert_eq!(send(id, "11.0.0.2:1", 1), Err(SendError::NoRoute));
    assert_eq!(send(id, "[2001:db8::1]:1", 1), Err(SendError::NoRoute));
    assert_eq!(send(id, "10.0.0.2:1", 65_508), Err(SendError::TooLong));
    for _ in 0..256 {
        assert_eq!(send(id, "10.0.0.2:1", 65_507), Ok(()));
    }
    assert_eq!(send(id, "10.0.0.2:1", 1), Err(SendError::Full));
}

#[test]
fn datagrams_wait_for_a_neighbor_and_are_dropped_when_it_is_silent() {
    for (_, peer) in PAIRS {
        let mut host = Host::new(config(1));
        let id = host.stack.bind_udp(0, UdpOptions::default()).unwrap();
        for _ in 0..100 {
            host.stack.send_to(host.now, id, (peer, 1).into(), b"x").unwrap();
            host.frames();
        }
        assert!(!host.stack.wants_egress());
        host.pass(Span::from_secs(3));
        assert_eq!(host.stack.counters().udp_unsent, 100, "36 for lack of space, 64 unresolved");
    }
}

#[test]
fn an_error_about_a_datagram_reaches_its_socket() {
    for pair in PAIRS {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        let remote = SocketAddr::new(pair.1, 7);
        host.stack.send_to(host.now, id, remote, b"x").unwrap();
        let sent = host.receive().remove(0);
        crate::icmp::complain(&mut host, pair, icmp::Cause::Port, &sent.packet);
        assert_eq!(host.stack.take_udp_error(id), Some((remote, icmp::Cause::Port)));
        assert_eq!(host.stack.take_udp_error(id), None);
    }
}

#[test]
fn a_broadcast_datagram_is_received() {
    let (_, peer) = PAIRS[0];
    for broadcast in ["255.255.255.255", "10.0.0.255"] {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        let target = broadcast.parse().unwrap();
        let mut frame = frame(peer, target, Protocol::Udp, &datagram(peer, target, b"all"));
        frame[..6].fill(0xff);
        host.raw(&frame);
        assert_eq!(read(&mut host, id), [b"all"]);
        host.stack.close_udp(id);
        host.raw(&frame);
        assert!(host.frames().is_empty(), "no error for a broadcast");
    }
}

//~ datagrams: a datagram whose local address is of the other family leaves from one of the peer's
#[test]
fn a_local_address_of_the_other_family_is_not_used() {
    for ((local, _), (stack, peer)) in PAIRS.into_iter().zip(PAIRS.into_iter().rev()) {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        let path = UdpPath { id, local, remote: (peer, 7).into() };
        host.stack.answer(&path, &SendOptions::default(), b"x").unwrap();
        let sent: Vec<_> = host.receive().iter().map(|sent| (sent.source, sent.target)).collect();
        assert_eq!(sent, [(stack, peer)]);
    }
}

//~ programs: packets carry the hop limit of their socket; segments below IP_MINTTL are dropped (RFC 5082)
#[test]
fn a_datagram_and_each_fragment_have_the_requested_hop_limit() {
    for (_, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let id = host.stack.bind_udp(53, UdpOptions::default()).unwrap();
        for (hops, expected) in [(None, 64), (Some(1), 1), (Some(255), 255)] {
            for len in [1, 4000] {
                let path = UdpPath { id, local: peer, remote: (peer, 7).into() };
                let options = SendOptions { hops, ..SendOptions::default() };
                host.stack.answer(&path, &options, &vec![0; len]).unwrap();
                let sent: Vec<_> = host.receive().iter().map(|sent| sent.hops).collect();
                assert_eq!(sent, vec![expected; len.div_ceil(1480)], "{len} bytes");
            }
        }
    }
}
