//! Wire formats, one per file: parsed without copying, written into buffers of the caller.
//!
//! Parsing borrows the bytes, returns [`Malformed`] for invalid ones and never panics. Writing
//! needs a buffer of the format's length constant or `header_len`. Protocol behaviour is not here.
//! Sources: IEEE 802.3, RFC 826, 791, 792, 768, 8200, 4443, 4861, 9293, 7323, 2018.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub mod arp;
pub mod checksum;
pub mod dhcp;
pub mod ethernet;
pub mod fast_path;
pub mod icmp;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod ndp;
pub mod tcp;
pub mod udp;

#[cfg(test)]
mod tests;

/// Four-tuple of a connection, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Local address, of the same family as the remote one.
    pub local: IpAddr,
    /// Local port.
    pub local_port: u16,
    /// Remote address.
    pub remote: IpAddr,
    /// Remote port.
    pub remote_port: u16,
}

/// Reason why received bytes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Malformed {
    /// The packet is shorter than its header.
    Truncated,
    /// A length field contradicts the number of bytes received.
    BadLength,
    /// The checksum does not match.
    BadChecksum,
    /// The version field does not match the format.
    BadVersion,
    /// An option exceeds the header or has a length that its kind does not allow.
    BadOption,
    /// An address or port that is not allowed in that field.
    BadAddress,
    /// Well-formed, but of a type or hardware that this stack does not support.
    Unsupported,
}

impl Malformed {
    /// All reasons, in the order of [`Malformed::index`].
    pub const ALL: [Self; 7] = [
        Self::Truncated,
        Self::BadLength,
        Self::BadChecksum,
        Self::BadVersion,
        Self::BadOption,
        Self::BadAddress,
        Self::Unsupported,
    ];

    /// Array index of the reason, for counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Text of the reason, for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::BadLength => "bad length",
            Self::BadChecksum => "bad checksum",
            Self::BadVersion => "bad version",
            Self::BadOption => "bad option",
            Self::BadAddress => "bad address",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::error::Error for Malformed {}

/// Big-endian `u16` at `at`; the caller has checked the length.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Big-endian `u32` at `at`; the caller has checked the length.
#[inline]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// IPv4 address at `at`; the caller has checked the length.
#[inline]
pub fn addr(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(be32(bytes, at))
}

/// IPv6 address at `at`; the caller has checked the length.
#[inline]
pub fn addr6(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}
