//! UDP datagrams.
//!
//! Source: RFC 768, 8200 §8.1.

use std::net::IpAddr;

use super::checksum::Checksum;
use super::{Malformed, be16};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

const PROTOCOL: u8 = 17;

/// Datagram, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Source port; 0 if no reply is expected.
    pub source_port: u16,
    /// Destination port.
    pub target_port: u16,
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a datagram sent from `source` to `target`.
    ///
    /// The checksum is verified unless a device has done so, or the datagram has none, which IPv4
    /// allows.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadLength`], [`Malformed::BadChecksum`] (over IPv6
    /// also for a missing one); [`Malformed::BadAddress`] if the destination port is 0.
    pub fn parse(
        packet: &'a [u8],
        source: impl Into<IpAddr>,
        target: impl Into<IpAddr>,
        verify_checksum: bool,
    ) -> Result<Self, Malformed> {
        if packet.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        let len = usize::from(be16(packet, 4));
        if len < HEADER_LEN {
            return Err(Malformed::BadLength);
        }
        let packet = packet.get(..len).ok_or(Malformed::Truncated)?;
        let (source, target) = (source.into(), target.into());
        let absent = packet[6..8] == [0, 0];
        if absent && source.is_ipv6() {
            return Err(Malformed::BadChecksum);
        }
        if verify_checksum
            && !absent
            && Checksum::pseudo(source, target, PROTOCOL, len).with(packet).finish() != [0, 0]
        {
            return Err(Malformed::BadChecksum);
        }
        let (source_port, target_port) = (be16(packet, 0), be16(packet, 2));
        if target_port == 0 {
            return Err(Malformed::BadAddress);
        }
        Ok(Self { source_port, target_port, payload: &packet[HEADER_LEN..] })
    }

    /// Length written by [`Datagram::emit`], in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    /// Always false: the header is never empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the datagram into the first [`Datagram::len`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter or the payload exceeds a datagram.
    pub fn emit(&self, source: impl Into<IpAddr>, target: impl Into<IpAddr>, buf: &mut [u8]) {
        let len = self.len();
        assert!(len <= 0xffff, "a datagram of {len} bytes is longer than 65535");
        let buf = &mut buf[..len];
        buf[..2].copy_from_slice(&self.source_port.to_be_bytes());
        buf[2..4].copy_from_slice(&self.target_port.to_be_bytes());
        buf[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        buf[6..8].fill(0);
        buf[HEADER_LEN..].copy_from_slice(self.payload);
        let sum = Checksum::pseudo(source, target, PROTOCOL, len).with(buf).finish();
        // 0 means no checksum; 0xffff is the other representation of 0.
        let sum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        buf[6..8].copy_from_slice(&sum);
    }
}
