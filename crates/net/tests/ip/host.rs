//! One stack on a link on which the test plays all other hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::stack::Config;
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};
use wire::ethernet::{self, EtherType, Frame, Mac};
use wire::ip::{self, Protocol};
use wire::tcp::{Flags, Options, Segment, Seq};
use wire::{arp, icmpv6, ipv4, ipv6, ndp};

use crate::world::{meta, sent};

pub const STACK_MAC: Mac = [2, 0, 0, 0, 0, 1];
pub const MAC: Mac = [2, 0, 0, 0, 0, 2];
pub const STACK4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const PEER4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const STACK6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// Addresses of stack and peer in both families.
pub const PAIRS: [(IpAddr, IpAddr); 2] =
    [(IpAddr::V4(STACK4), IpAddr::V4(PEER4)), (IpAddr::V6(STACK6), IpAddr::V6(PEER6))];

/// Packet that the stack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub mac: Mac,
    pub source: IpAddr,
    pub target: IpAddr,
    pub protocol: Protocol,
    pub hops: u8,
    pub fragment: Option<ip::Fragment>,
    pub payload: Vec<u8>,
    /// Whole packet.
    pub packet: Vec<u8>,
}

pub struct Host {
    pub now: Time,
    pub stack: Stack,
}

impl Host {
    pub fn new(config: Config) -> Self {
        Self { now: Time::from_nanos(5_000_000_000), stack: Stack::new(config) }
    }

    /// Stack that has resolved the peer's hardware address in both families.
    pub fn introduced(config: Config) -> Self {
        let mut host = Self::new(config);
        host.arp(arp::Operation::Request, PEER4, MAC, STACK4);
        let question = ndp::Message::NeighborSolicitation { target: STACK6, source: Some(MAC) };
        host.discover(PEER6, ipv6::solicited_node(STACK6), &question);
        sent(&mut host.stack, host.now);
        host
    }

    pub fn raw(&mut self, frame: &[u8]) {
        let meta = meta(self.now, frame);
        self.stack.ingress(self.now, frame, &meta);
    }

    pub fn arp(&mut self, operation: arp::Operation, sender: Ipv4Addr, sender_mac: Mac, target: Ipv4Addr) {
        let packet = arp::Packet { operation, sender_mac, sender, target_mac: STACK_MAC, target };
        let mut frame = vec![0; 60];
        ethernet::emit_header(&mut frame, ethernet::BROADCAST, sender_mac, EtherType::Arp);
        packet.emit(&mut frame[ethernet::HEADER_LEN..]);
        self.raw(&frame);
    }

    /// Sends a packet to the stack.
    pub fn send(&mut self, source: IpAddr, target: IpAddr, protocol: Protocol, payload: &[u8]) {
        let frame = frame(source, target, protocol, payload);
        self.raw(&frame);
    }

    /// Connects from port 5000 to the peer's port 80; the peer offers `mss`.
    pub fn connect(&mut self, (stack, peer): (IpAddr, IpAddr), mss: u16) -> ConnId {
        let conn = self.stack.connect(self.now, (peer, 80).into(), Some(5000)).unwrap();
        let syn = self.receive().remove(0);
        let syn = Segment::parse(&syn.payload, stack, peer, true).unwrap();
        let answer = Segment {
            source_port: 80,
            target_port: 5000,
            seq: Seq(100),
            ack: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK,
            window: 60_000,
            options: Options { mss: Some(mss), ..Options::NONE },
            payload: &[],
        };
        let mut bytes = vec![0; answer.header_len()];
        answer.emit(peer, stack, &mut bytes);
        self.send(peer, stack, Protocol::Tcp, &bytes);
        assert_eq!(self.stack.poll_event().map(|event| event.kind), Some(EventKind::Connected));
        conn
    }

    pub fn discover(&mut self, source: Ipv6Addr, target: Ipv6Addr, message: &ndp::Message<'_>) {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        icmpv6::finish_checksum(&mut bytes, source, target);
        self.send(source.into(), target.into(), Protocol::Icmpv6, &bytes);
    }

