//! Tests of packet views: all fields read back, and no bytes cause a panic.

use proptest::prelude::*;
use wire::ethernet::Frame;
use wire::ip;
use wire::tcp::Segment;

use super::*;
use crate::testing::{TestPacket, view};

#[test]
fn tags_and_options_of_any_length_are_skipped() {
    for vlan in [false, true] {
        for (ip_options, tcp_options) in [(0, 0), (4, 0), (0, 12), (40, 40)] {
            let packet = TestPacket {
                vlan,
                ip_options,
                tcp_options,
                dscp: 46,
                ..TestPacket::new(b"\x01\x02\x03\x04x")
            };
            view(&packet.frame(), |v| {
                assert_eq!(v.tcp_ports(), Some((packet.source_port, packet.target_port)));
                assert_eq!(v.tcp_payload(), Some(&b"\x01\x02\x03\x04x"[..]));
                assert_eq!((v.dscp(), v.len()), (Some(46), packet.frame().len()));
                assert_eq!(v.payload_byte(4), Some(b'x'));
                assert_eq!(v.payload_u16(1), Some(0x0203));
                assert_eq!(v.payload_u32(0), Some(0x0102_0304));
                assert_eq!((v.payload_byte(5), v.payload_u16(4), v.payload_u32(2)), (None, None, None));
                assert_eq!(v.payload_u32(usize::MAX), None);
            });
        }
    }
}

#[test]
fn padding_of_short_frames_is_no_payload() {
    let mut frame = TestPacket { tcp_options: 0, ..TestPacket::new(b"") }.frame();
    frame.resize(60, 0);
    view(&frame, |v| assert_eq!(v.tcp_payload(), Some(&[][..])));
}

#[test]
fn a_packet_that_is_not_tcp_has_no_tcp_ports() {
    let good = TestPacket::new(b"GW").frame();
    for (at, byte) in [(12, 0x86), (14, 0x65), (23, 17), (20, 0x20), (46, 0x40), (14, 0x44), (16, 0xff)] {
        let mut frame = good.clone();
        frame[at] = byte;
        view(&frame, |v| assert_eq!(v.tcp_payload(), None, "byte {at}"));
    }
}

proptest! {
    #[test]
    fn a_view_and_the_parser_see_the_same_segment(packet in TestPacket::any(), change in any::<(prop::sample::Index, u8)>()) {
        let mut frame = packet.frame();
        let at = change.0.index(frame.len());
        frame[at] ^= change.1;
        let parsed = Frame::parse(&frame).ok().filter(|f| f.kind == EtherType::Ipv4).and_then(|f| {
            let ip = ipv4::Packet::parse(f.payload).ok().filter(|p| p.protocol == Protocol::Tcp && p.fragment.is_none())?;
            let segment = Segment::parse(ip.payload, ip.source, ip.target, false).ok()?;
            Some((ip.source, ip.target, ip.dscp, (segment.source_port, segment.target_port), segment.payload))
        });
        if let Some((source, target, dscp, ports, payload)) = parsed {
            view(&frame, |v| {
                let ip = v.ipv4().expect("the parser found a packet");
                assert_eq!((ip.source(), ip.target(), ip.dscp()), (source, target, dscp));
                assert_eq!((v.tcp_ports(), v.tcp_payload()), (Some(ports), Some(payload)));
            });
        }
    }

    #[test]
    fn a_view_and_the_parsers_agree_on_datagrams_and_ipv6(
        v6 in any::<bool>(),
        is_udp in any::<bool>(),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        change in any::<(prop::sample::Index, u8)>(),
    ) {
        let (source, target): (IpAddr, IpAddr) = match v6 {
            false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            true => ([1; 16].into(), [2; 16].into()),
        };
        let header_len = if is_udp { udp::HEADER_LEN } else { tcp::HEADER_LEN };
        let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
        let payload_len = header_len + payload.len();
        let header = ip::Header { source, target, protocol, dscp: 46, ecn: 0, hops: 64, payload_len };
        let start = ethernet::HEADER_LEN + header.len();
        let mut frame = vec![0; start + payload_len];
        let kind = if v6 { EtherType::Ipv6 } else { EtherType::Ipv4 };
        ethernet::emit_header(&mut frame, [1; 6], [2; 6], kind);
        header.emit(&mut frame[ethernet::HEADER_LEN..]);
        match is_udp {
            true => udp::Datagram { source_port: 5, target_port: 53, payload: &payload }
                .emit(source, target, &mut frame[start..]),
            false => {
                frame[start..start + 4].copy_from_slice(&[0, 5, 0, 53]);
                frame[start + 12] = 0x50;
                frame[start + header_len..].copy_from_slice(&payload);
            }
        }
        view(&frame, |v| {
            let ip = v.ip().expect("a packet");
            assert_eq!((ip.source(), ip.target(), v.dscp()), (source, target, Some(46)));
            assert_eq!(ip.transport(), Some((5, 53, &payload[..])));
            assert_eq!(v.udp_payload(), Some(&payload[..]).filter(|_| is_udp));
            assert_eq!(v.tcp_payload(), Some(&payload[..]).filter(|_| !is_udp));
            assert_eq!(v.udp_ports().or(v.tcp_ports()), Some((5, 53)));
        });
        let at = change.0.index(frame.len());
        frame[at] ^= change.1;
        view(&frame, |v| {
            let _ = v.ip().map(|ip| (ip.transport(), ip.udp_payload(), ip.tcp_payload()));
        });
    }

    //~ input: random bytes cause no panic in packet views, policies, HTTP and the synthetic protocol
    #[test]
    fn no_bytes_make_a_view_panic(frame in proptest::collection::vec(any::<u8>(), 0..100), at in any::<usize>()) {
        view(&frame, |v| {
            let _ = (v.dscp(), v.tcp_ports(), v.tcp_payload());
            let _ = (v.payload_byte(at), v.payload_u16(at), v.payload_u32(at));
        });
    }
}
