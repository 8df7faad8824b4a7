//! TCP segments.
//!
//! Only the format; the protocol is in the crate `net`.
//! Source: RFC 9293 §3.1; options RFC 7323, 2018.

use std::net::IpAddr;

mod fast_open;
mod flags;
mod options;
mod seq;

pub use fast_open::FastOpen;
pub use flags::Flags;
pub use options::{Options, SackBlocks, Timestamps};
pub use seq::Seq;

use super::checksum::Checksum;
use super::{Malformed, be16, be32};

/// Length in bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// Maximum length of a header in bytes.
pub const HEADER_LEN_MAX: usize = 60;
/// Offset of the control bits in the header.
pub const FLAGS_AT: usize = 13;

/// Segment, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub target_port: u16,
    /// Sequence number of the first byte, or of SYN.
    pub seq: Seq,
    /// Acknowledgement number, valid if ACK is set.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Receive window field, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Parses a segment sent from `source` to `target`.
    ///
    /// The checksum is verified unless a device has done so.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadLength`], [`Malformed::BadChecksum`],
    /// [`Malformed::BadOption`]; [`Malformed::BadAddress`] if a port is 0.
    #[inline]
    pub fn parse(
        packet: &'a [u8],
        source: impl Into<IpAddr>,
        target: impl Into<IpAddr>,
        verify_checksum: bool,
    ) -> Result<Self, Malformed> {
        if packet.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        let header_len = usize::from(packet[12] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(Malformed::BadLength);
        }
        if packet.len() < header_len {
            return Err(Malformed::Truncated);
        }
        if verify_checksum
            && Checksum::pseudo(source, target, PROTOCOL, packet.len()).with(packet).finish() != [0, 0]
        {
            return Err(Malformed::BadChecksum);
        }
        let (source_port, target_port) = (be16(packet, 0), be16(packet, 2));
        if source_port == 0 || target_port == 0 {
            return Err(Malformed::BadAddress);
        }
        let options = &packet[HEADER_LEN..header_len];
        // Written in place, which avoids a copy of the result of `Options::parse`.
        let options = match Options::read_timestamps_alone(options) {
            timestamps @ Some(_) => Options { timestamps, ..Options::NONE },
            None => Options::parse(options)?,
        };
        Ok(Self {
            source_port,
            target_port,
            seq: Seq(be32(packet, 4)),
            ack: Seq(be32(packet, 8)),
            flags: Flags::from_bits(packet[FLAGS_AT]),
            window: be16(packet, 14),
            options,
            payload: &packet[header_len..],
        })
    }

    /// Sequence numbers occupied by the segment: payload bytes, SYN and FIN.
    #[must_use]
    #[inline]
    pub const fn seq_len(&self) -> u32 {
        self.payload.len() as u32
            + self.flags.contains(Flags::SYN) as u32
            + self.flags.contains(Flags::FIN) as u32
    }

    /// Length of the header with options, 20..=60 bytes.
    #[must_use]
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the whole segment into the first `header_len() + payload.len()` bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter.
    #[inline]
    pub fn emit(&self, source: impl Into<IpAddr>, target: impl Into<IpAddr>, buf: &mut [u8]) {
        let header_len = self.header_len();
        let buf = &mut buf[..header_len + self.payload.len()];
        let (header, data) = buf.split_at_mut(header_len);
        self.emit_exact(header);
        data.copy_from_slice(self.payload);
        finish_checksum(buf, source, target);
    }

    /// Same as [`emit`](Self::emit), for a device that completes the checksum: the field holds the
    /// uncomplemented sum of the pseudo header.
    ///
    /// # Panics
    /// If `buf` is shorter.
    #[inline]
    pub fn emit_partial(&self, source: impl Into<IpAddr>, target: impl Into<IpAddr>, buf: &mut [u8]) {
        let header_len = self.header_len();
        let buf = &mut buf[..header_len + self.payload.len()];
        self.emit_header(buf);
        buf[header_len..].copy_from_slice(self.payload);
        let [a, b] = Checksum::pseudo(source, target, PROTOCOL, buf.len()).finish();
        buf[16..18].copy_from_slice(&[!a, !b]);
    }

    /// Writes only the header, with a checksum of zero.
    ///
    /// The caller appends the payload and calls [`finish_checksum`].
    ///
    /// # Panics
    /// If `buf` is shorter than [`Segment::header_len`].
    #[inline]
    pub fn emit_header(&self, buf: &mut [u8]) {
        self.emit_exact(&mut buf[..self.header_len()]);
    }

    /// Writes the header into `buf`, which has exactly its length.
    #[inline]
    fn emit_exact(&self, buf: &mut [u8]) {
        let header_len = buf.len();
        let (fixed, options) = buf.split_first_chunk_mut::<HEADER_LEN>().expect("space for a header");
        let ([a, b], [c, d]) = (self.source_port.to_be_bytes(), self.target_port.to_be_bytes());
        let ([e, f, g, h], [i, j, k, l]) = (self.seq.0.to_be_bytes(), self.ack.0.to_be_bytes());
        let ([m, n], len, flags) =
            (self.window.to_be_bytes(), (header_len as u8 / 4) << 4, self.flags.bits());
        *fixed = [a, b, c, d, e, f, g, h, i, j, k, l, len, flags, m, n, 0, 0, 0, 0];
        self.options.emit(options);
    }
}

/// Writes the checksum of the whole `segment`, whose checksum field is zero.
///
/// # Panics
/// If `segment` is shorter than a header.
#[inline]
pub fn finish_checksum(segment: &mut [u8], source: impl Into<IpAddr>, target: impl Into<IpAddr>) {
    let sum = Checksum::pseudo(source, target, PROTOCOL, segment.len()).with(segment).finish();
    segment[16..18].copy_from_slice(&sum);
}

pub(crate) const PROTOCOL: u8 = 6;
