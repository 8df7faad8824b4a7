//! Round trips, bounds and errors of IPv6, ICMP, neighbour discovery and UDP.

//~ ip: IPv6 extension headers are walked within a bound, atomic fragments included (RFC 8200, 5095, 6946)

use std::net::{IpAddr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::icmp::{self, Cause, EchoMessage};
use crate::ip::{self, Fragment, Protocol, Quote};
use crate::ndp::{self, NeighborAdvertisement, PrefixInformation, RouterAdvertisement};
use crate::{Malformed, icmpv6, ipv4, ipv6, udp};

const HERE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const THERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn addr6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from_bits)
}

fn addr() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|[a, b]| (a.into(), b.into())),
        (addr6(), addr6()).prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

fn header(protocol: u8, payload_len: usize) -> ipv6::Header {
    let protocol = Protocol::new(protocol);
    ipv6::Header { source: HERE, target: THERE, protocol, dscp: 0, ecn: 0, hops: 64, payload_len }
}

/// Packet whose first header is `first`, with `body` as its payload.
fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    header(first, body.len()).emit(&mut bytes);
    bytes.extend(body);
    bytes
}

fn check(first: u8, body: &[u8], expected: Result<(u8, &[u8]), Malformed>) {
    let bytes = packet(first, body);
    let got = ipv6::Packet::parse(&bytes).map(|p| (p.protocol.number(), p.payload));
    assert_eq!(got, expected, "{first} {body:?}");
}

#[test]
fn extension_headers_are_skipped() {
    check(6, b"tcp", Ok((6, b"tcp")));
    check(0, &[6, 0, 1, 4, 0, 0, 0, 0, 1], Ok((6, &[1])));
    check(60, &[17, 0, 0, 0, 0, 0, 0, 0, 2], Ok((17, &[2])));
    check(43, &[6, 0, 0, 0, 9, 9, 9, 9, 3], Ok((6, &[3])));
    let all = [60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 1, 4, 0, 0, 0, 0, 58, 0, 4, 0, 0, 0, 0, 0, 4];
    check(0, &all, Ok((58, &[4])));
    check(59, b"nothing", Ok((59, b"nothing")));
}

#[test]
fn invalid_extension_headers_are_refused() {
    check(60, &[6], Err(Malformed::Truncated));
    check(60, &[6, 1, 1, 4, 0, 0, 0, 0], Err(Malformed::Truncated));
    check(60, &[6, 0, 1, 5, 0, 0, 0, 0], Err(Malformed::BadOption));
    check(60, &[6, 0, 0x80, 4, 0, 0, 0, 0], Err(Malformed::BadOption));
    check(60, &[6, 0, 0x05, 4, 0, 0, 0, 0], Ok((6, &[])));
    check(43, &[6, 0, 0, 1, 0, 0, 0, 0], Err(Malformed::Unsupported));
    check(60, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0], Err(Malformed::Unsupported));
    check(44, &[6, 0, 0, 0, 0, 0, 0], Err(Malformed::Truncated));
}

#[test]
fn the_walk_over_extension_headers_is_bounded() {
    let chain = |n: usize| {
        let mut body: Vec<u8> = (0..n).flat_map(|_| [60, 0, 1, 4, 0, 0, 0, 0]).collect();
        body[(n - 1) * 8] = 6;
        body
    };
    check(60, &chain(ipv6::EXTENSIONS_MAX), Ok((6, &[])));
    check(60, &chain(ipv6::EXTENSIONS_MAX + 1), Err(Malformed::Unsupported));
}

#[test]
fn an_atomic_fragment_header_is_skipped() {
    check(44, &[6, 0, 0, 0, 1, 2, 3, 4, 7], Ok((6, &[7])));
    let bytes = packet(44, &[6, 0, 0, 9, 1, 2, 3, 4, 7]);
    let fragment = Fragment { ident: 0x0102_0304, offset: 8, more: true };
    assert_eq!(ipv6::Packet::parse(&bytes).map(|p| p.fragment), Ok(Some(fragment)));
}

