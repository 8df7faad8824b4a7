//! Addresses, prefixes, routers and redirects over their lifetimes.

use wire::ndp::{PrefixInformation, RouterAdvertisement};

use super::*;
use crate::stack::ip::redirects::REDIRECTS_MAX;

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const NET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

fn interface(interface_id: InterfaceId) -> Interface {
    let config = Ipv6 { interface_id, slaac: true, ..Ipv6::default() };
    Interface::new(MAC, [7; 16], config)
}

fn dues(interface: &mut Interface, s: u64) -> Vec<Due> {
    let due = std::iter::from_fn(|| interface.poll(at(s)));
    due.filter(|due| !matches!(due, Due::Report(..))).collect()
}

fn advertise(interface: &mut Interface, s: u64, prefix: Ipv6Addr, valid_s: u32, lifetime_s: u16) {
    let mut options = Vec::new();
    let advertised = PrefixInformation {
        addr: prefix,
        len: 64,
        on_link: true,
        autonomous: true,
        valid_s,
        preferred_s: valid_s,
    };
    advertised.emit(&mut options);
    let advertised =
        RouterAdvertisement { hops: 0, lifetime_s, reachable_ms: 0, mac: None, mtu: None, options: &options };
    interface.on_advertisement(at(s), ROUTER, &advertised);
}

#[test]
fn an_unclaimed_address_is_assigned() {
    let mut i = interface(InterfaceId::Eui64);
    let addr: Ipv6Addr = "fe80::ff:fe00:1".parse().unwrap();
    assert_eq!(dues(&mut i, 0), [Due::Probe(addr), Due::Solicit]);
    assert!(!i.owns(addr) && i.is_tentative(addr));
    assert_eq!(dues(&mut i, 1), [Due::Ours(addr)]);
    assert!(i.owns(addr));
}

#[test]
fn another_identifier_is_tried_after_a_conflict_but_not_for_an_eui_64() {
    for (id, tries) in [(InterfaceId::Stable, 4), (InterfaceId::Eui64, 1)] {
        let mut i = interface(id);
        let mut seen = Vec::new();
        while let Some(due) = i.poll(at(0)) {
            let Due::Probe(addr) = due else { continue };
            assert!(i.on_conflict(at(0), addr) && !i.on_conflict(at(0), addr));
            seen.push(addr);
        }
        seen.dedup();
        assert_eq!(seen.len(), tries);
    }
}

#[test]
fn a_prefix_yields_an_address_and_a_router_a_route_until_they_expire() {
    let mut i = interface(InterfaceId::Eui64);
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 9, 0, 0, 0, 1);
    assert_eq!((i.next_hop(far), i.source(far)), (None, None));
    advertise(&mut i, 0, NET, 9000, 1800);
    let addr: Ipv6Addr = "2001:db8:0:1:0:ff:fe00:1".parse().unwrap();
    let _ = dues(&mut i, 0);
    assert!(dues(&mut i, 1).contains(&Due::Ours(addr)));
    assert_eq!((i.next_hop(far), i.source(far)), (Some(ROUTER), Some(addr)));
    let near = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 5);
    assert_eq!(i.next_hop(near), Some(near));
    let _ = dues(&mut i, 1800);
    assert_eq!(i.next_hop(far), None);
    assert_eq!(dues(&mut i, 9000), [Due::Gone(addr)]);
    assert_eq!((i.next_hop(near), i.source(near)), (None, None));
}

#[test]
fn an_advertisement_cannot_end_an_address_at_once() {
    let mut i = interface(InterfaceId::Eui64);
    advertise(&mut i, 0, NET, 100_000, 0);
    let _ = (dues(&mut i, 0), dues(&mut i, 1));
    advertise(&mut i, 10, NET, 1, 0);
    assert_eq!(dues(&mut i, 100), []);
    assert!(matches!(dues(&mut i, 10 + 7200)[..], [Due::Gone(_)]));
}

//~ ip: redirects are obeyed only from the first hop and only for this link (RFC 4861 §8)
#[test]
fn only_the_first_hop_redirects_and_only_to_this_link() {
    let mut i = interface(InterfaceId::Eui64);
    advertise(&mut i, 0, NET, 9000, 1800);
    let _ = (dues(&mut i, 0), dues(&mut i, 1));
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 9, 0, 0, 0, 1);
    let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 10);
    let near = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 5);
    let ours: Ipv6Addr = "fe80::ff:fe00:1".parse().unwrap();
    for (from, target, destination) in
        [(other, other, far), (ROUTER, near, far), (ROUTER, ours, far), (ROUTER, other, near)]
    {
        assert!(!i.on_redirect(at(1), from, target, destination), "{from} {target} {destination}");
    }
    assert!(i.on_redirect(at(1), ROUTER, other, far));
    assert_eq!(i.next_hop(far), Some(other));
    assert!(!i.on_redirect(at(1), ROUTER, far, far), "not the first hop any more");
    assert!(i.on_redirect(at(1), other, far, far), "the destination itself, on this link");
    assert_eq!(i.next_hop(far), Some(far));
    i.on_silent(far);
    assert_eq!(i.next_hop(far), Some(ROUTER));
    assert!(i.on_redirect(at(2), ROUTER, other, far));
    let _ = dues(&mut i, 602);
    assert_eq!(i.next_hop(far), Some(ROUTER), "ten minutes later");
}

#[test]
fn a_flood_of_advertisements_is_bounded() {
    let mut i = interface(InterfaceId::Stable);
    for n in 0..500u16 {
        let net = Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0);
        advertise(&mut i, 0, net, u32::MAX, 1800);
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n);
        let advertised = RouterAdvertisement {
            hops: 0,
            lifetime_s: 9,
            reachable_ms: 0,
            mac: None,
            mtu: Some(9),
            options: &[],
        };
        i.on_advertisement(at(0), router, &advertised);
    }
    for n in 0..500u16 {
        let [far, hop] = [0x2001, 0xfe80].map(|a| Ipv6Addr::new(a, 0, 0, 0, 0xdb8, 0, 7, n));
        let router = i.next_hop(far).unwrap();
        assert!(i.on_redirect(at(0), router, hop, far));
    }
    assert_eq!(i.sizes(), [ADDRS_MAX, PREFIXES_MAX, ROUTERS_MAX, REDIRECTS_MAX]);
    assert_eq!(i.mtu(1500), 1500);
}
