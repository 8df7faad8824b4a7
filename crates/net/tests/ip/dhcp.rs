//! Tests of DHCP: acquiring, renewing and losing a lease.

//~ ip: a DHCPv4 client discovers, requests and renews an address, and starts again after a refusal (RFC 2131)

use std::net::{IpAddr, Ipv4Addr};

use net::stack::{Config, ConnectError};
use net::steer::{FlowHash, FlowSteering, ShardIndex};
use queueing::Span;
use wire::dhcp::{Message, MessageType};
use wire::ip::Protocol;
use wire::{arp, udp};

use crate::host::{Host, MAC, PEER4, STACK_MAC, STACK4, Sent, frame};
use crate::world::config;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

fn host() -> Host {
    let mut host =
        Host::new(Config { dhcp: true, addr: Ipv4Addr::UNSPECIFIED, prefix: 0, ipv6: None, ..config(1) });
    host.stack.handle_timeout(host.now);
    host
}

/// DHCP message in a packet, and its destination.
fn message(sent: &Sent) -> Option<(Message, IpAddr)> {
    let datagram = udp::Datagram::parse(&sent.payload, sent.source, sent.target, true).ok()?;
    assert_eq!((datagram.source_port, datagram.target_port), (68, 67));
    Some((Message::parse(datagram.payload).expect("a message"), sent.target))
}

fn received(sent: &[Sent]) -> Vec<(Message, IpAddr)> {
    sent.iter().filter_map(message).collect()
}

/// Server message that answers `message`.
fn answer(host: &mut Host, kind: MessageType, message: &Message, change: impl FnOnce(&mut Message)) {
    let mut message = Message {
        yours: STACK4,
        server: Some(PEER4),
        prefix: Some(24),
        router: Some(ROUTER),
        lease_s: Some(1000),
        ..Message::new(kind, message.transaction, STACK_MAC)
    };
    change(&mut message);
    let mut body = Vec::new();
    message.emit(&mut body);
    let datagram = udp::Datagram { source_port: 67, target_port: 68, payload: &body };
    let target = Ipv4Addr::BROADCAST;
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(PEER4, target, &mut bytes);
    let mut frame = frame(PEER4.into(), target.into(), Protocol::Udp, &bytes);
    frame[..6].fill(0xff);
    host.raw(&frame);
}

fn bound() -> Host {
    let mut host = host();
    let (discover, _) = received(&host.receive()).remove(0);
    answer(&mut host, MessageType::Offer, &discover, |_| {});
    let (request, _) = received(&host.receive()).remove(0);
    answer(&mut host, MessageType::Ack, &request, |_| {});
    host
}

#[test]
fn packets_for_the_host_are_left_to_it_until_an_address_is_leased() {
    let mut host = host();
    let socket = host.stack.bind_udp(53, net::stack::UdpOptions::default()).unwrap();
    let datagram = udp::Datagram { source_port: 9, target_port: 53, payload: b"for the kernel" };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(PEER4, STACK4, &mut bytes);
    let _ = host.receive();
    host.send(PEER4.into(), STACK4.into(), Protocol::Udp, &bytes);
    assert_eq!(host.stack.receive_from(host.now, socket), None);
    assert_eq!(received(&host.receive()).len(), 0, "nor a refusal");
    assert_eq!(host.stack.counters().not_for_us, 1);
}

//~ devices: addresses from DHCP and SLAAC are found, used and shared by shards on every device
#[test]
fn shards_share_the_address_that_one_of_them_leases() {
    let steering = FlowSteering::new(2, FlowHash::Toeplitz);
    let shard = |shard| {
        let shard_index = Some(ShardIndex { steering, shard });
        let config = Config {
            dhcp: true,
            addr: Ipv4Addr::UNSPECIFIED,
            prefix: 0,
            ipv6: None,
            shard_index,
            ..config(1)
        };
        let mut host = Host::new(config);
        host.stack.handle_timeout(host.now);
        host
    };
    let [mut requests, mut listens] = [0, 1].map(shard);
    assert_eq!(received(&listens.receive()).len(), 0);
    for kind in [MessageType::Offer, MessageType::Ack] {
        let (message, _) = received(&requests.receive()).remove(0);
        for host in [&mut listens, &mut requests] {
            let foreign = Message { transaction: message.transaction ^ 1, ..message };
            answer(host, MessageType::Ack, &foreign, |_| {});
            assert_eq!(host.stack.lease(), None, "a stranger's transaction");
            answer(host, kind, &message, |_| {});
        }
    }
    assert_eq!(requests.stack.lease(), listens.stack.lease());
    assert_eq!(listens.stack.addrs().collect::<Vec<_>>(), [IpAddr::V4(STACK4)]);
    listens.pass(Span::from_secs(1001));
    assert_eq!((received(&listens.receive()).len(), listens.stack.lease()), (0, None), "no lease at the end");
}

