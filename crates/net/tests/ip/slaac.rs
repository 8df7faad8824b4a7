//! Tests of stateless autoconfiguration, and of duplicate addresses.

//~ ip: neighbor discovery solicits, answers and follows router advertisements (RFC 4861)
//~ ip: SLAAC forms stable addresses and detects duplicates (RFC 4862, 7217)

use std::net::{IpAddr, Ipv6Addr};

use net::EventKind;
use net::stack::{CloseReason, Config, ConnectError, InterfaceId, Ipv6, Unreachable};
use queueing::Span;
use wire::ip::Protocol;
use wire::ipv6;
use wire::ndp::{Message, NeighborAdvertisement, PrefixInformation, RouterAdvertisement};

use crate::host::{Host, MAC};
use crate::world::config;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const NET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 9, 0, 0, 0, 1);
const LINK_LOCAL: &str = "fe80::ff:fe00:1";
const GLOBAL: &str = "2001:db8:0:1:0:ff:fe00:1";

fn automatic() -> Config {
    let ipv6 = Ipv6 { interface_id: InterfaceId::Eui64, ..Ipv6::default() };
    Config { ipv6: Some(ipv6), ..config(1) }
}

fn advertise(host: &mut Host) {
    let mut options = Vec::new();
    let prefix = PrefixInformation {
        addr: NET,
        len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 9000,
        preferred_s: 9000,
    };
    prefix.emit(&mut options);
    let message = RouterAdvertisement {
        hops: 64,
        lifetime_s: 1800,
        reachable_ms: 0,
        mac: Some(MAC),
        mtu: None,
        options: &options,
    };
    // As a router sends it, with its hardware address first.
    let mut with_mac = vec![1, 1];
    with_mac.extend(MAC);
    with_mac.extend(&options);
    host.discover(
        ROUTER,
        ipv6::ALL_NODES,
        &Message::RouterAdvertisement(RouterAdvertisement { options: &with_mac, ..message }),
    );
}

fn addrs(host: &Host) -> Vec<IpAddr> {
    host.stack.addrs().filter(IpAddr::is_ipv6).collect()
}

#[test]
fn an_address_is_asked_for_before_it_is_used() {
    let mut host = Host::new(automatic());
    host.stack.handle_timeout(host.now);
    let received = host.discoveries();
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(received[0].0.is_unspecified() && received[0].2.contains("NeighborSolicitation"));
    assert!(received[1].2.contains("RouterSolicitation"));
    assert_eq!(addrs(&host), [] as [IpAddr; 0]);
    host.pass(Span::from_secs(1));
    assert_eq!(addrs(&host), [LINK_LOCAL.parse::<IpAddr>().unwrap()]);
}

#[test]
fn routers_are_solicited_three_times() {
    let mut host = Host::new(automatic());
    let received = host.pass(Span::from_secs(60));
    let to_routers = received.iter().filter(|s| s.target == IpAddr::V6(ipv6::ALL_ROUTERS)).count();
    assert_eq!(to_routers, 3);
}

#[test]
fn an_advertisement_yields_an_address_and_a_default_route() {
    let mut host = Host::new(automatic());
    host.pass(Span::from_secs(2));
    let far = (FAR, 80).into();
    assert_eq!(host.stack.connect(host.now, far, None), Err(ConnectError::NoRoute));
    advertise(&mut host);
    host.pass(Span::from_secs(2));
    assert_eq!(addrs(&host).last(), Some(&GLOBAL.parse::<IpAddr>().unwrap()));
    host.stack.connect(host.now, far, None).unwrap();
    let received = host.receive();
    let syn = &received[0];
    assert_eq!((syn.mac, syn.source, syn.target), (MAC, GLOBAL.parse().unwrap(), FAR.into()));
}

#[test]
fn a_connection_waits_until_its_address_is_checked() {
    let mut host = Host::new(automatic());
    advertise(&mut host);
    host.stack.connect(host.now, (FAR, 80).into(), None).unwrap();
    let early = host.pass(Span::from_millis(900));
    assert!(early.iter().all(|s| s.source.is_unspecified()), "{early:?}");
    let received = host.pass(Span::from_millis(200));
    assert!(received.iter().any(|s| s.target == IpAddr::V6(FAR)));
}

#[test]
fn an_address_in_use_elsewhere_is_not_assigned() {
    let mut host = Host::new(automatic());
    host.stack.handle_timeout(host.now);
    host.frames();
    let accepted: Ipv6Addr = LINK_LOCAL.parse().unwrap();
    let answer = NeighborAdvertisement {
        target: accepted,
        mac: Some(MAC),
        router: false,
        solicited: false,
        replaces: true,
    };
    host.discover(accepted, ipv6::ALL_NODES, &Message::NeighborAdvertisement(answer));
    host.pass(Span::from_secs(10));
    assert_eq!(addrs(&host), [] as [IpAddr; 0]);
    assert_eq!(host.stack.counters().duplicate_addresses, 1);
}

