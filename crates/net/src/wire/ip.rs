//! What both versions of IP say of a packet, so that the code above asks for
//! neither: addresses, protocol, marks, payload.
//! Source: RFC 791, 8200; marks RFC 2474, 3168.

use std::net::IpAddr;

use super::{Malformed, ipv4, ipv6};

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP for IPv4.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv6, neighbour discovery included.
    Icmpv6,
    /// Anything else, by number.
    Other(u8),
}

impl Protocol {
    /// A header of IPv6 that every hop looks at.
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

    /// The number on the wire.
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

    /// Hops that a packet of ours with this protocol may take, unless its socket says otherwise.
    ///
    /// Neighbour discovery must show that no router touched it (RFC 4861 §3.1). All of
    /// ours with options for each hop is multicast listener discovery, which stays on the
    /// link (RFC 3810 §5).
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

/// Hops that a packet of ours may take, of either version, unless its socket says otherwise.
pub const HOPS: u8 = ipv4::TTL;
const _: () = assert!(HOPS == ipv6::HOPS);

/// How a packet is to be treated on its way, and what it met there: the traffic class of
/// IPv6, and what was the type of service of IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficClass {
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
}

impl TrafficClass {
    /// Those of the header's byte.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        Self { dscp: byte >> 2, ecn: byte & 3 }
    }

    /// The header's byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self.dscp << 2 | self.ecn
    }
}

/// Where a piece of a larger packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Common to all pieces of one packet.
    pub ident: u32,
    /// Bytes of the larger packet's payload before this piece's, in multiples of 8.
    pub offset: u32,
    /// Whether others follow.
    pub more: bool,
}

/// A received packet of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it is for.
    pub target: IpAddr,
    /// What it carries; of a fragment, what the whole carries.
    pub protocol: Protocol,
    /// Its marks.
    pub marks: TrafficClass,
    /// Hops left.
    pub hops: u8,
    /// What it carries, without the link's padding.
    pub payload: &'a [u8],
}

/// What an ICMP error quotes of the packet that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<'a> {
    /// Who had sent it.
    pub source: IpAddr,
    /// Whom it was for.
    pub target: IpAddr,
    /// What it carried.
    pub protocol: Protocol,
    /// The start of what it carried.
    pub payload: &'a [u8],
}

impl<'a> Quote<'a> {
    /// Reads the start of a packet, of which most may be missing.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] when the header is not whole,
    /// [`Malformed::BadVersion`], [`Malformed::BadLength`],
    /// [`Malformed::BadOption`]; [`Malformed::Unsupported`] for a fragment
    /// that is not the first.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        match packet.first().ok_or(Malformed::Truncated)? >> 4 {
            4 => ipv4::quote(packet),
            6 => ipv6::quote(packet),
            _ => Err(Malformed::BadVersion),
        }
    }
}

/// What a packet of ours says in its header, whatever the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub source: IpAddr,
    /// Whom it is for; of the same family.
    pub target: IpAddr,
    /// What it carries.
    pub protocol: Protocol,
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Hops it may take: [`Protocol::hops`], or what the socket says.
    pub hops: u8,
    /// Bytes that follow the header, at most 65,515.
    pub payload_len: usize,
}

impl Header {
    /// Bytes that [`Header::emit`] writes: 20 or 40.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        header_len(self.target)
    }

    /// Never: there is always a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header into the first [`Header::len`] bytes of `buf`.
    ///
    /// # Panics
    /// When `buf` is shorter, `payload_len` does not fit a packet, or the
    /// addresses are of two families.
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
            (source, target) => panic!("no packet goes from {source} to {target}"),
        }
    }
}

/// Bytes of a header without options or extensions in the family of `addr`.
#[must_use]
#[inline]
pub const fn header_len(addr: IpAddr) -> usize {
    match addr {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    }
}
