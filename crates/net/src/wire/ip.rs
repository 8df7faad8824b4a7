//! What both versions of IP say of a packet, so that the code above asks for
//! neither: addresses, protocol, marks, payload.
//! Source: RFC 791, 8200; marks RFC 2474, 3168.

use std::net::IpAddr;

use super::{ipv4, ipv6};

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP.
    Icmp,
    /// TCP.
    Tcp,
    /// Anything else, by number.
    Other(u8),
}

impl Protocol {
    /// The protocol with number `number`.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        match number {
            1 => Self::Icmp,
            6 => Self::Tcp,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Other(other) => other,
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
        let Self { protocol, dscp, ecn, payload_len, .. } = *self;
        match (self.source, self.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                ipv4::Header { source, target, protocol, dscp, ecn, payload_len }.emit(buf);
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                ipv6::Header { source, target, protocol, dscp, ecn, payload_len }.emit(buf);
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
