//! Round trips of the wire formats, and parsers that never panic.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::ethernet::{self, EtherType, Frame};
use super::icmp::EchoMessage;
use super::ipv4::{self, Protocol};
use super::tcp::{self, Flags, Options, SackBlocks, Segment, Seq, Timestamps};
use super::{Malformed, arp, ip};

mod network;

fn addr4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from_bits)
}

fn options() -> impl Strategy<Value = Options> {
    (
        any::<Option<u16>>(),
        proptest::option::of(0u8..=14),
        any::<bool>(),
        any::<Option<(u32, u32)>>(),
        vec(any::<(u32, u32)>(), 0..=4),
        vec(any::<u8>(), 0..=12),
    )
        .prop_map(|(mss, window_scale, sack_permitted, stamps, sack, cookie)| Options {
            mss,
            window_scale,
            sack_permitted,
            timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
            fast_open: tcp::FastOpen::new(&cookie).filter(|_| sack.is_empty()),
            sack: sack.into_iter().map(|(start, end)| (Seq(start), Seq(end))).collect(),
        })
}

#[test]
fn cookie_that_does_not_fit_is_omitted() {
    let cookie = |len| tcp::FastOpen::new(&[7; 16][..len]);
    let full = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        ..Options::NONE
    };
    for (len, fits) in [(0, true), (4, true), (14, true), (16, false)] {
        let options = Options { fast_open: cookie(len), ..full };
        let mut bytes = vec![0; options.len()];
        options.emit(&mut bytes);
        let expected = if fits { options } else { full };
        assert_eq!(Options::parse(&bytes), Ok(expected), "{len} bytes");
    }
    for bad in [1, 2, 3, 5, 15] {
        assert_eq!(cookie(bad), None, "a cookie of {bad} bytes is invalid");
    }
}

prop_compose! {
    fn segment()(
        ports in (1u16.., 1u16..),
        seq in any::<u32>(),
        ack in any::<u32>(),
        flags in any::<u8>(),
        window in any::<u16>(),
        options in options(),
    ) -> Segment<'static> {
        Segment {
            source_port: ports.0,
            target_port: ports.1,
            seq: Seq(seq),
            ack: Seq(ack),
            flags: Flags::from_bits(flags),
            window,
            options,
            payload: &[],
        }
    }
}

fn emitted(segment: &Segment<'_>, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut bytes = vec![0xaa; segment.header_len() + segment.payload.len()];
    segment.emit(source, target, &mut bytes);
    bytes
}

