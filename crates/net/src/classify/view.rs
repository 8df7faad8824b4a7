//! A frame as the driver's classifier sees it.
//!
//! Every access is checked against the bytes that are there and parses only
//! what it needs; a frame that does not have what is asked for answers `None`.
//! Checksums are not looked at: the stack drops what is broken later. No
//! header has a fixed size here: a VLAN tag, IP options and TCP options are
//! stepped over.

use std::net::{IpAddr, Ipv4Addr};

use super::PacketMeta;
use crate::wire::ethernet::{self, EtherType};
use crate::wire::ipv4::Protocol;
use crate::wire::tcp::Flags;
use crate::wire::{addr, be16, be32, ipv4, ipv6, tcp, udp};

/// A frame's bytes on demand.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    frame: &'a [u8],
    meta: &'a PacketMeta,
}

impl<'a> PacketView<'a> {
    /// A view of `frame`.
    #[must_use]
    pub const fn new(frame: &'a [u8], meta: &'a PacketMeta) -> Self {
        Self { frame, meta }
    }

    /// Metadata.
    #[must_use]
    pub const fn meta(&self) -> &'a PacketMeta {
        self.meta
    }

    /// The whole frame.
    #[must_use]
    pub const fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Length of the frame in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no frame is empty")]
    pub const fn len(&self) -> usize {
        self.frame.len()
    }

    /// The IPv4 packet in the frame.
    #[must_use]
    #[inline]
    pub fn ipv4(&self) -> Option<Ipv4View<'a>> {
        let (EtherType::Ipv4, _, start) = ethernet::network(self.frame)? else { return None };
        Ipv4View::new(&self.frame[start..])
    }

    /// The IP packet in the frame, of either version.
    #[must_use]
    #[inline]
    pub fn ip(&self) -> Option<IpView<'a>> {
        let (kind, _, start) = ethernet::network(self.frame)?;
        match kind {
            EtherType::Ipv4 => Ipv4View::new(&self.frame[start..]).map(IpView::V4),
            EtherType::Ipv6 => ipv6::Packet::parse(&self.frame[start..]).ok().map(IpView::V6),
            _ => None,
        }
    }

    /// Differentiated services code point of the packet, 0..64.
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> Option<u8> {
        self.ip().map(|ip| ip.dscp())
    }

    /// Source and target port of the TCP segment.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.ip()?.tcp_ports()
    }

    /// What the TCP segment carries; empty for a bare ACK.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        self.ip()?.tcp_payload()
    }

    /// Source and target port of the UDP datagram.
    #[must_use]
    #[inline]
    pub fn udp_ports(&self) -> Option<(u16, u16)> {
        self.ip()?.udp_ports()
    }

    /// What the UDP datagram carries.
    #[must_use]
    #[inline]
    pub fn udp_payload(&self) -> Option<&'a [u8]> {
        self.ip()?.udp_payload()
    }

    /// The control bits of the TCP segment.
    #[must_use]
    #[inline]
    pub fn tcp_flags(&self) -> Option<Flags> {
        self.ip()?.tcp_flags()
    }

    /// Byte `at` of the TCP payload.
    #[must_use]
    #[inline]
    pub fn payload_byte(&self, at: usize) -> Option<u8> {
        self.tcp_payload()?.get(at).copied()
    }

    /// The big-endian `u16` at `at` in the TCP payload.
    #[must_use]
    #[inline]
    pub fn payload_u16(&self, at: usize) -> Option<u16> {
        Some(be16(self.tcp_payload()?.get(at..at.checked_add(2)?)?, 0))
    }

    /// The big-endian `u32` at `at` in the TCP payload.
    #[must_use]
    #[inline]
    pub fn payload_u32(&self, at: usize) -> Option<u32> {
        Some(be32(self.tcp_payload()?.get(at..at.checked_add(4)?)?, 0))
    }
}

/// An IPv4 packet whose lengths fit the frame.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    /// The packet without the link's padding.
    packet: &'a [u8],
    header_len: usize,
}

impl<'a> Ipv4View<'a> {
    #[inline]
    fn new(packet: &'a [u8]) -> Option<Self> {
        if packet.len() < ipv4::HEADER_LEN || packet[0] >> 4 != 4 {
            return None;
        }
        let header_len = usize::from(packet[0] & 0xf) * 4;
        let packet = packet.get(..usize::from(be16(packet, 2)))?;
        (ipv4::HEADER_LEN <= header_len && header_len <= packet.len()).then_some(Self { packet, header_len })
    }

    /// Who sent it.
    #[must_use]
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        addr(self.packet, 12)
    }

    /// Whom it is for.
    #[must_use]
    #[inline]
    pub fn target(&self) -> Ipv4Addr {
        addr(self.packet, 16)
    }

    /// What it carries.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol::new(self.packet[9])
    }

    /// Differentiated services code point, 0..64.
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.packet[1] >> 2
    }

    /// Whether this is a piece of a larger packet.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> bool {
        be16(self.packet, 6) & ipv4::MORE_OR_OFFSET != 0
    }

    /// What it carries.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet[self.header_len..]
    }
}

