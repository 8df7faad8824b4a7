//! No bytes make a parser panic, and what it reads it writes the same.
//!
//! A fuzzer cannot guess checksums, so they are made right first.

use std::net::{Ipv4Addr, Ipv6Addr};

use net::classify::{PacketView, Policy};
use net::wire::icmp::Message;
use net::wire::tcp::{Options, Segment};
use net::wire::udp::Datagram;
use net::wire::{arp, checksum, ethernet, icmpv6, ip, ipv4, ipv6};
use queueing::Time;

use super::meta;

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

pub fn ethernet(data: &[u8]) {
    let Ok(frame) = ethernet::Frame::parse(data) else { return };
    if frame.vlan.is_none() {
        let mut copy = data.to_vec();
        ethernet::emit_header(&mut copy, frame.target, frame.source, frame.kind);
        assert_eq!(copy, data);
    }
}

pub fn arp(data: &[u8]) {
    let Ok(packet) = arp::Packet::parse(data) else { return };
    let mut buf = [0; arp::LEN];
    packet.emit(&mut buf);
    assert_eq!(buf[..], data[..arp::LEN]);
}

pub fn ipv4(data: &[u8]) {
    let mut data = data.to_vec();
    let header_len = data.first().map_or(0, |first| usize::from(first & 15) * 4);
    if (20..=data.len()).contains(&header_len) {
        data[10..12].fill(0);
        let sum = checksum::of(&data[..header_len]);
        data[10..12].copy_from_slice(&sum);
    }
    let _ = ip::Quote::parse(&data);
    let Ok(packet) = ipv4::Packet::parse(&data) else { return };
    assert!(packet.payload.len() <= data.len() - header_len, "no byte from nowhere");
}

pub fn ipv6(data: &[u8]) {
    let _ = ip::Quote::parse(data);
    let _ = ipv6::upper(ip::Protocol::new(data.first().copied().unwrap_or(0)), data);
    let Ok(packet) = ipv6::Packet::parse(data) else { return };
    assert!(packet.payload.len() + ipv6::HEADER_LEN <= data.len(), "no byte from nowhere");
}

pub fn icmp(data: &[u8]) {
    let mut data = data.to_vec();
    if data.len() >= 4 {
        data[2..4].fill(0);
        let sum = checksum::of(&data);
        data[2..4].copy_from_slice(&sum);
    }
    match Message::parse(&data) {
        Ok(Message::Echo(echo)) => {
            let mut buf = vec![0; echo.len()];
            echo.emit(&mut buf);
            assert_eq!(Message::parse(&buf), Ok(Message::Echo(echo)));
        }
        Ok(Message::Error(error)) => {
            let _ = ip::Quote::parse(error.quoted);
            let mut buf = Vec::new();
            error.emit(&mut buf);
            let Ok(Message::Error(again)) = Message::parse(&buf) else { panic!("an error reads back") };
            assert_eq!(again.cause, error.cause);
        }
        Err(_) => {}
    }
}

pub fn icmpv6(data: &[u8]) {
    let mut data = data.to_vec();
    if data.len() >= 4 {
        data[2..4].fill(0);
        icmpv6::finish_checksum(&mut data, V6, V6);
    }
    match icmpv6::Message::parse(&data, V6, V6) {
        Ok(icmpv6::Message::Error(error)) => {
            let _ = ip::Quote::parse(error.quoted);
            let mut buf = Vec::new();
            icmpv6::emit_error(&error, V6, V6, &mut buf);
            assert!(icmpv6::Message::parse(&buf, V6, V6).is_ok(), "an error reads back");
        }
        Ok(icmpv6::Message::Ndp(message)) => {
            if let net::wire::ndp::Message::RouterAdvertisement(said) = &message {
                assert!(said.prefixes().count() <= data.len(), "prefixes end");
            }
            let mut buf = Vec::new();
            message.emit(&mut buf);
            icmpv6::finish_checksum(&mut buf, V6, V6);
            assert!(icmpv6::Message::parse(&buf, V6, V6).is_ok(), "{message:?} reads back");
        }
        Ok(icmpv6::Message::Echo(_)) | Err(_) => {}
    }
}

pub fn udp(data: &[u8]) {
    let _ = Datagram::parse(data, V6, V6, true);
    let Ok(datagram) = Datagram::parse(data, V4, V4, false) else { return };
    let mut buf = vec![0; datagram.len()];
    datagram.emit(V4, V4, &mut buf);
    assert_eq!(Datagram::parse(&buf, V4, V4, true), Ok(datagram));
}

pub fn tcp(data: &[u8]) {
    let _ = Segment::parse(data, V6, V6, true);
    let Ok(segment) = Segment::parse(data, V4, V4, false) else { return };
    let mut buf = vec![0; segment.header_len() + segment.payload.len()];
    segment.emit(V4, V4, &mut buf);
    let again = Segment::parse(&buf, V4, V4, true).expect("what was written reads back");
    same_options(&segment.options, &again.options);
    assert_eq!(Segment { options: segment.options, ..again }, segment);
}

pub fn options(data: &[u8]) {
    let Ok(options) = Options::parse(&data[..data.len().min(40)]) else { return };
    let mut buf = [0; 40];
    assert!(options.len() <= 40 && options.len() % 4 == 0);
    options.emit(&mut buf);
    same_options(&options, &Options::parse(&buf[..options.len()]).expect("what was written reads back"));
}

/// All but the SACK blocks that padding left no room for.
fn same_options(read: &Options, again: &Options) {
    let kept = again.sack.len();
    assert_eq!(read.sack.as_slice()[..kept], *again.sack.as_slice());
    assert_eq!(Options { sack: again.sack, ..*read }, *again);
}

/// A policy file; one that is valid is asked about a frame.
pub fn rules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(policy) = Policy::parse(text) else { return };
    if let Some(driver) = policy.driver() {
        let meta = meta(Time::ZERO, data);
        let _ = driver(&PacketView::new(data, &meta));
    }
}

/// Frames of any bytes, one after another, into a whole stack.
pub fn frames(data: &[u8]) {
    let mut stack = super::stack();
    for (at, bytes) in data.chunks(90).enumerate() {
        let now = Time::from_nanos(1_000_000 * at as u64);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(bytes);
        let meta = meta(now, &frame);
        stack.ingress(now, &frame, &meta);
        stack.handle_timeout(now);
        while stack.poll_event().is_some() {}
        super::sent(&mut stack, now, usize::MAX);
    }
}
