//! IPv6 headers and the extension headers between them and what a packet
//! carries. The walk over extensions is bounded, in number and by the bytes
//! that are there. Source: RFC 8200, 5095, 6946, 8504 §5.3; marks RFC 2474, 3168.

use std::net::Ipv6Addr;

use super::ip::{Fragment, Protocol, Quote};
use super::{Malformed, addr6, be16, be32};

/// Bytes of a header without extensions.
pub const HEADER_LEN: usize = 40;

/// Bytes of the fragment extension header.
pub const FRAGMENT_LEN: usize = 8;

/// Hops a packet of ours may take.
pub const HOPS: u8 = 64;

/// The smallest MTU of any link (RFC 8200 §5).
pub const MTU_MIN: u16 = 1280;

/// Most extension headers that are stepped over.
pub const EXTENSIONS_MAX: usize = 8;

/// Most options in one extension header, padding included.
const OPTIONS_MAX: usize = 16;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Whom it is for.
    pub target: Ipv6Addr,
    /// What it carries; of a fragment, the first header of what the whole carries.
    pub protocol: Protocol,
    /// Differentiated services code point, 0..64.
    pub dscp: u8,
    /// Congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// Hops left.
    pub hops: u8,
    /// Where it belongs, when it is a piece of a larger packet. A fragment
    /// header around a whole packet is stepped over (RFC 6946).
    pub fragment: Option<Fragment>,
    /// What it carries, without extensions and the link's padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet and steps over its extension headers.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadVersion`],
    /// [`Malformed::BadLength`] for an extension or fragment whose length
    /// cannot be, [`Malformed::BadOption`] for an option that must be
    /// understood, [`Malformed::Unsupported`] for a source route or too many
    /// extensions.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        if packet.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if packet[0] >> 4 != 6 {
            return Err(Malformed::BadVersion);
        }
        let end = HEADER_LEN + usize::from(be16(packet, 4));
        let body = packet.get(HEADER_LEN..end).ok_or(Malformed::Truncated)?;
        let Body { next, fragment, bytes } = walk(packet[6], body, true)?;
        let class = (packet[0] << 4) | (packet[1] >> 4);
        Ok(Self {
            source: addr6(packet, 8),
            target: addr6(packet, 24),
            protocol: Protocol::new(next),
            dscp: class >> 2,
            ecn: class & 3,
            hops: packet[7],
            fragment,
            payload: bytes,
        })
    }
}

/// What a reassembled packet carries behind the extension headers that came
/// in its pieces: `first` is the type of the first header in `bytes`.
///
/// # Errors
/// As [`Packet::parse`]; [`Malformed::Unsupported`] for a fragment within.
pub fn upper(first: Protocol, bytes: &[u8]) -> Result<(Protocol, &[u8]), Malformed> {
    let body = walk(first.number(), bytes, false)?;
    match body.fragment {
        None => Ok((Protocol::new(body.next), body.bytes)),
        Some(_) => Err(Malformed::Unsupported),
    }
}

/// What stands behind the extension headers.
struct Body<'a> {
    next: u8,
    fragment: Option<Fragment>,
    bytes: &'a [u8],
}

/// Steps over extension headers, up to a fragment's payload.
#[inline]
fn walk(mut next: u8, mut bytes: &[u8], mut first: bool) -> Result<Body<'_>, Malformed> {
    for _ in 0..=EXTENSIONS_MAX {
        match next {
            HOP_BY_HOP if !first => return Err(Malformed::Unsupported),
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let len = 8 + usize::from(*bytes.get(1).ok_or(Malformed::Truncated)?) * 8;
                let extension = bytes.get(..len).ok_or(Malformed::Truncated)?;
                if next == ROUTING {
                    // Segments left: it would have to go on from here (RFC 5095).
                    if extension[3] != 0 {
                        return Err(Malformed::Unsupported);
                    }
                } else {
                    check_options(&extension[2..])?;
                }
                (next, bytes) = (extension[0], &bytes[len..]);
            }
            FRAGMENT => {
                let header = bytes.get(..FRAGMENT_LEN).ok_or(Malformed::Truncated)?;
                let place = be16(header, 2);
                let fragment =
                    Fragment { ident: be32(header, 4), offset: u32::from(place & !7), more: place & 1 != 0 };
                (next, bytes) = (header[0], &bytes[FRAGMENT_LEN..]);
                if fragment.offset != 0 || fragment.more {
                    return Ok(Body { next, fragment: Some(fragment), bytes });
                }
            }
            _ => return Ok(Body { next, fragment: None, bytes }),
        }
        first = false;
    }
    Err(Malformed::Unsupported)
}

