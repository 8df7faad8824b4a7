//! IPv4 headers.
//!
//! Received options are skipped. Whole packets are sent with DF, fragments without.
//! Source: RFC 791, 2474, 3168, 6864.

use std::net::Ipv4Addr;

pub use super::ip::Protocol;
use super::ip::{Fragment, Quote};
use super::{Malformed, addr, be16, checksum};

/// Length in bytes of a header without options, the only form sent.
pub const HEADER_LEN: usize = 20;

/// Default TTL of sent packets (RFC 1122 §3.2.1.7).
pub const TTL: u8 = 64;

/// Received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub target: Ipv4Addr,
    /// Upper-layer protocol.
    pub protocol: Protocol,
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Remaining hops.
    pub ttl: u8,
    /// Position in the whole packet, for a fragment.
    pub fragment: Option<Fragment>,
    /// Payload, without padding of the link layer.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet; verifies version, lengths and header checksum.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadVersion`],
    /// [`Malformed::BadLength`], [`Malformed::BadChecksum`].
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        if packet.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if packet[0] >> 4 != 4 {
            return Err(Malformed::BadVersion);
        }
        let header_len = usize::from(packet[0] & 0xf) * 4;
        let total_len = usize::from(be16(packet, 2));
        if header_len < HEADER_LEN || total_len < header_len {
            return Err(Malformed::BadLength);
        }
        if packet.len() < total_len {
            return Err(Malformed::Truncated);
        }
        let sum = match packet.first_chunk() {
            Some(header) if header_len == HEADER_LEN => checksum::of_header(header),
            _ => checksum::of(&packet[..header_len]),
        };
        if sum != [0, 0] {
            return Err(Malformed::BadChecksum);
        }
        Ok(Self {
            source: addr(packet, 12),
            target: addr(packet, 16),
            protocol: Protocol::new(packet[9]),
            dscp: packet[1] >> 2,
            ecn: packet[1] & 3,
            ttl: packet[8],
            fragment: fragment(packet),
            payload: &packet[header_len..total_len],
        })
    }
}

/// Header fields of a packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub target: Ipv4Addr,
    /// Upper-layer protocol.
    pub protocol: Protocol,
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Time to live: [`TTL`], or the socket's value.
    pub ttl: u8,
    /// Length of the payload in bytes, at most 65,515.
    pub payload_len: usize,
}

impl Header {
    /// Writes the header, with DF set, into the first [`HEADER_LEN`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter or `payload_len` exceeds a packet.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        let total_len = HEADER_LEN + self.payload_len;
        assert!(total_len <= 0xffff, "a packet of {total_len} bytes is longer than 65535");
        let first = 0x4500_0000 | u32::from((self.dscp << 2) | self.ecn) << 16 | total_len as u32;
        // With DF set, the identification has no meaning (RFC 6864 §4.1).
        let fragment = 0x0000_4000;
        let third = u32::from(self.ttl) << 24 | u32::from(self.protocol.number()) << 16;
        let mut words = [first, fragment, third, self.source.to_bits(), self.target.to_bits()];
        words[2] |= u32::from(checksum::of_words(&words));
        let (header, _) = buf[..HEADER_LEN].as_chunks_mut::<4>();
        header.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    }

    /// Writes the header of a fragment: DF clear, fields of `fragment` set.
    ///
    /// # Panics
    /// The same as for [`Header::emit`].
    pub fn emit_fragment(&self, fragment: Fragment, buf: &mut [u8]) {
        self.emit(buf);
        let fragment_field = (fragment.offset / 8) as u16 | if fragment.more { 0x2000 } else { 0 };
        buf[4..6].copy_from_slice(&(fragment.ident as u16).to_be_bytes());
        buf[6..8].copy_from_slice(&fragment_field.to_be_bytes());
        buf[10..12].fill(0);
        let sum = checksum::of(&buf[..HEADER_LEN]);
        buf[10..12].copy_from_slice(&sum);
    }
}

/// Position of a fragment; `None` for a whole packet.
#[inline]
fn fragment(packet: &[u8]) -> Option<Fragment> {
    let fragment_field = be16(packet, 6);
    (fragment_field & MORE_OR_OFFSET != 0).then(|| Fragment {
        ident: be16(packet, 4).into(),
        offset: u32::from(fragment_field & 0x1fff) * 8,
        more: fragment_field & 0x2000 != 0,
    })
}

/// Packet quoted in an ICMP error; its header checksum is not verified, since any hop may have
/// changed it.
pub(super) fn quote(packet: &[u8]) -> Result<Quote<'_>, Malformed> {
    let header_len = usize::from(packet[0] & 0xf) * 4;
    if packet.len() < HEADER_LEN || packet.len() < header_len {
        return Err(Malformed::Truncated);
    }
    if header_len < HEADER_LEN {
        return Err(Malformed::BadLength);
    }
    if fragment(packet).is_some_and(|fragment| fragment.offset > 0) {
        return Err(Malformed::Unsupported);
    }
    Ok(Quote {
        source: addr(packet, 12).into(),
        target: addr(packet, 16).into(),
        protocol: Protocol::new(packet[9]),
        hops: packet[8],
        payload: &packet[header_len..],
    })
}

/// Mask of the more-fragments flag and the fragment offset.
pub const MORE_OR_OFFSET: u16 = 0x3fff;