#[test]
fn a_simultaneous_claim_of_our_address_makes_us_try_another() {
    let ipv6 = Ipv6 { slaac: false, ..Ipv6::default() };
    let mut host = Host::new(Config { ipv6: Some(ipv6), ..config(1) });
    host.stack.handle_timeout(host.now);
    let received = host.receive();
    let probe = received.iter().find(|s| s.protocol == Protocol::Icmpv6 && s.payload[0] == 135).unwrap();
    let wanted = Ipv6Addr::from(<[u8; 16]>::try_from(&probe.payload[8..24]).unwrap());
    let question = Message::NeighborSolicitation { target: wanted, source: None };
    host.discover(Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(wanted), &question);
    host.pass(Span::from_secs(10));
    let got = addrs(&host);
    assert!(got.len() == 1 && got[0] != IpAddr::V6(wanted), "{got:?}");
}

#[test]
fn our_address_is_defended() {
    let mut host = Host::new(automatic());
    host.pass(Span::from_secs(2));
    let ours: Ipv6Addr = LINK_LOCAL.parse().unwrap();
    let question = Message::NeighborSolicitation { target: ours, source: None };
    host.discover(Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(ours), &question);
    let received = host.discoveries();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].0, received[0].1), (ours.into(), ipv6::ALL_NODES.into()));
    assert!(received[0].2.contains("solicited: false"));
}

#[test]
fn connections_over_an_expired_address_end_in_time() {
    let mut host = Host::new(automatic());
    advertise(&mut host);
    host.pass(Span::from_secs(2));
    host.pass(Span::from_secs(8999));
    host.stack.connect(host.now, (FAR, 80).into(), None).unwrap_err();
    assert!(!addrs(&host).contains(&GLOBAL.parse().unwrap()));
    let near = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 77);
    let conn = host.stack.connect(host.now, (near, 80).into(), None).unwrap();
    host.pass(Span::from_secs(10));
    let event = host.stack.poll_event().unwrap();
    assert_eq!(
        (event.conn, event.kind),
        (conn, EventKind::Closed(CloseReason::Unreachable(Unreachable::Host)))
    );
}

//~ ip: redirects are obeyed only from the first hop and only for this link (RFC 4861 §8)
#[test]
fn redirects_are_followed_only_from_the_router() {
    const BETTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 10);
    const BETTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 10];
    let mut host = Host::new(automatic());
    advertise(&mut host);
    host.pass(Span::from_secs(2));
    let ours: Ipv6Addr = GLOBAL.parse().unwrap();
    let message = Message::Redirect { target: BETTER, destination: FAR, mac: Some(BETTER_MAC) };
    let to = |host: &mut Host| {
        host.stack.connect(host.now, (FAR, 80).into(), None).unwrap();
        host.receive()[0].mac
    };
    host.discover(BETTER, ours, &message);
    assert_eq!(to(&mut host), MAC);
    host.discover(ROUTER, ours, &message);
    assert_eq!(to(&mut host), BETTER_MAC);
    let counters = host.stack.counters();
    assert_eq!((counters.redirects, counters.redirects_ignored), (1, 1));
}

/// Reports in `received`: source, record type and group.
fn reports(received: &[crate::host::Sent]) -> Vec<(IpAddr, u8, Ipv6Addr)> {
    let reports = received.iter().filter(|s| s.payload.first() == Some(&143));
    reports
        .map(|s| {
            assert_eq!((s.target, s.hops), (wire::mld::REPORTS.into(), 1));
            let group = <[u8; 16]>::try_from(&s.payload[12..28]).unwrap();
            assert_eq!(s.packet[40..48], wire::mld::HOP_BY_HOP, "a router alert");
            (s.source, s.payload[8], group.into())
        })
        .collect()
}

//~ ip: MLDv2 reports the groups of the stack's addresses on joining, leaving and when queried (RFC 3810, 3590)
#[test]
fn groups_of_our_addresses_are_reported_on_joining_and_on_query() {
    let mut host = Host::new(automatic());
    let group = ipv6::solicited_node(LINK_LOCAL.parse().unwrap());
    host.stack.handle_timeout(host.now);
    let (unspecified, ours) = (Ipv6Addr::UNSPECIFIED.into(), LINK_LOCAL.parse().unwrap());
    assert_eq!(reports(&host.receive()), [(unspecified, 4, group)], "before duplicate address detection");
    let received = reports(&host.pass(Span::from_secs(5)));
    assert_eq!(received.last(), Some(&(ours, 2, group)), "with a source once there is one");
    let mut query = vec![130, 0, 0, 0, 0x27, 0x10, 0, 0];
    query.extend([0; 16]);
    query.extend([2, 125, 0, 0]);
    wire::icmpv6::finish_checksum(&mut query, ROUTER, ipv6::ALL_NODES);
    let request = |host: &mut Host, hops: u8| {
        let mut frame = crate::host::frame(
            ROUTER.into(),
            ipv6::ALL_NODES.into(),
            Protocol::HOP_BY_HOP,
            &[&wire::mld::HOP_BY_HOP[..], &query].concat(),
        );
        frame[14 + 7] = hops;
        host.raw(&frame);
        reports(&host.pass(Span::from_secs(10)))
    };
    assert_eq!(request(&mut host, 1), [(ours, 2, group)]);
    assert_eq!(request(&mut host, 64), [], "from beyond this link");
}