/// Options of unknown type say themselves whether they may be skipped (RFC 8200 §4.2).
fn check_options(mut options: &[u8]) -> Result<(), Malformed> {
    for _ in 0..OPTIONS_MAX {
        options = match *options {
            [] => return Ok(()),
            [0, ref rest @ ..] => rest,
            [kind, len, ref rest @ ..] => {
                if kind >> 6 != 0 {
                    return Err(Malformed::BadOption);
                }
                rest.get(usize::from(len)..).ok_or(Malformed::BadOption)?
            }
            [_] => return Err(Malformed::BadOption),
        };
    }
    Err(Malformed::BadOption)
}

/// The start of a packet inside an ICMP error.
pub(super) fn quote(packet: &[u8]) -> Result<Quote<'_>, Malformed> {
    let body = packet.get(HEADER_LEN..).ok_or(Malformed::Truncated)?;
    let Body { next, fragment, bytes } = walk(packet[6], body, true)?;
    if fragment.is_some_and(|fragment| fragment.offset > 0) {
        return Err(Malformed::Unsupported);
    }
    let (source, target) = (addr6(packet, 8).into(), addr6(packet, 24).into());
    Ok(Quote { source, target, protocol: Protocol::new(next), payload: bytes })
}

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
    /// Hops it may take: [`HOPS`], or 255 for neighbour discovery.
    pub hops: u8,
    /// Bytes that follow the header, at most 65,535.
    pub payload_len: usize,
}

impl Header {
    /// Writes the header into the first [`HEADER_LEN`] bytes of `buf`, with
    /// flow label 0.
    ///
    /// # Panics
    /// When `buf` is shorter than that or `payload_len` does not fit a packet.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        assert!(self.payload_len <= 0xffff, "{} bytes do not fit a packet", self.payload_len);
        let class = (self.dscp << 2) | self.ecn;
        let [len_high, len_low] = (self.payload_len as u16).to_be_bytes();
        let protocol = self.protocol.number();
        buf[..8].copy_from_slice(&[
            0x60 | (class >> 4),
            class << 4,
            0,
            0,
            len_high,
            len_low,
            protocol,
            self.hops,
        ]);
        buf[8..24].copy_from_slice(&self.source.octets());
        buf[24..40].copy_from_slice(&self.target.octets());
    }

    /// Writes the header and a fragment header behind it, [`HEADER_LEN`] +
    /// [`FRAGMENT_LEN`] bytes; `payload_len` counts without the latter.
    ///
    /// # Panics
    /// As [`Header::emit`].
    pub fn emit_fragment(&self, fragment: Fragment, buf: &mut [u8]) {
        let payload_len = self.payload_len + FRAGMENT_LEN;
        Self { protocol: Protocol::Other(FRAGMENT), payload_len, ..*self }.emit(buf);
        let place = fragment.offset as u16 | u16::from(fragment.more);
        let buf = &mut buf[HEADER_LEN..HEADER_LEN + FRAGMENT_LEN];
        buf[..2].copy_from_slice(&[self.protocol.number(), 0]);
        buf[2..4].copy_from_slice(&place.to_be_bytes());
        buf[4..].copy_from_slice(&fragment.ident.to_be_bytes());
    }
}

/// The multicast group that listens for questions about `addr` (RFC 4291 §2.7.1).
#[must_use]
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// The hardware address of the multicast group `addr` (RFC 2464 §7).
#[must_use]
pub fn multicast_mac(addr: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = addr.octets();
    [0x33, 0x33, a, b, c, d]
}

/// All nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
