//! IPv4 headers. Options are skipped. What is sent whole carries DF; what is
//! sent in pieces does not. Source: RFC 791, 2474, 3168, 6864.

use std::net::Ipv4Addr;

pub use super::ip::Protocol;
use super::ip::{Fragment, Quote};
use super::{Malformed, addr, be16, checksum};

/// Bytes of a header without options, which is all this stack sends.
pub const HEADER_LEN: usize = 20;

/// Hops a packet of ours may take, unless told otherwise (RFC 1122 §3.2.1.7).
pub const TTL: u8 = 64;

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub target: Ipv4Addr,
    /// What it carries.
    pub protocol: Protocol,
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Hops left.
    pub ttl: u8,
    /// Where it belongs, when it is a piece of a larger packet.
    pub fragment: Option<Fragment>,
    /// What it carries, without the link's padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet and checks version, lengths and header checksum.
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

/// What a packet of ours says in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub target: Ipv4Addr,
    /// What it carries.
    pub protocol: Protocol,
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Hops it may take: [`TTL`], or what the socket says.
    pub ttl: u8,
    /// Bytes that follow the header, at most 65,515.
    pub payload_len: usize,
}

impl Header {
    /// Writes the header into the first [`HEADER_LEN`] bytes of `buf`, with
    /// DF.
    ///
    /// # Panics
    /// When `buf` is shorter than that or `payload_len` does not fit a packet.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        let total_len = HEADER_LEN + self.payload_len;
        assert!(total_len <= 0xffff, "a packet of {total_len} bytes is longer than 65535");
        let first = 0x4500_0000 | u32::from((self.dscp << 2) | self.ecn) << 16 | total_len as u32;
        // With DF set the identification means nothing (RFC 6864 §4.1).
        let fragment = 0x0000_4000;
        let third = u32::from(self.ttl) << 24 | u32::from(self.protocol.number()) << 16;
        let mut words = [first, fragment, third, self.source.to_bits(), self.target.to_bits()];
        words[2] |= u32::from(checksum::of_words(&words));
        let (header, _) = buf[..HEADER_LEN].as_chunks_mut::<4>();
        header.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    }

    /// Writes the header of a piece: DF clear, `fragment` filled in.
    ///
    /// # Panics
    /// As [`Header::emit`].
    pub fn emit_fragment(&self, fragment: Fragment, buf: &mut [u8]) {
        self.emit(buf);
        let place = (fragment.offset / 8) as u16 | if fragment.more { 0x2000 } else { 0 };
        buf[4..6].copy_from_slice(&(fragment.ident as u16).to_be_bytes());
        buf[6..8].copy_from_slice(&place.to_be_bytes());
        buf[10..12].fill(0);
        let sum = checksum::of(&buf[..HEADER_LEN]);
        buf[10..12].copy_from_slice(&sum);
    }
}

/// Where a packet belongs that is a piece of a larger one.
#[inline]
fn fragment(packet: &[u8]) -> Option<Fragment> {
    let place = be16(packet, 6);
    (place & MORE_OR_OFFSET != 0).then(|| Fragment {
        ident: be16(packet, 4).into(),
        offset: u32::from(place & 0x1fff) * 8,
        more: place & 0x2000 != 0,
    })
}

/// The start of a packet inside an ICMP error; its checksum may be of any hop.
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
        payload: &packet[header_len..],
    })
}

/// The bits "more fragments" and the fragment offset.
pub(crate) const MORE_OR_OFFSET: u16 = 0x3fff;