proptest! {
    //~ ip: Ethernet II frames are parsed and written; a VLAN tag is skipped
    #[test]
    fn ethernet_round_trips(target in any::<[u8; 6]>(), source in any::<[u8; 6]>(), kind in any::<u16>(), payload in vec(any::<u8>(), 0..64)) {
        prop_assume!(kind != 0x8100);
        let mut bytes = vec![0; ethernet::HEADER_LEN];
        let kind = EtherType::new(kind);
        ethernet::emit_header(&mut bytes, target, source, kind);
        bytes.extend(&payload);
        prop_assert_eq!(Frame::parse(&bytes), Ok(Frame { target, source, vlan: None, kind, payload: &payload }));
    }

    #[test]
    fn arp_round_trips(sender_mac in any::<[u8; 6]>(), sender in addr4(), target_mac in any::<[u8; 6]>(), target in addr4(), reply in any::<bool>()) {
        let operation = if reply { arp::Operation::Reply } else { arp::Operation::Request };
        let packet = arp::Packet { operation, sender_mac, sender, target_mac, target };
        let mut bytes = [0xaa; arp::LEN + 18];
        packet.emit(&mut bytes);
        prop_assert_eq!(arp::Packet::parse(&bytes), Ok(packet));
    }

    //~ ip: IPv4 options are skipped; fragments are reassembled within a time and memory bound (RFC 791, 815)
    #[test]
    fn ipv4_round_trips(source in addr4(), target in addr4(), protocol in any::<u8>(), dscp in 0u8..64, ecn in 0u8..4, ttl in any::<u8>(), payload in vec(any::<u8>(), 0..64), padding in 0usize..8) {
        let protocol = Protocol::new(protocol);
        let mut bytes = vec![0xaa; ipv4::HEADER_LEN];
        ipv4::Header { source, target, protocol, dscp, ecn, ttl, payload_len: payload.len() }.emit(&mut bytes);
        bytes.extend(&payload);
        bytes.resize(bytes.len() + padding, 0);
        let expected = ipv4::Packet { source, target, protocol, dscp, ecn, ttl, fragment: None, payload: &payload };
        prop_assert_eq!(ipv4::Packet::parse(&bytes), Ok(expected));
    }

    #[test]
    fn echoes_round_trip(reply in any::<bool>(), ident in any::<u16>(), sequence in any::<u16>(), payload in vec(any::<u8>(), 0..64)) {
        let echo = EchoMessage { reply, ident, sequence, payload: &payload };
        let mut bytes = vec![0xaa; echo.len()];
        echo.emit(&mut bytes);
        prop_assert_eq!(EchoMessage::parse(&bytes), Ok(echo));
    }

    #[test]
    fn segments_round_trip(mut segment in segment(), source in addr4(), target in addr4(), payload in vec(any::<u8>(), 0..100)) {
        segment.payload = &payload;
        let bytes = emitted(&segment, source, target);
        // SACK blocks that do not fit beside the other options are omitted.
        let room = (bytes.len() - payload.len() - tcp::HEADER_LEN - {
            let others = Options { sack: SackBlocks::NONE, ..segment.options };
            others.len()
        }) / 8;
        segment.options.sack = segment.options.sack.iter().take(room).collect();
        prop_assert!(bytes.len() - payload.len() <= tcp::HEADER_LEN_MAX);
        prop_assert_eq!(Segment::parse(&bytes, source, target, true), Ok(segment));
    }

    #[test]
    fn header_and_payload_emitted_apart_make_the_same_segment(mut segment in segment(), payload in vec(any::<u8>(), 0..100), cut in 0usize..100) {
        let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        segment.payload = &payload;
        let frame = emitted(&segment, source, target);
        let mut parts = vec![0xbb; frame.len()];
        segment.emit_header(&mut parts);
        let (head, tail) = payload.split_at(cut.min(payload.len()));
        let at = segment.header_len();
        parts[at..at + head.len()].copy_from_slice(head);
        parts[at + head.len()..].copy_from_slice(tail);
        tcp::finish_checksum(&mut parts, source, target);
        prop_assert_eq!(parts, frame);
    }

    #[test]
    fn a_checksum_left_to_the_device_is_completed_by_summing_the_segment(mut segment in segment(), source in addr4(), target in addr4(), payload in vec(any::<u8>(), 0..100)) {
        segment.payload = &payload;
        let frame = emitted(&segment, source, target);
        let mut partial = vec![0xcc; frame.len()];
        segment.emit_partial(source, target, &mut partial);
        // Checksum offload of a device that knows the start of the segment.
        let sum = crate::checksum::of(&partial);
        partial[16..18].copy_from_slice(&sum);
        prop_assert_eq!(partial, frame);
    }

    //~ ip: the Internet checksum matches the example of RFC 1071 and detects a flipped bit
    #[test]
    fn a_flipped_bit_in_a_segment_is_detected(mut segment in segment(), payload in vec(any::<u8>(), 0..100), flip in any::<prop::sample::Index>()) {
        let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        segment.payload = &payload;
        let mut bytes = emitted(&segment, source, target);
        let bit = flip.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Segment::parse(&bytes, source, target, true).is_err());
    }

    //~ input: random and damaged packets cause no panic in the wire formats
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..120)) {
        let any = Ipv4Addr::UNSPECIFIED;
        let _ = Frame::parse(&bytes);
        let _ = arp::Packet::parse(&bytes);
        let _ = ipv4::Packet::parse(&bytes);
        let _ = EchoMessage::parse(&bytes);
        let _ = Options::parse(&bytes);
        let _ = Segment::parse(&bytes, any, any, false);
        let _ = Segment::parse(&bytes, any, any, true);
    }

    //~ input: random and damaged packets cause no panic in the wire formats
    #[test]
    fn truncated_and_flipped_packets_never_panic(mut segment in segment(), payload in vec(any::<u8>(), 0..60), len in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>()) {
        let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        segment.payload = &payload;
        let tcp = emitted(&segment, source, target);
        let mut bytes = vec![0; ethernet::HEADER_LEN + ipv4::HEADER_LEN];
        ethernet::emit_header(&mut bytes, [1; 6], [2; 6], EtherType::Ipv4);
        ipv4::Header { source, target, protocol: Protocol::Tcp, dscp: 0, ecn: 0, ttl: 64, payload_len: tcp.len() }.emit(&mut bytes[14..]);
        bytes.extend(tcp);
        bytes.truncate(len.index(bytes.len() + 1).max(1));
        let bit = flip.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(frame) = Frame::parse(&bytes)
            && let Ok(packet) = ipv4::Packet::parse(frame.payload)
        {
            let _ = Segment::parse(packet.payload, packet.source, packet.target, false);
        }
    }

    #[test]
    fn half_of_the_sequence_space_is_after_a_number(seq in any::<u32>(), ahead in 1u32..0x8000_0000) {
        let (early, late) = (Seq(seq), Seq(seq) + ahead);
        prop_assert!(early.before(late) && late.after(early) && !late.before(early));
        prop_assert!(early.at_or_before(late) && late.at_or_after(early));
        prop_assert_eq!(late - early, ahead);
        prop_assert_eq!(early.distance(late), -(ahead as i32));
        prop_assert_eq!((early.max(late), early.min(late)), (late, early));
    }
}

