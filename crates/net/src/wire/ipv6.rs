//! IPv6 headers. Source: RFC 8200, 2474, 3168.

use std::net::Ipv6Addr;

use super::ip::Protocol;

/// Bytes of a header without extensions.
pub const HEADER_LEN: usize = 40;

/// Hops a packet of ours may take.
pub const HOPS: u8 = 64;

/// What a packet of ours says in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub source: Ipv6Addr,
    /// Whom it is for.
    pub target: Ipv6Addr,
    /// What it carries.
    pub protocol: Protocol,
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Bytes that follow the header, at most 65,535.
    pub payload_len: usize,
}

impl Header {
    /// Writes the header into the first [`HEADER_LEN`] bytes of `buf`, with
    /// hop limit 64 and flow label 0.
    ///
    /// # Panics
    /// When `buf` is shorter than that or `payload_len` does not fit a packet.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        assert!(self.payload_len <= 0xffff, "{} bytes do not fit a packet", self.payload_len);
        let class = (self.dscp << 2) | self.ecn;
        let [len_high, len_low] = (self.payload_len as u16).to_be_bytes();
        let protocol = self.protocol.number();
        buf[..8].copy_from_slice(&[0x60 | (class >> 4), class << 4, 0, 0, len_high, len_low, protocol, HOPS]);
        buf[8..24].copy_from_slice(&self.source.octets());
        buf[24..40].copy_from_slice(&self.target.octets());
    }
}