    /// Frames that the stack sends now.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        sent(&mut self.stack, self.now)
    }

    /// Packets that the stack sends now.
    pub fn receive(&mut self) -> Vec<Sent> {
        self.frames().iter().filter_map(|frame| parse(frame)).collect()
    }

    /// Neighbour discovery messages that the stack sends now.
    pub fn discoveries(&mut self) -> Vec<(IpAddr, IpAddr, String)> {
        let received = self.receive();
        received
            .iter()
            .filter_map(|s| {
                let (IpAddr::V6(source), IpAddr::V6(target)) = (s.source, s.target) else { return None };
                match icmpv6::Message::parse(&s.payload, source, target) {
                    Ok(icmpv6::Message::Ndp(message)) => {
                        assert_eq!(s.hops, 255);
                        Some((s.source, s.target, format!("{message:?}")))
                    }
                    _ => None,
                }
            })
            .collect()
    }

    /// Advances by `span`, timer by timer; returns the packets that the stack sends.
    pub fn pass(&mut self, span: Span) -> Vec<Sent> {
        let end = self.now + span;
        let mut received = self.receive();
        for _ in 0..10_000 {
            match self.stack.poll_timeout() {
                Some(next) if next <= end => {
                    self.now = self.now.max(next);
                    self.stack.handle_timeout(self.now);
                    received.extend(self.receive());
                }
                _ => break,
            }
        }
        self.now = end;
        received
    }
}

/// Frame to the stack.
pub fn frame(source: IpAddr, target: IpAddr, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let header = ip::Header {
        source,
        target,
        protocol,
        dscp: 0,
        ecn: 0,
        hops: protocol.hops(),
        payload_len: payload.len(),
    };
    let start = ethernet::HEADER_LEN + header.len();
    let mut frame = vec![0; start + payload.len()];
    let kind = if source.is_ipv4() { EtherType::Ipv4 } else { EtherType::Ipv6 };
    let mac = match target {
        IpAddr::V6(group) if group.is_multicast() => ipv6::multicast_mac(group),
        _ => STACK_MAC,
    };
    ethernet::emit_header(&mut frame, mac, MAC, kind);
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame[start..].copy_from_slice(payload);
    frame
}

/// Frame to the stack with one fragment of a datagram.
pub fn fragment(
    source: IpAddr,
    target: IpAddr,
    ident: u32,
    start: usize,
    payload: &[u8],
    more: bool,
) -> Vec<u8> {
    let fragment = ip::Fragment { ident, offset: start as u32, more };
    let (protocol, dscp, ecn, payload_len) = (Protocol::Udp, 0, 0, payload.len());
    let mut frame = vec![0; ethernet::HEADER_LEN];
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            ethernet::emit_header(&mut frame, STACK_MAC, MAC, EtherType::Ipv4);
            frame.resize(ethernet::HEADER_LEN + ipv4::HEADER_LEN, 0);
            ipv4::Header { source, target, protocol, dscp, ecn, ttl: 64, payload_len }
                .emit_fragment(fragment, &mut frame[ethernet::HEADER_LEN..]);
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            ethernet::emit_header(&mut frame, STACK_MAC, MAC, EtherType::Ipv6);
            frame.resize(ethernet::HEADER_LEN + ipv6::HEADER_LEN + ipv6::FRAGMENT_LEN, 0);
            ipv6::Header { source, target, protocol, dscp, ecn, hops: 64, payload_len }
                .emit_fragment(fragment, &mut frame[ethernet::HEADER_LEN..]);
        }
        _ => unreachable!(),
    }
    frame.extend(payload);
    frame
}

/// Packet in a frame; `None` for ARP.
pub fn parse(frame: &[u8]) -> Option<Sent> {
    let frame = Frame::parse(frame).expect("a frame");
    let packet = frame.payload.to_vec();
    let mac = frame.target;
    match frame.kind {
        EtherType::Ipv4 => {
            let p = ipv4::Packet::parse(frame.payload).expect("a packet");
            let (source, target) = (p.source.into(), p.target.into());
            let (protocol, fragment, payload) = (p.protocol, p.fragment, p.payload.to_vec());
            Some(Sent { mac, source, target, protocol, hops: p.ttl, fragment, payload, packet })
        }
        EtherType::Ipv6 => {
            let p = ipv6::Packet::parse(frame.payload).expect("a packet");
            let (source, target) = (p.source.into(), p.target.into());
            let (protocol, fragment, payload) = (p.protocol, p.fragment, p.payload.to_vec());
            Some(Sent { mac, source, target, protocol, hops: p.hops, fragment, payload, packet })
        }
        _ => None,
    }
}
