//! Fuzz targets of the parsers: no bytes cause a panic, and a parsed packet is emitted unchanged.
//!
//! A fuzzer cannot guess checksums, so they are corrected first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::device::Device;
use net::device::pcap::{PcapTap, Replay, ReplayPace};
use net::steer::{FlowHash, FlowSteering, FrameOwner};
use queueing::Time;
use wire::dhcp::Message;
use wire::tcp::{Options, Segment};
use wire::udp::Datagram;
use wire::{FourTuple, arp, checksum, ethernet, icmp as icmpv4, icmpv6, ip, ipv4, ipv6};

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
    match icmpv4::Message::parse(&data) {
        Ok(icmpv4::Message::Echo(echo)) => {
            let mut buf = vec![0; echo.len()];
            echo.emit(&mut buf);
            assert_eq!(icmpv4::Message::parse(&buf), Ok(icmpv4::Message::Echo(echo)));
        }
        Ok(icmpv4::Message::Error(error)) => {
            let _ = ip::Quote::parse(error.quoted);
            let mut buf = Vec::new();
            error.emit(&mut buf);
            let Ok(icmpv4::Message::Error(again)) = icmpv4::Message::parse(&buf) else {
                panic!("an error reads back")
            };
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
            if let wire::ndp::Message::RouterAdvertisement(message) = &message {
                assert!(message.prefixes().count() <= data.len(), "prefixes end");
            }
            let mut buf = Vec::new();
            message.emit(&mut buf);
            icmpv6::finish_checksum(&mut buf, V6, V6);
            assert!(icmpv6::Message::parse(&buf, V6, V6).is_ok(), "{message:?} reads back");
        }
        Ok(icmpv6::Message::Echo(_) | icmpv6::Message::Query(_)) | Err(_) => {}
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

/// Compares options, except SACK blocks for which padding left no space.
fn same_options(read: &Options, again: &Options) {
    let kept = again.sack.len();
    assert_eq!(read.sack.as_slice()[..kept], *again.sack.as_slice());
    assert_eq!(Options { sack: again.sack, ..*read }, *again);
}

pub fn dhcp(data: &[u8]) {
    let Ok(message) = Message::parse(data) else { return };
    let mut buf = Vec::new();
    message.emit(&mut buf);
    assert_eq!(Message::parse(&buf), Ok(message));
}

/// A frame has an owner, and a TCP segment's owner is that of its flow.
pub fn steer(data: &[u8]) {
    let steering = FlowSteering::new(5, FlowHash::Keyed([7; 16]));
    let FrameOwner::One(owner) = steering.owner(data) else { return };
    assert!(owner < 5, "shard {owner} of 5");
    let Ok(frame) = ethernet::Frame::parse(data) else { return };
    let read: Option<(IpAddr, IpAddr, _)> = match frame.kind {
        _ if frame.vlan.is_some() => None,
        ethernet::EtherType::Ipv4 => ipv4::Packet::parse(frame.payload)
            .ok()
            .filter(|p| p.protocol == ip::Protocol::Tcp && p.fragment.is_none())
            .map(|p| (p.source.into(), p.target.into(), p.payload)),
        ethernet::EtherType::Ipv6 => ipv6::Packet::parse(frame.payload)
            .ok()
            .filter(|p| p.protocol == ip::Protocol::Tcp && p.fragment.is_none())
            .map(|p| (p.source.into(), p.target.into(), p.payload)),
        _ => None,
    };
    let Some((remote, local, bytes)) = read else { return };
    let Ok(s) = Segment::parse(bytes, remote, local, false) else { return };
    let tuple = FourTuple { local, remote, local_port: s.target_port, remote_port: s.source_port };
    assert_eq!(owner, steering.of_flow(&tuple), "{tuple:?}");
}

/// A capture replays, and the recording of a replay replays again.
pub fn pcap(data: &[u8]) {
    let Ok(replay) = Replay::new(data, ReplayPace::Fast) else { return };
    let mut tee = PcapTap::new(replay, Vec::new()).expect("writes to memory succeed");
    let frames = play(&mut tee);
    let (replay, file) = tee.into_parts();
    let reported = replay.counters();
    assert!(replay.is_over() && reported.played == frames.len() as u64);
    let read: usize = frames.iter().map(|frame| 16 + frame.len()).sum();
    assert!(24 + read + 16 * reported.cut as usize <= data.len(), "no byte from nowhere");
    let mut again = Replay::new(&file[..], ReplayPace::Fast).expect("the recording is a capture");
    assert_eq!(play(&mut again), frames);
    assert!(again.error().is_none());
}

fn play(device: &mut impl Device) -> Vec<Vec<u8>> {
    let received = std::iter::from_fn(|| device.receive(Time::ZERO));
    received.map(|received| received.frame.as_ref().to_vec()).collect()
}