/// A packet of either version whose lengths fit the frame.
#[derive(Clone, Copy, Debug)]
pub enum IpView<'a> {
    /// Of IPv4, read on demand.
    V4(Ipv4View<'a>),
    /// Of IPv6, extension headers stepped over.
    V6(ipv6::Packet<'a>),
}

impl<'a> IpView<'a> {
    /// Who sent it.
    #[must_use]
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.source().into(),
            Self::V6(ip) => ip.source.into(),
        }
    }

    /// Whom it is for.
    #[must_use]
    #[inline]
    pub fn target(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.target().into(),
            Self::V6(ip) => ip.target.into(),
        }
    }

    /// What it carries.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::V4(ip) => ip.protocol(),
            Self::V6(ip) => ip.protocol,
        }
    }

    /// Differentiated services code point, 0..64.
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.dscp(),
            Self::V6(ip) => ip.dscp,
        }
    }

    /// Whether this is a piece of a larger packet.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> bool {
        match self {
            Self::V4(ip) => ip.fragment(),
            Self::V6(ip) => ip.fragment.is_some(),
        }
    }

    /// What it carries.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::V4(ip) => ip.payload(),
            Self::V6(ip) => ip.payload,
        }
    }

    /// Source and target port of the TCP segment; none in a fragment.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.whole(Protocol::Tcp, tcp::HEADER_LEN).map(ports)
    }

    /// The control bits of the TCP segment; none in a fragment.
    #[must_use]
    #[inline]
    pub fn tcp_flags(&self) -> Option<Flags> {
        self.whole(Protocol::Tcp, tcp::HEADER_LEN).map(|segment| Flags::from_bits(segment[tcp::FLAGS_AT]))
    }

    /// What the TCP segment carries.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        self.whole(Protocol::Tcp, tcp::HEADER_LEN).and_then(behind_tcp)
    }

    /// Source and target port of the UDP datagram; none in a fragment.
    #[must_use]
    #[inline]
    pub fn udp_ports(&self) -> Option<(u16, u16)> {
        self.whole(Protocol::Udp, udp::HEADER_LEN).map(ports)
    }

    /// What the UDP datagram carries.
    #[must_use]
    #[inline]
    pub fn udp_payload(&self) -> Option<&'a [u8]> {
        self.whole(Protocol::Udp, udp::HEADER_LEN).and_then(behind_udp)
    }

    /// Source and target port and payload, be it TCP or UDP.
    #[must_use]
    #[inline]
    pub fn transport(&self) -> Option<(u16, u16, &'a [u8])> {
        let (bytes, data) = match self.protocol() {
            Protocol::Tcp => {
                let bytes = self.whole(Protocol::Tcp, tcp::HEADER_LEN)?;
                (bytes, behind_tcp(bytes)?)
            }
            Protocol::Udp => {
                let bytes = self.whole(Protocol::Udp, udp::HEADER_LEN)?;
                (bytes, behind_udp(bytes)?)
            }
            _ => return None,
        };
        let (source, target) = ports(bytes);
        Some((source, target, data))
    }

    /// What it carries, when that is all of a `protocol` header and no piece.
    #[inline]
    fn whole(&self, protocol: Protocol, header_len: usize) -> Option<&'a [u8]> {
        let bytes = self.payload();
        (self.protocol() == protocol && !self.fragment() && bytes.len() >= header_len).then_some(bytes)
    }
}

#[inline]
fn ports(bytes: &[u8]) -> (u16, u16) {
    (be16(bytes, 0), be16(bytes, 2))
}

#[inline]
fn behind_tcp(segment: &[u8]) -> Option<&[u8]> {
    let header_len = usize::from(segment[12] >> 4) * 4;
    if header_len < tcp::HEADER_LEN { None } else { segment.get(header_len..) }
}

#[inline]
fn behind_udp(datagram: &[u8]) -> Option<&[u8]> {
    datagram.get(udp::HEADER_LEN..usize::from(be16(datagram, 4)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::testing::{Packet, view};
    use crate::wire::ethernet::Frame;
    use crate::wire::ip;
    use crate::wire::tcp::Segment;

    #[test]
    fn tags_and_options_of_any_length_are_stepped_over() {
        for vlan in [false, true] {
            for (ip_options, tcp_options) in [(0, 0), (4, 0), (0, 12), (40, 40)] {
                let packet =
                    Packet { vlan, ip_options, tcp_options, dscp: 46, ..Packet::new(b"\x01\x02\x03\x04x") };
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
        let mut frame = Packet { tcp_options: 0, ..Packet::new(b"") }.frame();
        frame.resize(60, 0);
        view(&frame, |v| assert_eq!(v.tcp_payload(), Some(&[][..])));
    }

    #[test]
    fn what_is_not_tcp_has_no_tcp_ports() {
        let good = Packet::new(b"GW").frame();
        for (at, byte) in [(12, 0x86), (14, 0x65), (23, 17), (20, 0x20), (46, 0x40), (14, 0x44), (16, 0xff)] {
            let mut frame = good.clone();
            frame[at] = byte;
            view(&frame, |v| assert_eq!(v.tcp_payload(), None, "byte {at}"));
        }
    }

    proptest! {
        #[test]
        fn a_view_and_the_parser_see_the_same_segment(packet in Packet::any(), change in any::<(prop::sample::Index, u8)>()) {
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
        fn datagrams_and_ipv6_are_seen_as_the_parsers_see_them(
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
            let header = ip::Header { source, target, protocol, dscp: 46, ecn: 0, payload_len };
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

        #[test]
        fn no_bytes_make_a_view_panic(frame in proptest::collection::vec(any::<u8>(), 0..100), at in any::<usize>()) {
            view(&frame, |v| {
                let _ = (v.dscp(), v.tcp_ports(), v.tcp_payload());
                let _ = (v.payload_byte(at), v.payload_u16(at), v.payload_u32(at));
            });
        }
    }
}
