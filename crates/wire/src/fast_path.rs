//! Fast path of the common TCP frame: parsed and written in one pass.
//!
//! On an established connection nearly every frame is untagged Ethernet, IPv4 without options or
//! fragmentation, and TCP with only the timestamps option. All fields have fixed offsets, so one
//! length check replaces one per field, and the checksum is computed while the fields are at hand.
//!
//! The parsers of the formats handle any other or invalid frame and return the error. Tests verify
//! that both parse and write the same bytes.

use std::net::Ipv4Addr;

use super::checksum::{self, Checksum};
use super::ethernet::{self, EtherType, Mac};
use super::ip::Protocol;
use super::tcp::{self, Flags, Options, Segment, Seq, Timestamps};
use super::{addr, be16, be32, ipv4};

/// Length of the TCP header in bytes.
pub const TCP_LEN: usize = 32;
/// Length of all headers in bytes: 14 of Ethernet, 20 of IPv4, 32 of TCP.
pub const HEADERS_LEN: usize = TCP + TCP_LEN;

const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;

/// NOP, NOP, timestamps, 10 bytes (RFC 7323, appendix A).
const OPTION: u32 = 0x0101_080a;
/// Data offset of the TCP header, in its place in the byte.
const TCP_WORDS: u8 = (TCP_LEN as u8 / 4) << 4;

/// Frame in the format of the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPathFrame<'a> {
    /// Destination of the Ethernet header.
    pub target_mac: Mac,
    /// Source of the Ethernet header.
    pub source_mac: Mac,
    /// IPv4 header.
    pub ip: ipv4::Header,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub target_port: u16,
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window as on the wire, not scaled.
    pub window: u16,
    /// Timestamps option, the only one.
    pub stamps: Timestamps,
    /// Payload of the TCP segment.
    pub payload: &'a [u8],
}

impl<'a> FastPathFrame<'a> {
    /// Parses `frame` if it has this format, is addressed to `host` and is valid.
    ///
    /// The TCP checksum is verified only if `verify` is set.
    #[inline]
    pub fn parse(frame: &'a [u8], host: (Mac, Ipv4Addr), verify: bool) -> Option<Self> {
        let head: &[u8; HEADERS_LEN] = frame.first_chunk()?;
        let total_len = usize::from(be16(head, IP + 2));
        let (source, target) = (addr(head, IP + 12), addr(head, IP + 16));
        let target_mac = *head.first_chunk()?;
        // EtherType, IP version and header length in one comparison.
        let is_common = be32(head, 12) >> 8 == 0x08_0045
            && be16(head, IP + 6) & ipv4::MORE_OR_OFFSET == 0
            && head[IP + 9] == tcp::PROTOCOL
            && head[TCP + 12] & 0xf0 == TCP_WORDS
            && be32(head, TCP + 20) == OPTION
            && (target_mac, target) == host;
        if !is_common || total_len < HEADERS_LEN - IP {
            return None;
        }
        let segment = frame.get(TCP..IP + total_len)?;
        if checksum::of_header(head[IP..].first_chunk()?) != [0, 0] {
            return None;
        }
        let payload_len = segment.len();
        if verify
            && Checksum::pseudo(source, target, tcp::PROTOCOL, payload_len).with(segment).finish() != [0, 0]
        {
            return None;
        }
        let (source_port, target_port) = (be16(head, TCP), be16(head, TCP + 2));
        if source_port == 0 || target_port == 0 {
            return None;
        }
        let (dscp, ecn, ttl) = (head[IP + 1] >> 2, head[IP + 1] & 3, head[IP + 8]);
        Some(Self {
            target_mac,
            source_mac: *head[6..].first_chunk()?,
            ip: ipv4::Header { source, target, protocol: Protocol::Tcp, dscp, ecn, ttl, payload_len },
            source_port,
            target_port,
            seq: Seq(be32(head, TCP + 4)),
            ack: Seq(be32(head, TCP + 8)),
            flags: Flags::from_bits(head[TCP + 13]),
            window: be16(head, TCP + 14),
            stamps: Timestamps { value: be32(head, TCP + 24), echo: be32(head, TCP + 28) },
            payload: &segment[TCP_LEN..],
        })
    }