/// Parses a valid packet of 4 payload bytes after `change` and a corrected header checksum.
fn check_ipv4(change: impl FnOnce(&mut Vec<u8>), expected: Result<&[u8], Malformed>) {
    let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    ipv4::Header { source, target, protocol: Protocol::Tcp, dscp: 46, ecn: 0, ttl: 64, payload_len: 4 }
        .emit(&mut bytes);
    bytes.extend(b"data");
    change(&mut bytes);
    let header_len = (usize::from(bytes[0] & 0xf) * 4).clamp(12, bytes.len());
    bytes[10..12].fill(0);
    let sum = super::checksum::of(&bytes[..header_len]);
    bytes[10..12].copy_from_slice(&sum);
    assert_eq!(ipv4::Packet::parse(&bytes).map(|p| p.payload), expected);
}

#[test]
fn invalid_ipv4_lengths_and_versions_are_refused() {
    check_ipv4(|_| {}, Ok(b"data"));
    check_ipv4(|b| b[0] = 0x65, Err(Malformed::BadVersion));
    check_ipv4(|b| b[0] = 0x44, Err(Malformed::BadLength));
    check_ipv4(|b| b[3] = 19, Err(Malformed::BadLength));
    check_ipv4(|b| b[3] = 25, Err(Malformed::Truncated));
    check_ipv4(|b| b[3] = 22, Ok(b"da"));
}

//~ ip: IPv4 options are skipped; fragments are reassembled within a time and memory bound (RFC 791, 815)
#[test]
fn ipv4_options_are_skipped() {
    check_ipv4(
        |b| {
            b[0] = 0x46;
            b[3] = 28;
            b.splice(20..20, [1, 1, 1, 0]);
        },
        Ok(b"data"),
    );
}

