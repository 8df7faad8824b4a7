//! Formats on the wire: parsed without copying, emitted into given buffers.
//!
//! One file per format. Parsing borrows the bytes and says with [`Malformed`]
//! why they are refused; it never panics, whatever the bytes. Emitting writes
//! into a buffer that the caller has sized with the format's length constant
//! or `header_len`. Sources: IEEE 802.3, RFC 826, 791, 792, 768, 8200, 4443,
//! 4861, 9293, 7323, 2018.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub mod arp;
pub mod checksum;
pub mod dhcp;
pub mod ethernet;
pub(crate) mod fast_path;
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

/// Which connection a segment belongs to, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Our address, of the same family as the peer's.
    pub local: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's port.
    pub remote_port: u16,
}

/// Why received bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Malformed {
    /// Shorter than its header.
    Truncated,
    /// A length field contradicts the bytes that are there.
    BadLength,
    /// The checksum does not match.
    BadChecksum,
    /// Not the version this format has.
    BadVersion,
    /// An option runs past the header or has a length that its kind cannot have.
    BadOption,
    /// An address or port that no packet may carry in that place.
    BadAddress,
    /// Well-formed, but of a type or hardware that this stack does not speak.
    Unsupported,
}

impl Malformed {
    /// Every reason, in the order of [`Malformed::index`].
    pub const ALL: [Self; 7] = [
        Self::Truncated,
        Self::BadLength,
        Self::BadChecksum,
        Self::BadVersion,
        Self::BadOption,
        Self::BadAddress,
        Self::Unsupported,
    ];

    /// The reason as an array index, for counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason in words, for reports.
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

/// The big-endian `u16` at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian `u32` at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The address at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn addr(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(be32(bytes, at))
}

/// The IPv6 address at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn addr6(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}
