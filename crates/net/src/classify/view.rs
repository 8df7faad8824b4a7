//! A frame as the driver's classifier sees it.
//!
//! Every access is checked against the bytes that are there and parses only
//! what it needs; a frame that does not have what is asked for answers `None`.
//! Checksums are not looked at: the stack drops what is broken later. No
//! header has a fixed size here: a VLAN tag, IP options and TCP options are
//! stepped over.

use std::net::Ipv4Addr;

use super::PacketMeta;
use crate::wire::ethernet::{self, EtherType};
use crate::wire::ipv4::Protocol;
use crate::wire::{addr, be16, be32, ipv4, tcp};

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

    /// Differentiated services code point of the IPv4 packet, 0..64.
    #[must_use]
    #[inline]
    pub fn dscp(&self) -> Option<u8> {
        self.ipv4().map(|ip| ip.dscp())
    }

    /// Source and target port of the TCP segment.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.ipv4()?.tcp_ports()
    }

    /// What the TCP segment carries; empty for a bare ACK.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        self.ipv4()?.tcp_payload()
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

    /// Source and target port of the TCP segment; none in a fragment, which
    /// this stack drops.
    #[must_use]
    #[inline]
    pub fn tcp_ports(&self) -> Option<(u16, u16)> {
        let segment = self.tcp()?;
        Some((be16(segment, 0), be16(segment, 2)))
    }

    /// What the TCP segment carries.
    #[must_use]
    #[inline]
    pub fn tcp_payload(&self) -> Option<&'a [u8]> {
        let segment = self.tcp()?;
        let header_len = usize::from(segment[12] >> 4) * 4;
        if header_len < tcp::HEADER_LEN { None } else { segment.get(header_len..) }
    }

    /// The TCP segment, when its fixed header is all there.
    #[inline]
    fn tcp(&self) -> Option<&'a [u8]> {
        let segment = self.payload();
        let whole = self.protocol() == Protocol::Tcp && !self.fragment() && segment.len() >= tcp::HEADER_LEN;
        whole.then_some(segment)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::testing::{Packet, view};
    use crate::wire::ethernet::Frame;
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
    fn what_is_not_tcp_over_ipv4_has_no_ports() {
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
        fn no_bytes_make_a_view_panic(frame in proptest::collection::vec(any::<u8>(), 0..100), at in any::<usize>()) {
            view(&frame, |v| {
                let _ = (v.dscp(), v.tcp_ports(), v.tcp_payload());
                let _ = (v.payload_byte(at), v.payload_u16(at), v.payload_u32(at));
            });
        }
    }
}
