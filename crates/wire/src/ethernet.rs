//! Ethernet II frames without FCS, with at most one 802.1Q tag.
//!
//! Source: IEEE 802.3, 802.1Q.

use super::{Malformed, be16};

/// MAC address.
pub type Mac = [u8; 6];

/// Broadcast address.
pub const BROADCAST: Mac = [0xff; 6];

/// Length of an untagged header in bytes.
pub const HEADER_LEN: usize = 14;

/// Protocol of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherType {
    /// IPv4.
    Ipv4,
    /// ARP.
    Arp,
    /// IPv6.
    Ipv6,
    /// Any other type, by number.
    Other(u16),
}

impl EtherType {
    /// The type with number `number`.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        match number {
            0x0800 => Self::Ipv4,
            0x0806 => Self::Arp,
            0x86dd => Self::Ipv6,
            other => Self::Other(other),
        }
    }

    /// EtherType on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Ipv4 => 0x0800,
            Self::Arp => 0x0806,
            Self::Ipv6 => 0x86dd,
            Self::Other(other) => other,
        }
    }
}

/// Received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Destination address.
    pub target: Mac,
    /// Source address.
    pub source: Mac,
    /// VLAN id of the 802.1Q tag; 0 for a tag with only a priority.
    pub vlan: Option<u16>,
    /// EtherType of the payload.
    pub kind: EtherType,
    /// Payload, including the padding of short frames.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses a frame.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if it is shorter than its header.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, vlan, start) = network(frame).ok_or(Malformed::Truncated)?;
        let Some((&target, rest)) = frame.split_first_chunk() else { return Err(Malformed::Truncated) };
        let Some(&source) = rest.first_chunk() else { return Err(Malformed::Truncated) };
        Ok(Self { target, source, vlan, kind, payload: &frame[start..] })
    }

    /// True if it belongs to a VLAN, which is never the stack's: the stack sends untagged frames.
    #[inline]
    pub fn is_of_vlan(&self) -> bool {
        matches!(self.vlan, Some(1..))
    }
}

/// EtherType, VLAN id and offset of the payload of `frame`.
#[inline]
pub fn network(frame: &[u8]) -> Option<(EtherType, Option<u16>, usize)> {
    if frame.len() < HEADER_LEN {
        return None;
    }
    match be16(frame, 12) {
        VLAN_TAG if frame.len() < HEADER_LEN + 4 => None,
        VLAN_TAG => Some((EtherType::new(be16(frame, 16)), Some(be16(frame, 14) & 0xfff), HEADER_LEN + 4)),
        kind => Some((EtherType::new(kind), None, HEADER_LEN)),
    }
}

/// Writes an untagged header into the first [`HEADER_LEN`] bytes of `buf`.
///
/// # Panics
/// If `buf` is shorter.
#[inline]
pub fn emit_header(buf: &mut [u8], target: Mac, source: Mac, kind: EtherType) {
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().expect("space for a header");
    header[..6].copy_from_slice(&target);
    header[6..12].copy_from_slice(&source);
    header[12..].copy_from_slice(&kind.number().to_be_bytes());
}

const VLAN_TAG: u16 = 0x8100;