#[test]
fn fragments_are_reported() {
    let piece = |offset, more| Some(ip::Fragment { ident: 0x1234, offset, more });
    for (high, low, fragment) in [(0x40, 0, None), (0x20, 0, piece(0, true)), (0, 5, piece(40, false))] {
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        let any = Ipv4Addr::UNSPECIFIED;
        ipv4::Header {
            source: any,
            target: any,
            protocol: Protocol::Tcp,
            dscp: 0,
            ecn: 0,
            ttl: 64,
            payload_len: 0,
        }
        .emit(&mut bytes);
        bytes[4..8].copy_from_slice(&[0x12, 0x34, high, low]);
        bytes[10..12].fill(0);
        let sum = super::checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum);
        assert_eq!(ipv4::Packet::parse(&bytes).map(|p| p.fragment), Ok(fragment));
    }
}

//~ ip: Ethernet II frames are parsed and written; a VLAN tag is skipped
#[test]
fn a_vlan_tag_is_skipped() {
    let mut bytes = vec![7; 12];
    bytes.extend([0x81, 0x00, 0xe0, 0x05, 0x08, 0x00, 42]);
    let frame = Frame::parse(&bytes).expect("a tagged frame");
    assert_eq!((frame.vlan, frame.kind, frame.payload), (Some(5), EtherType::Ipv4, &[42][..]));
    assert_eq!(Frame::parse(&bytes[..17]), Err(Malformed::Truncated));
}

#[test]
fn tcp_options_in_any_layout_are_read() {
    let stamps = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::NONE };
    let check = |bytes: &[u8], expected| assert_eq!(Options::parse(bytes), expected, "{bytes:?}");
    check(&[], Ok(Options::NONE));
    check(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], Ok(stamps));
    check(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0], Ok(stamps));
    check(&[254, 4, 9, 9, 2, 4, 5, 180], Ok(Options { mss: Some(1460), ..Options::NONE }));
    check(&[3, 3, 200, 0], Ok(Options { window_scale: Some(14), ..Options::NONE }));
    check(&[0, 2, 9, 9], Ok(Options::NONE));
    for bad in [
        &[2][..],
        &[2, 0],
        &[2, 1, 0, 0],
        &[2, 5, 5, 180],
        &[2, 3, 5, 0],
        &[8, 10, 0, 0],
        &[5, 9, 0, 0, 0, 0, 0, 0, 0],
    ] {
        check(bad, Err(Malformed::BadOption));
    }
}

//~ input: malformed packets are counted by reason and dropped
#[test]
fn malformed_segments_return_the_reason() {
    let any = Ipv4Addr::LOCALHOST;
    let check = |change: &dyn Fn(&mut Vec<u8>), expected| {
        let segment = Segment {
            source_port: 1000,
            target_port: 80,
            seq: Seq(1),
            ack: Seq(2),
            flags: Flags::ACK,
            window: 100,
            options: Options::NONE,
            payload: b"hello",
        };
        let mut bytes = emitted(&segment, any, any);
        change(&mut bytes);
        bytes[16..18].fill(0);
        tcp::finish_checksum(&mut bytes, any, any);
        assert_eq!(Segment::parse(&bytes, any, any, true).map(|s| s.payload.len()), expected);
    };
    check(&|_| {}, Ok(5));
    check(&|b| b.truncate(19), Err(Malformed::Truncated));
    check(&|b| b[12] = 0x40, Err(Malformed::BadLength));
    check(&|b| b[12] = 0xf0, Err(Malformed::Truncated));
    check(&|b| b[2..4].fill(0), Err(Malformed::BadAddress));
    check(&|b| b[12] = 0x60, Err(Malformed::BadOption));
}

//~ input: malformed packets are counted by reason and dropped
#[test]
fn every_reason_has_its_own_index_and_name() {
    for (i, reason) in Malformed::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), i);
        assert_eq!(Malformed::ALL.iter().filter(|r| r.name() == reason.name()).count(), 1);
    }
}