#[test]
fn a_truncated_quote_is_accepted() {
    let bytes = packet(6, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let quote = Quote::parse(&bytes[..46]).expect("a quote");
    assert_eq!((quote.source, quote.target), (HERE.into(), THERE.into()));
    assert_eq!((quote.protocol, quote.payload), (Protocol::Tcp, &[1, 2, 3, 4, 5, 6][..]));
    assert_eq!(Quote::parse(&bytes[..39]), Err(Malformed::Truncated));
    let later = packet(44, &[6, 0, 0, 8, 1, 2, 3, 4, 7]);
    assert_eq!(Quote::parse(&later), Err(Malformed::Unsupported));
}

#[test]
fn the_group_of_an_address_is_that_of_the_rfc() {
    // Example of RFC 4291 §2.7.1.
    let addr: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    assert_eq!(ipv6::solicited_node(addr), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
    assert_eq!(ipv6::multicast_mac(ipv6::ALL_NODES), [0x33, 0x33, 0, 0, 0, 1]);
}

#[test]
fn udp_without_checksum_is_good_over_ipv4_only() {
    let bytes = [0, 1, 0, 2, 0, 9, 0, 0, 7, 99];
    let parse = |a: &str| {
        let a: IpAddr = a.parse().unwrap();
        udp::Datagram::parse(&bytes, a, a, true).map(|d| d.payload.len())
    };
    assert_eq!(parse("10.0.0.1"), Ok(1));
    assert_eq!(parse("fe80::1"), Err(Malformed::BadChecksum));
}

#[test]
fn invalid_neighbor_discovery_is_refused() {
    let check = |bytes: &[u8], expected| assert_eq!(ndp::Message::parse(bytes).err(), expected, "{bytes:?}");
    let question = |options: &[u8]| {
        let mut bytes = vec![135, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(HERE.octets());
        bytes.extend(options);
        bytes
    };
    check(&question(&[]), None);
    check(&question(&[1, 1, 2, 2, 2, 2, 2, 2]), None);
    check(&question(&[1, 0, 2, 2, 2, 2, 2, 2]), Some(Malformed::BadOption));
    check(&question(&[1, 2, 2, 2, 2, 2, 2, 2]), Some(Malformed::BadOption));
    check(&question(&[1]), Some(Malformed::BadOption));
    check(&question(&[])[..20], Some(Malformed::Truncated));
    let mut group = question(&[]);
    group[8] = 0xff;
    check(&group, Some(Malformed::BadAddress));
}

prop_compose! {
    fn prefix()(addr in addr6(), len in 0u8..=128, flags in any::<(bool, bool)>(), valid_s in any::<u32>(), preferred_s in any::<u32>()) -> PrefixInformation {
        PrefixInformation { addr, len, on_link: flags.0, autonomous: flags.1, valid_s, preferred_s }
    }
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::Port,
        Cause::Protocol,
        Cause::Prohibited,
        Cause::Network,
        Cause::Unreachable,
        Cause::TooBig { mtu: 1300 },
        Cause::Hops,
        Cause::Reassembly,
        Cause::Parameter,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ipv6_round_trips(source in addr6(), target in addr6(), protocol in 61u8.., dscp in 0u8..64, ecn in 0u8..4, hops in any::<u8>(), payload in vec(any::<u8>(), 0..64), padding in 0usize..8) {
        let protocol = Protocol::new(protocol);
        let mut bytes = vec![0xaa; ipv6::HEADER_LEN];
        ipv6::Header { source, target, protocol, dscp, ecn, hops, payload_len: payload.len() }.emit(&mut bytes);
        bytes.extend(&payload);
        bytes.resize(bytes.len() + padding, 0);
        let expected = ipv6::Packet { source, target, protocol, dscp, ecn, hops, fragment: None, payload: &payload };
        prop_assert_eq!(ipv6::Packet::parse(&bytes), Ok(expected));
    }

    #[test]
    fn headers_of_either_version_round_trip((source, target) in addr(), dscp in 0u8..64, ecn in 0u8..4, hops in any::<u8>()) {
        let header = ip::Header { source, target, protocol: Protocol::Tcp, dscp, ecn, hops, payload_len: 0 };
        let mut bytes = vec![0xaa; header.len()];
        header.emit(&mut bytes);
        let quote = Quote { source, target, protocol: Protocol::Tcp, hops, payload: &[][..] };
        prop_assert_eq!(Quote::parse(&bytes), Ok(quote));
    }

    #[test]
    fn fragments_round_trip(ident in any::<u32>(), piece in 0u32..8189, more in any::<bool>(), payload in vec(any::<u8>(), 0..40)) {
        prop_assume!(piece > 0 || more);
        let fragment = Fragment { ident, offset: piece * 8, more };
        let mut bytes = vec![0xaa; ipv6::HEADER_LEN + ipv6::FRAGMENT_LEN];
        header(17, payload.len()).emit_fragment(fragment, &mut bytes);
        bytes.extend(&payload);
        let packet = ipv6::Packet::parse(&bytes).expect("a fragment");
        prop_assert_eq!((packet.fragment, packet.protocol, packet.payload), (Some(fragment), Protocol::Udp, &payload[..]));

        let mut bytes = vec![0xaa; ipv4::HEADER_LEN];
        let any = std::net::Ipv4Addr::LOCALHOST;
        ipv4::Header { source: any, target: any, protocol: Protocol::Udp, dscp: 0, ecn: 0, ttl: 64, payload_len: payload.len() }
            .emit_fragment(fragment, &mut bytes);
        bytes.extend(&payload);
        let packet = ipv4::Packet::parse(&bytes).expect("a fragment");
        prop_assert_eq!(packet.fragment, Some(Fragment { ident: ident & 0xffff, ..fragment }));
    }

    #[test]
    fn echoes_of_ipv6_round_trip(reply in any::<bool>(), ident in any::<u16>(), sequence in any::<u16>(), payload in vec(any::<u8>(), 0..64)) {
        let echo = EchoMessage { reply, ident, sequence, payload: &payload };
        let mut bytes = vec![0xaa; echo.len()];
        icmpv6::emit_echo(&echo, HERE, THERE, &mut bytes);
        prop_assert_eq!(icmpv6::Message::parse(&bytes, HERE, THERE), Ok(icmpv6::Message::Echo(echo)));
        prop_assert_eq!(icmpv6::Message::parse(&bytes, HERE, HERE), Err(Malformed::BadChecksum));
    }

    #[test]
    fn errors_round_trip_and_fit(cause in cause(), quoted in vec(any::<u8>(), 0..1500)) {
        let error = icmp::IcmpError { cause, quoted: &quoted };
        let mut bytes = Vec::new();
        error.emit(&mut bytes);
        prop_assert!(bytes.len() <= icmp::IcmpError::LEN_MAX);
        let icmp::Message::Error(got) = icmp::Message::parse(&bytes).expect("an error") else { panic!("an error") };
        prop_assert_eq!(got.cause, cause);
        prop_assert!(quoted.starts_with(got.quoted));

        let mut bytes = Vec::new();
        icmpv6::emit_error(&error, HERE, THERE, &mut bytes);
        prop_assert!(bytes.len() <= icmpv6::ERROR_LEN_MAX);
        let parsed = icmpv6::Message::parse(&bytes, HERE, THERE).expect("an error");
        let icmpv6::Message::Error(got) = parsed else { panic!("an error") };
        prop_assert_eq!(got.cause, cause);
        prop_assert!(quoted.starts_with(got.quoted));
    }

    #[test]
    fn neighbor_discovery_round_trips(
        target in addr6(),
        mac in any::<Option<[u8; 6]>>(),
        flags in any::<(bool, bool, bool)>(),
        limits in (any::<u8>(), any::<u16>(), any::<u32>()),
        prefixes in vec(prefix(), 0..4),
    ) {
        prop_assume!(!target.is_multicast());
        let (router, solicited, replaces) = flags;
        let mut options = Vec::new();
        prefixes.iter().for_each(|prefix| prefix.emit(&mut options));
        let (hops, lifetime_s, reachable_ms) = limits;
        let advertisement = RouterAdvertisement { hops, lifetime_s, reachable_ms, mac: None, mtu: None, options: &options };
        prop_assert_eq!(advertisement.prefixes().collect::<Vec<_>>(), prefixes);
        for message in [
            ndp::Message::RouterSolicitation { source: mac },
            ndp::Message::NeighborSolicitation { target, source: mac },
            ndp::Message::NeighborAdvertisement(NeighborAdvertisement { target, mac, router, solicited, replaces }),
            ndp::Message::RouterAdvertisement(advertisement),
            ndp::Message::Redirect { target, destination: target, mac },
        ] {
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            prop_assert_eq!(ndp::Message::parse(&bytes), Ok(message));
        }
    }

    #[test]
    fn datagrams_round_trip((source, target) in addr(), source_port in any::<u16>(), target_port in 1u16.., payload in vec(any::<u8>(), 0..64), padding in 0usize..4) {
        let datagram = udp::Datagram { source_port, target_port, payload: &payload };
        let mut bytes = vec![0xaa; datagram.len()];
        datagram.emit(source, target, &mut bytes);
        prop_assert_ne!(&bytes[6..8], &[0, 0][..]);
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(udp::Datagram::parse(&bytes, source, target, true), Ok(datagram));
    }

    #[test]
    fn random_bytes_never_panic_in_the_network_layer(bytes in vec(any::<u8>(), 0..140), first in prop::sample::select(vec![0u8, 43, 44, 60, 6, 17, 58])) {
        let _ = ipv6::Packet::parse(&bytes);
        let _ = ipv6::Packet::parse(&packet(first, &bytes));
        let _ = ipv6::upper(Protocol::new(first), &bytes);
        let _ = Quote::parse(&bytes);
        let _ = Quote::parse(&packet(first, &bytes));
        let _ = icmp::Message::parse(&bytes);
        let _ = icmpv6::Message::parse(&bytes, HERE, THERE);
        for kind in 133..=137 {
            let mut message = bytes.clone();
            if let Some(first) = message.first_mut() {
                *first = kind;
            }
            if let Ok(ndp::Message::RouterAdvertisement(advertisement)) = ndp::Message::parse(&message) {
                let _ = advertisement.prefixes().count();
            }
        }
        let _ = udp::Datagram::parse(&bytes, HERE, THERE, true);
        let _ = udp::Datagram::parse(&bytes, HERE, THERE, false);
    }
}