    /// TCP segment of the frame.
    #[inline]
    pub fn segment(&self) -> Segment<'a> {
        let Self { source_port, target_port, seq, ack, flags, window, stamps, payload, .. } = *self;
        let options = Options { timestamps: Some(stamps), ..Options::NONE };
        Segment { source_port, target_port, seq, ack, flags, window, options, payload }
    }

    /// Length of the frame in bytes.
    #[inline]
    pub fn frame_len(&self) -> usize {
        HEADERS_LEN + self.payload.len()
    }

    /// Writes the frame into `buf`, which has exactly its length.
    ///
    /// With `offloaded`, the checksum field holds the uncomplemented sum of the pseudo header, for
    /// a device that completes it.
    ///
    /// # Panics
    /// If `buf` has another length.
    #[inline]
    pub fn emit(&self, buf: &mut [u8], offloaded: bool) {
        let (head, data) = buf.split_first_chunk_mut::<HEADERS_LEN>().expect("space for the headers");
        let Self { ip, source_port, target_port, seq, ack, flags, window, stamps, payload, .. } = self;
        ethernet::emit_header(head, self.target_mac, self.source_mac, EtherType::Ipv4);
        ip.emit(&mut head[IP..TCP]);
        data.copy_from_slice(payload);

        let ports = u32::from(*source_port) << 16 | u32::from(*target_port);
        let control = u32::from_be_bytes([TCP_WORDS, flags.bits(), 0, 0]) | u32::from(*window);
        let words = [ports, seq.0, ack.0, control, 0, OPTION, stamps.value, stamps.echo].map(u32::to_be);
        let pseudo = Checksum::pseudo(ip.source, ip.target, tcp::PROTOCOL, ip.payload_len);
        let sum = match offloaded {
            false => pseudo.with_words(&words).with(payload).finish(),
            true => pseudo.finish().map(|byte| !byte),
        };
        let (words_at, _) = head[TCP..].as_chunks_mut::<4>();
        words_at.iter_mut().zip(words).for_each(|(slot, word)| *slot = word.to_ne_bytes());
        head[TCP + 16..TCP + 18].copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Malformed, ip};
    use super::*;

    /// Result of the parsers of the formats.
    fn read(
        frame: &[u8],
        verify: bool,
    ) -> Result<(ethernet::Frame<'_>, ipv4::Packet<'_>, Segment<'_>), Malformed> {
        let frame = ethernet::Frame::parse(frame)?;
        let packet = ipv4::Packet::parse(frame.payload)?;
        let segment = Segment::parse(packet.payload, packet.source, packet.target, verify)?;
        Ok((frame, packet, segment))
    }

    /// Bytes written by the formats.
    fn write(frame: &FastPathFrame<'_>, offloaded: bool) -> Vec<u8> {
        let segment = frame.segment();
        let mut buf = vec![0; TCP + segment.header_len() + segment.payload.len()];
        ethernet::emit_header(&mut buf, frame.target_mac, frame.source_mac, EtherType::Ipv4);
        let ipv4::Header { source, target, protocol, dscp, ecn, ttl: hops, payload_len } = frame.ip;
        ip::Header { source: source.into(), target: target.into(), protocol, dscp, ecn, hops, payload_len }
            .emit(&mut buf[IP..]);
        match offloaded {
            false => segment.emit(source, target, &mut buf[TCP..]),
            true => segment.emit_partial(source, target, &mut buf[TCP..]),
        }
        buf
    }

    type Fields = ((Mac, Mac, u32, u32, u8, u8, u8), (u16, u16, u32, u32, u8, u16), (u32, u32));

    fn is_common(fields: Fields, payload: &[u8]) -> FastPathFrame<'_> {
        let ((target_mac, source_mac, source, target, dscp, ecn, ttl), segment, (value, echo)) = fields;
        let (source_port, target_port, seq, ack, flags, window) = segment;
        let ip = ipv4::Header {
            source: source.into(),
            target: target.into(),
            protocol: Protocol::Tcp,
            dscp: dscp & 63,
            ecn: ecn & 3,
            ttl,
            payload_len: TCP_LEN + payload.len(),
        };
        FastPathFrame {
            target_mac,
            source_mac,
            ip,
            source_port: source_port.max(1),
            target_port: target_port.max(1),
            seq: Seq(seq),
            ack: Seq(ack),
            flags: Flags::from_bits(flags),
            window,
            stamps: Timestamps { value, echo },
            payload,
        }
    }

    proptest! {
        #[test]
        fn the_fast_path_writes_and_reads_what_the_formats_parsers_do(
            fields in any::<Fields>(),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            offloaded in any::<bool>(),
            padding in 0usize..20,
        ) {
            let frame = is_common(fields, &payload);
            let mut bytes = vec![0xaa; frame.frame_len()];
            frame.emit(&mut bytes, offloaded);
            prop_assert_eq!(&bytes, &write(&frame, offloaded));
            bytes.extend(vec![0; padding]);
            let host = (frame.target_mac, frame.ip.target);
            prop_assert_eq!(FastPathFrame::parse(&bytes, host, !offloaded), Some(frame));
            prop_assert_eq!(FastPathFrame::parse(&bytes, ([1; 6], frame.ip.target), !offloaded), None);
        }

        #[test]
        fn the_fast_path_reads_damaged_frames_as_the_formats_parsers_do(
            fields in any::<Fields>(),
            payload in prop::collection::vec(any::<u8>(), 0..40),
            damage in prop::collection::vec((0usize..HEADERS_LEN, any::<u8>()), 0..3),
            len in 0usize..HEADERS_LEN + 60,
            verify in any::<bool>(),
        ) {
            let mut bytes = write(&is_common(fields, &payload), false);
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            // Corrects the IP checksum, so that the remaining fields are checked, too.
            bytes[IP + 10..IP + 12].fill(0);
            let sum = checksum::of(&bytes[IP..TCP]);
            bytes[IP + 10..IP + 12].copy_from_slice(&sum);
            bytes.truncate(len.max(TCP));
            let host = (*bytes.first_chunk().unwrap(), addr(&bytes, IP + 16));
            if let Some(frame) = FastPathFrame::parse(&bytes, host, verify) {
                let (link, packet, segment) = read(&bytes, verify).unwrap();
                prop_assert_eq!((link.target, link.source, segment), (frame.target_mac, frame.source_mac, frame.segment()));
                let ipv4::Packet { source, target, protocol, dscp, ecn, ttl, payload, fragment } = packet;
                let ip = ipv4::Header { source, target, protocol, dscp, ecn, ttl, payload_len: payload.len() };
                prop_assert_eq!((ip, fragment), (frame.ip, None));
            }
        }
    }
}
