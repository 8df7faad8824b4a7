//! TCP segments. Source: RFC 9293 §3.1; options RFC 7323, 2018.

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

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = 60;
/// Where a header has its control bits.
pub const FLAGS_AT: usize = 13;

/// A segment, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// Number of the first byte (or of SYN).
    pub seq: Seq,
    /// The next byte expected, when ACK is set.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Receive window, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment that went from `source` to `target`. The
    /// checksum is checked unless a device has done so already.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadLength`],
    /// [`Malformed::BadChecksum`], [`Malformed::BadOption`];
    /// [`Malformed::BadAddress`] when a port is 0.
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
        // Where it is filled in and not where `Options::parse` would return it.
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

    /// Sequence numbers the segment takes up: its bytes, SYN and FIN.
    #[must_use]
    #[inline]
    pub const fn seq_len(&self) -> u32 {
        self.payload.len() as u32
            + self.flags.contains(Flags::SYN) as u32
            + self.flags.contains(Flags::FIN) as u32
    }

    /// Bytes of the header with its options, 20..=60.
    #[must_use]
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the whole segment into the first `header_len() + payload.len()`
    /// bytes of `buf`.
    ///
    /// # Panics
    /// When `buf` is shorter than that.
    #[inline]
    pub fn emit(&self, source: impl Into<IpAddr>, target: impl Into<IpAddr>, buf: &mut [u8]) {
        let header_len = self.header_len();
        let buf = &mut buf[..header_len + self.payload.len()];
        let (header, data) = buf.split_at_mut(header_len);
        self.emit_exact(header);
        data.copy_from_slice(self.payload);
        finish_checksum(buf, source, target);
    }

    /// As [`emit`](Self::emit), for a device that completes the checksum: its
    /// field holds the sum of the pseudo header, not complemented.
    ///
    /// # Panics
    /// When `buf` is too short.
    #[inline]
    pub fn emit_partial(&self, source: impl Into<IpAddr>, target: impl Into<IpAddr>, buf: &mut [u8]) {
        let header_len = self.header_len();
        let buf = &mut buf[..header_len + self.payload.len()];
        self.emit_header(buf);
        buf[header_len..].copy_from_slice(self.payload);
        let [a, b] = Checksum::pseudo(source, target, PROTOCOL, buf.len()).finish();
        buf[16..18].copy_from_slice(&[!a, !b]);
    }

    /// Writes the header alone, with a checksum of zero: the caller gathers
    /// the data behind it and then calls [`finish_checksum`].
    ///
    /// # Panics
    /// When `buf` is shorter than [`Segment::header_len`].
    #[inline]
    pub fn emit_header(&self, buf: &mut [u8]) {
        self.emit_exact(&mut buf[..self.header_len()]);
    }

    /// Writes the header into `buf`, which is as long as that.
    #[inline]
    fn emit_exact(&self, buf: &mut [u8]) {
        let header_len = buf.len();
        let (fixed, options) = buf.split_first_chunk_mut::<HEADER_LEN>().expect("room for a header");
        let ([a, b], [c, d]) = (self.source_port.to_be_bytes(), self.target_port.to_be_bytes());
        let ([e, f, g, h], [i, j, k, l]) = (self.seq.0.to_be_bytes(), self.ack.0.to_be_bytes());
        let ([m, n], len, flags) =
            (self.window.to_be_bytes(), (header_len as u8 / 4) << 4, self.flags.bits());
        *fixed = [a, b, c, d, e, f, g, h, i, j, k, l, len, flags, m, n, 0, 0, 0, 0];
        self.options.emit(options);
    }
}

/// Writes the checksum of the whole segment in `segment`, whose checksum field
/// is zero.
///
/// # Panics
/// When `segment` is shorter than a header.
#[inline]
pub fn finish_checksum(segment: &mut [u8], source: impl Into<IpAddr>, target: impl Into<IpAddr>) {
    let sum = Checksum::pseudo(source, target, PROTOCOL, segment.len()).with(segment).finish();
    segment[16..18].copy_from_slice(&sum);
}

pub(super) const PROTOCOL: u8 = 6;