#[test]
fn an_address_is_discovered_requested_and_used() {
    let mut host = host();
    let remote = (PEER4, 80).into();
    assert_eq!(host.stack.connect(host.now, remote, None), Err(ConnectError::NoRoute));
    let (discover, to) = received(&host.receive()).remove(0);
    assert_eq!(
        (discover.kind, discover.broadcast, to),
        (MessageType::Discover, true, Ipv4Addr::BROADCAST.into())
    );
    answer(&mut host, MessageType::Offer, &discover, |_| {});
    let (request, to) = received(&host.receive()).remove(0);
    assert_eq!(
        (request.kind, request.requested, request.server),
        (MessageType::Request, Some(STACK4), Some(PEER4))
    );
    assert_eq!(to, IpAddr::V4(Ipv4Addr::BROADCAST));
    answer(&mut host, MessageType::Ack, &request, |_| {});
    let lease = *host.stack.lease().expect("a lease");
    assert_eq!((lease.addr, lease.prefix, lease.router, lease.server), (STACK4, 24, Some(ROUTER), PEER4));
    assert_eq!(host.stack.addrs().collect::<Vec<_>>(), [IpAddr::V4(STACK4)]);
    assert!(host.stack.connect(host.now, remote, None).is_ok());
}

#[test]
fn requests_are_repeated_with_backoff() {
    let mut host = host();
    let first = received(&host.receive()).len();
    let later = received(&host.pass(Span::from_secs(600))).len();
    // After 4, 8, 16, 32 and then every 64 s, with jitter.
    assert_eq!(first, 1);
    assert!((11..=14).contains(&later), "{later}");
}

#[test]
fn replies_to_others_and_invalid_replies_are_ignored() {
    let mut host = host();
    let (discover, _) = received(&host.receive()).remove(0);
    answer(&mut host, MessageType::Offer, &discover, |m| m.transaction ^= 1);
    answer(&mut host, MessageType::Offer, &discover, |m| m.mac = MAC);
    answer(&mut host, MessageType::Offer, &discover, |m| m.server = None);
    answer(&mut host, MessageType::Offer, &discover, |m| m.yours = Ipv4Addr::BROADCAST);
    answer(&mut host, MessageType::Ack, &discover, |_| {});
    answer(&mut host, MessageType::Nak, &discover, |_| {});
    assert!(host.frames().is_empty() && host.stack.lease().is_none());
}

#[test]
fn the_lease_is_renewed_at_half_time_and_rebound_at_seven_eighths() {
    let mut host = bound();
    host.receive();
    assert!(received(&host.pass(Span::from_secs(499))).is_empty());
    host.pass(Span::from_secs(2));
    host.arp(arp::Operation::Reply, PEER4, MAC, STACK4);
    let (renew, to) = received(&host.receive()).remove(0);
    assert_eq!(
        (renew.kind, renew.client, renew.requested, to),
        (MessageType::Request, STACK4, None, PEER4.into())
    );
    answer(&mut host, MessageType::Ack, &renew, |m| m.server = None);
    assert_eq!(host.stack.counters().leases, 2);
    // No more answers: renewal at the server until T2, then by broadcast, then expiry.
    let mut broadcast = 0;
    for _ in 0..999 {
        for (message, to) in received(&host.pass(Span::from_secs(1))) {
            broadcast += u32::from(to == IpAddr::V4(Ipv4Addr::BROADCAST));
            assert_eq!(message.client, STACK4);
        }
    }
    assert!(broadcast >= 1 && host.stack.lease().is_some());
    let last = received(&host.pass(Span::from_secs(5)));
    assert_eq!(last.last().map(|(m, _)| m.kind), Some(MessageType::Discover));
    assert_eq!((host.stack.lease(), host.stack.addrs().count()), (None, 0));
}

#[test]
fn a_nak_restarts_discovery() {
    let mut host = host();
    let (discover, _) = received(&host.receive()).remove(0);
    answer(&mut host, MessageType::Offer, &discover, |_| {});
    let (request, _) = received(&host.receive()).remove(0);
    answer(&mut host, MessageType::Nak, &request, |_| {});
    let (again, _) = received(&host.receive()).remove(0);
    assert_eq!(again.kind, MessageType::Discover);
    assert_ne!(again.transaction, discover.transaction);
}

#[test]
fn a_lease_of_no_time_does_not_cause_endless_requests() {
    for (lease_s, renew_s, most) in [(1000, Some(0), 20), (60, Some(0), 20), (1, None, 700), (0, None, 60)] {
        let mut host = host();
        let mut requested = 0;
        let end = host.now + Span::from_secs(300);
        while host.now < end {
            for _ in 0..50 {
                let message = received(&host.receive());
                requested += message.len();
                for (message, _) in message {
                    let kind = if message.kind == MessageType::Discover {
                        MessageType::Offer
                    } else {
                        MessageType::Ack
                    };
                    answer(&mut host, kind, &message, |m| (m.lease_s, m.renew_s) = (Some(lease_s), renew_s));
                }
            }
            host.now += Span::from_millis(100);
            host.stack.handle_timeout(host.now);
        }
        assert!(requested <= most, "{requested} in 300 s, for a lease of {lease_s} s");
    }
}
