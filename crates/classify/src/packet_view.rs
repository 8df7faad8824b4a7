//! Frame as the driver's classifier sees it.
//!
//! Every access is bounds-checked and parses only the headers that it needs; it returns `None` if
//! the frame lacks the field. Checksums are not verified: the stack drops corrupt packets later.
//! VLAN tags, IP options and TCP options are skipped, so no header has a fixed size.

use std::net::{IpAddr, Ipv4Addr};

use wire::ethernet::{self, EtherType};
use wire::ipv4::Protocol;
use wire::tcp::Flags;
use wire::{addr, be16, be32, ipv4, ipv6, tcp, udp};

use super::PacketMeta;

/// On-demand parser of a frame's bytes.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    frame: &'a [u8],
    meta: &'a PacketMeta,
}

impl<'a> PacketView<'a> {
    /// View of `frame`.
    #[must_use]
    pub const fn new(frame: &'a [u8], meta: &'a PacketMeta) -> Self {
        Self { frame, meta }
    }

    /// Metadata of the frame.
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

    /// IPv4 packet in the frame.
    #[must_use]
    #[inline]
    pub fn ipv4(&self) -> Option<Ipv4View<'a>> {
        let (EtherType::Ipv4, _, start) = ethernet::network(self.frame)? else { return None };
        Ipv4View::new(&self.frame[start..])
    }

    /// IP packet in the frame, of either version.
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

    /// Source and destination port of the TCP segment.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.ip()?.tcp_ports()
    }

    /// Payload of the TCP segment; empty for a bare ACK.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        self.ip()?.tcp_payload()
    }

    /// Source and destination port of the UDP datagram.
    #[must_use]
    #[inline]
    pub fn udp_ports(&self) -> Option<(u16, u16)> {
        self.ip()?.udp_ports()
    }

    /// Payload of the UDP datagram.
    #[must_use]
    #[inline]
    pub fn udp_payload(&self) -> Option<&'a [u8]> {
        self.ip()?.udp_payload()
    }

    /// Control bits of the TCP segment.
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

    /// Big-endian `u16` at offset `at` of the TCP payload.
    #[must_use]
    #[inline]
    pub fn payload_u16(&self, at: usize) -> Option<u16> {
        Some(be16(self.tcp_payload()?.get(at..at.checked_add(2)?)?, 0))
    }

    /// Big-endian `u32` at offset `at` of the TCP payload.
    #[must_use]
    #[inline]
    pub fn payload_u32(&self, at: usize) -> Option<u32> {
        Some(be32(self.tcp_payload()?.get(at..at.checked_add(4)?)?, 0))
    }
}

/// IPv4 packet whose lengths fit the frame.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    /// Packet without the link layer's padding.
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

    /// Source address.
    #[must_use]
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        addr(self.packet, 12)
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn target(&self) -> Ipv4Addr {
        addr(self.packet, 16)
    }

    /// Transport protocol.
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

    /// True if the packet is a fragment.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> bool {
        be16(self.packet, 6) & ipv4::MORE_OR_OFFSET != 0
    }

    /// Payload of the packet.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet[self.header_len..]
    }
}

/// IP packet of either version whose lengths fit the frame.
#[derive(Clone, Copy, Debug)]
pub enum IpView<'a> {
    /// IPv4, parsed on demand.
    V4(Ipv4View<'a>),
    /// IPv6, with extension headers skipped.
    V6(ipv6::Packet<'a>),
}

impl<'a> IpView<'a> {
    /// Source address.
    #[must_use]
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.source().into(),
            Self::V6(ip) => ip.source.into(),
        }
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn target(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.target().into(),
            Self::V6(ip) => ip.target.into(),
        }
    }

    /// Transport protocol.
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

    /// True if the packet is a fragment.
    #[must_use]
    #[inline]
    pub fn fragment(&self) -> bool {
        match self {
            Self::V4(ip) => ip.fragment(),
            Self::V6(ip) => ip.fragment.is_some(),
        }
    }

    /// Payload of the packet.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::V4(ip) => ip.payload(),
            Self::V6(ip) => ip.payload,
        }
    }

    /// Source and destination port of the TCP segment; `None` in a fragment.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.payload_of(Protocol::Tcp, tcp::HEADER_LEN).map(ports)
    }

    /// Control bits of the TCP segment; `None` in a fragment.
    #[must_use]
    #[inline]
    pub fn tcp_flags(&self) -> Option<Flags> {
        self.payload_of(Protocol::Tcp, tcp::HEADER_LEN)
            .map(|segment| Flags::from_bits(segment[tcp::FLAGS_AT]))
    }

    /// Payload of the TCP segment.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        self.payload_of(Protocol::Tcp, tcp::HEADER_LEN).and_then(behind_tcp)
    }

    /// Source and destination port of the UDP datagram; `None` in a fragment.
    #[must_use]
    #[inline]
    pub fn udp_ports(&self) -> Option<(u16, u16)> {
        self.payload_of(Protocol::Udp, udp::HEADER_LEN).map(ports)
    }

    /// Payload of the UDP datagram.
    #[must_use]
    #[inline]
    pub fn udp_payload(&self) -> Option<&'a [u8]> {
        self.payload_of(Protocol::Udp, udp::HEADER_LEN).and_then(behind_udp)
    }

    /// Source port, destination port and payload, for TCP or UDP.
    #[must_use]
    #[inline]
    pub fn transport(&self) -> Option<(u16, u16, &'a [u8])> {
        let (bytes, data) = match self.protocol() {
            Protocol::Tcp => {
                let bytes = self.payload_of(Protocol::Tcp, tcp::HEADER_LEN)?;
                (bytes, behind_tcp(bytes)?)
            }
            Protocol::Udp => {
                let bytes = self.payload_of(Protocol::Udp, udp::HEADER_LEN)?;
                (bytes, behind_udp(bytes)?)
            }
            _ => return None,
        };
        let (source, target) = ports(bytes);
        Some((source, target, data))
    }

    /// IP payload if it is `protocol`, unfragmented and at least `header_len` bytes.
    #[inline]
    fn payload_of(&self, protocol: Protocol, header_len: usize) -> Option<&'a [u8]> {
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
mod tests;
