//! Fields common to IPv4 and IPv6: addresses, protocol, traffic class, hop limit, payload.
//!
//! Lets the layers above ignore the version; the formats themselves are in `ipv4` and `ipv6`.
//! Source: RFC 791, 8200; traffic class RFC 2474, 3168.

use std::net::IpAddr;

use super::{Malformed, ipv4, ipv6};

/// Upper-layer protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP for IPv4.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv6, including neighbour discovery.
    Icmpv6,
    /// Any other protocol, by number.
    Other(u8),
}

impl Protocol {
    /// IPv6 hop-by-hop options header, processed by every hop.
    pub const HOP_BY_HOP: Self = Self::Other(0);

    /// The protocol with number `number`.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        match number {
            1 => Self::Icmp,
            6 => Self::Tcp,
            17 => Self::Udp,
            58 => Self::Icmpv6,
            other => Self::Other(other),
        }
    }

    /// Protocol number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Icmpv6 => 58,
            Self::Other(other) => other,
        }
    }

    /// Default hop limit of sent packets with this protocol.
    ///
    /// 255 for neighbour discovery, as proof that no router forwarded it (RFC 4861 §3.1). 1 for
    /// packets with hop-by-hop options: the only ones sent are multicast listener discovery, which
    /// stays on the link (RFC 3810 §5).
    #[must_use]
    #[inline]
    pub const fn hops(self) -> u8 {
        match self {
            Self::Icmpv6 => 255,
            Self::HOP_BY_HOP => 1,
            _ => HOPS,
        }
    }
}

/// Default hop limit of sent packets, for both versions.
pub const HOPS: u8 = ipv4::TTL;
const _: () = assert!(HOPS == ipv6::HOPS);

/// Traffic class of IPv6, formerly type of service of IPv4: requested treatment and congestion
/// mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficClass {
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
}

impl TrafficClass {
    /// Fields of the header byte.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        Self { dscp: byte >> 2, ecn: byte & 3 }
    }

    /// Header byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.dscp << 2 | self.ecn
    }
}

/// Position of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification, common to all fragments of a packet.
    pub ident: u32,
    /// Offset in the payload of the whole packet, in bytes, a multiple of 8.
    pub offset: u32,
    /// True if more fragments follow.
    pub more: bool,
}

/// Received packet of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub target: IpAddr,
    /// Upper-layer protocol; for a fragment, that of the whole packet.
    pub protocol: Protocol,
    /// Traffic class.
    pub marks: TrafficClass,
    /// Remaining hops.
    pub hops: u8,
    /// Payload, without padding of the link layer.
    pub payload: &'a [u8],
}

/// Packet quoted in an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub target: IpAddr,
    /// Upper-layer protocol.
    pub protocol: Protocol,
    /// Hop limit left when the error was sent.
    pub hops: u8,
    /// Start of the payload.
    pub payload: &'a [u8],
}

impl<'a> Quote<'a> {
    /// Parses the start of a packet that may be truncated.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if the header is incomplete, [`Malformed::BadVersion`],
    /// [`Malformed::BadLength`], [`Malformed::BadOption`]; [`Malformed::Unsupported`] for a
    /// fragment other than the first.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        match packet.first().ok_or(Malformed::Truncated)? >> 4 {
            4 => ipv4::quote(packet),
            6 => ipv6::quote(packet),
            _ => Err(Malformed::BadVersion),
        }
    }
}

/// Header fields of a packet to send, of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub target: IpAddr,
    /// Upper-layer protocol.
    pub protocol: Protocol,
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Hop limit: [`Protocol::hops`], or the socket's value.
    pub hops: u8,
    /// Length of the payload in bytes, at most 65,515.
    pub payload_len: usize,
}

impl Header {
    /// Length written by [`Header::emit`]: 20 or 40 bytes.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        header_len(self.target)
    }

    /// Always false: the header is never empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header into the first [`Header::len`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter, `payload_len` exceeds a packet, or the address families differ.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        let Self { protocol, dscp, ecn, hops, payload_len, .. } = *self;
        match (self.source, self.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                ipv4::Header { source, target, protocol, dscp, ecn, ttl: hops, payload_len }.emit(buf);
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                ipv6::Header { source, target, protocol, dscp, ecn, hops, payload_len }.emit(buf);
            }
            (source, target) => panic!("source {source} and target {target} differ in family"),
        }
    }
}

/// Length in bytes of a header without options or extensions, in the family of `addr`.
#[must_use]
#[inline]
pub const fn header_len(addr: IpAddr) -> usize {
    match addr {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    }
}
