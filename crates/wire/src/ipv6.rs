//! IPv6 headers and extension headers.
//!
//! Extension headers are skipped, except fragment headers. Their number is bounded.
//! Source: RFC 8200, 5095, 6946, 8504 §5.3; traffic class RFC 2474, 3168.

use std::net::Ipv6Addr;

use super::ip::{Fragment, Protocol, Quote};
use super::{Malformed, addr6, be16, be32};

/// Length in bytes of a header without extensions.
pub const HEADER_LEN: usize = 40;

/// Length of the fragment header in bytes.
pub const FRAGMENT_LEN: usize = 8;

/// Default hop limit of sent packets.
pub const HOPS: u8 = 64;

/// Minimum MTU of every link in bytes (RFC 8200 §5).
pub const MTU_MIN: u16 = 1280;

/// Maximum number of extension headers in a packet.
pub const EXTENSIONS_MAX: usize = 8;

/// Maximum number of options in an extension header, including padding.
const OPTIONS_MAX: usize = 16;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub target: Ipv6Addr,
    /// Upper-layer protocol; for a fragment, the first header of the fragmented part.
    pub protocol: Protocol,
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Remaining hops.
    pub hops: u8,
    /// Position in the whole packet, for a fragment; `None` for an atomic fragment, whose header is
    /// skipped (RFC 6946).
    pub fragment: Option<Fragment>,
    /// Payload, without extension headers and padding of the link layer.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a packet and skips its extension headers.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadVersion`], [`Malformed::BadOption`] for an invalid
    /// option or one that must be understood, [`Malformed::Unsupported`] for a source route, a
    /// misplaced hop-by-hop header or too many extension headers.
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

/// Upper-layer protocol and payload of a reassembled packet; `first` is the type of the first
/// header in `bytes`.
///
/// # Errors
/// The errors of [`Packet::parse`]; [`Malformed::Unsupported`] for a nested fragment.
pub fn upper(first: Protocol, bytes: &[u8]) -> Result<(Protocol, &[u8]), Malformed> {
    let body = walk(first.number(), bytes, false)?;
    match body.fragment {
        None => Ok((Protocol::new(body.next), body.bytes)),
        Some(_) => Err(Malformed::Unsupported),
    }
}

/// Result of the walk over the extension headers.
struct Body<'a> {
    next: u8,
    fragment: Option<Fragment>,
    bytes: &'a [u8],
}

/// Skips extension headers, up to a fragment's payload.
#[inline]
fn walk(mut next: u8, mut bytes: &[u8], mut first: bool) -> Result<Body<'_>, Malformed> {
    for _ in 0..=EXTENSIONS_MAX {
        match next {
            HOP_BY_HOP if !first => return Err(Malformed::Unsupported),
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let len = 8 + usize::from(*bytes.get(1).ok_or(Malformed::Truncated)?) * 8;
                let extension = bytes.get(..len).ok_or(Malformed::Truncated)?;
                if next == ROUTING {
                    // Segments left: a source route through this host (RFC 5095).
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
                let fragment_field = be16(header, 2);
                let fragment = Fragment {
                    ident: be32(header, 4),
                    offset: u32::from(fragment_field & !7),
                    more: fragment_field & 1 != 0,
                };
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

/// Checks that unknown options may be skipped, as their type states (RFC 8200 §4.2).
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

/// Packet quoted in an ICMP error.
pub(super) fn quote(packet: &[u8]) -> Result<Quote<'_>, Malformed> {
    let body = packet.get(HEADER_LEN..).ok_or(Malformed::Truncated)?;
    let Body { next, fragment, bytes } = walk(packet[6], body, true)?;
    if fragment.is_some_and(|fragment| fragment.offset > 0) {
        return Err(Malformed::Unsupported);
    }
    let (source, target) = (addr6(packet, 8).into(), addr6(packet, 24).into());
    Ok(Quote { source, target, protocol: Protocol::new(next), hops: packet[7], payload: bytes })
}

/// Header fields of a packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub target: Ipv6Addr,
    /// Upper-layer protocol.
    pub protocol: Protocol,
    /// Differentiated services code point (DSCP), 0..64.
    pub dscp: u8,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Hop limit: [`HOPS`], or 255 for neighbour discovery.
    pub hops: u8,
    /// Length of the payload in bytes, at most 65,535.
    pub payload_len: usize,
}

impl Header {
    /// Writes the header, with flow label 0, into the first [`HEADER_LEN`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter or `payload_len` exceeds a packet.
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

    /// Writes the header and a fragment header, [`HEADER_LEN`] + [`FRAGMENT_LEN`] bytes;
    /// `payload_len` does not include the fragment header.
    ///
    /// # Panics
    /// The same as for [`Header::emit`].
    pub fn emit_fragment(&self, fragment: Fragment, buf: &mut [u8]) {
        let payload_len = self.payload_len + FRAGMENT_LEN;
        Self { protocol: Protocol::Other(FRAGMENT), payload_len, ..*self }.emit(buf);
        let fragment_field = fragment.offset as u16 | u16::from(fragment.more);
        let buf = &mut buf[HEADER_LEN..HEADER_LEN + FRAGMENT_LEN];
        buf[..2].copy_from_slice(&[self.protocol.number(), 0]);
        buf[2..4].copy_from_slice(&fragment_field.to_be_bytes());
        buf[4..].copy_from_slice(&fragment.ident.to_be_bytes());
    }
}

/// Solicited-node multicast group of `addr` (RFC 4291 §2.7.1).
#[must_use]
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// MAC address of the multicast group `addr` (RFC 2464 §7).
#[must_use]
pub fn multicast_mac(addr: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = addr.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Multicast group of all nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Multicast group of all routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
