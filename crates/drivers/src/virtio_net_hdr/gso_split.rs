//! Software segmentation of UDP GSO frames.
//!
//! A sender on this machine, or in a VM of it, passes many datagrams to its kernel at once
//! (UDP_SEGMENT, as QUIC does). Without a card in between they arrive unsegmented. Their boundaries are
//! significant to the peer, so they are split here.
//!
//! Source: virtio 1.2 §5.1.6.4 (VIRTIO_NET_HDR_GSO_UDP_L4), udp(7), RFC 768.

use wire::checksum;

use super::{ETHERNET, Header, IPV6_LEN, start_of};
use crate::frame_pool::PooledFrame;

/// GSO type of such a frame, over either version of IP.
const DATAGRAMS: u8 = 5;
/// Flag beside the type: congestion was experienced.
const ECN: u8 = 0x80;
/// IP protocol number of UDP, and bytes of its header.
const UDP: u8 = 17;
const UDP_LEN: usize = 8;

/// Iterator over the datagrams of a GSO frame.
#[derive(Debug)]
pub(crate) struct GsoSegments {
    frame: PooledFrame,
    /// Offset of its UDP header.
    start: usize,
    /// Bytes of each datagram; the last may be shorter.
    size: usize,
    /// Offset of the next datagram.
    at: usize,
}

impl GsoSegments {
    /// Segments of `frame`, if `header` marks it as UDP GSO.
    ///
    /// # Errors
    /// The frame, if it is not.
    #[inline]
    pub(crate) fn of(header: &Header, frame: PooledFrame) -> Result<Self, PooledFrame> {
        if header[1] & !ECN != DATAGRAMS {
            return Err(frame);
        }
        let size = usize::from(u16::from_ne_bytes([header[4], header[5]]));
        match start_of(UDP, frame.as_ref()) {
            Some(start) if size > 0 && start + UDP_LEN <= frame.as_ref().len() => {
                Ok(Self { frame, start, size, at: start + UDP_LEN })
            }
            _ => Err(frame),
        }
    }

    /// Length of the next frame; `None` at the end.
    pub(crate) fn next_len(&self) -> Option<usize> {
        let left = self.frame.as_ref().len().checked_sub(self.at).filter(|left| *left > 0)?;
        Some(self.start + UDP_LEN + left.min(self.size))
    }

    /// Writes the next frame, of that length. Its UDP checksum is not valid and must be ignored.
    pub(crate) fn next(&mut self, into: &mut [u8]) {
        let frame = self.frame.as_ref();
        let (headers, payload) = into.split_at_mut(self.start + UDP_LEN);
        headers.copy_from_slice(&frame[..self.start + UDP_LEN]);
        payload.copy_from_slice(&frame[self.at..self.at + payload.len()]);
        self.at += payload.len();
        let datagram = (UDP_LEN + payload.len()) as u16;
        headers[self.start + 4..][..2].copy_from_slice(&datagram.to_be_bytes());
        let ip = &mut headers[ETHERNET..self.start];
        if ip[0] >> 4 == 4 {
            let total = ip.len() as u16 + datagram;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip[10..12].fill(0);
            let sum = checksum::of(ip);
            ip[10..12].copy_from_slice(&sum);
        } else {
            let length = (ip.len() - IPV6_LEN) as u16 + datagram;
            ip[4..6].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// The original frame.
    pub(crate) fn into_frame(self) -> PooledFrame {
        self.frame
    }
}

//~ devices: datagrams sent with UDP_SEGMENT on this machine arrive one by one
#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use wire::ethernet::{self, EtherType};
    use wire::ip::{self, Protocol};
    use wire::{ipv4, ipv6, udp};

    use super::*;
    use crate::frame_pool::Pool;

    /// The frame of a datagram over IPv4, or IPv6 if `six`, with `payload`.
    fn frame(six: bool, payload: &[u8]) -> Vec<u8> {
        let (source, target): (IpAddr, IpAddr) = match six {
            true => ([1_u16; 8].into(), [2_u16; 8].into()),
            false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
        };
        let datagram = udp::Datagram { source_port: 5, target_port: 53, payload };
        let (protocol, payload_len) = (Protocol::Udp, datagram.len());
        let header = ip::Header { source, target, protocol, dscp: 46, ecn: 2, hops: 64, payload_len };
        let mut frame = vec![0; ETHERNET + header.len() + payload_len];
        let kind = if six { EtherType::Ipv6 } else { EtherType::Ipv4 };
        ethernet::emit_header(&mut frame, [1; 6], [2; 6], kind);
        header.emit(&mut frame[ETHERNET..]);
        datagram.emit(source, target, &mut frame[ETHERNET + header.len()..]);
        frame
    }

    fn uncut(header: Header, bytes: &[u8]) -> Result<GsoSegments, PooledFrame> {
        GsoSegments::of(&header, Pool::frame(bytes.into(), bytes.len()))
    }

    fn says(kind: u8, size: u16) -> Header {
        let [a, b] = size.to_ne_bytes();
        [1, kind, 0, 0, a, b, 0, 0, 0, 0]
    }

    /// Payload of a frame with valid IP headers.
    fn payload(frame: &[u8]) -> Vec<u8> {
        let bytes = &frame[ETHERNET..];
        let (source, target, payload): (IpAddr, IpAddr, _) = match bytes[0] >> 4 {
            4 => {
                let packet = ipv4::Packet::parse(bytes).expect("a packet");
                (packet.source.into(), packet.target.into(), packet.payload)
            }
            _ => {
                let packet = ipv6::Packet::parse(bytes).expect("a packet");
                (packet.source.into(), packet.target.into(), packet.payload)
            }
        };
        let datagram = udp::Datagram::parse(payload, source, target, false).expect("a datagram");
        assert_eq!((datagram.source_port, datagram.target_port), (5, 53));
        datagram.payload.to_vec()
    }

    proptest! {
        #[test]
        fn what_was_sent_at_once_comes_as_it_was_meant(
            six in any::<bool>(),
            data in prop::collection::vec(any::<u8>(), 1..5000),
            size in 1_u16..2000,
            met in any::<bool>(),
        ) {
            let kind = DATAGRAMS | if met { ECN } else { 0 };
            let mut uncut = uncut(says(kind, size), &frame(six, &data)).expect("it is GSO");
            let mut payloads = Vec::new();
            while let Some(len) = uncut.next_len() {
                let mut next = vec![0; len];
                uncut.next(&mut next);
                payloads.push(payload(&next));
            }
            prop_assert!(payloads.iter().map(Vec::as_slice).eq(data.chunks(size.into())));
        }

        #[test]
        fn what_makes_no_sense_is_left_alone(
            bytes in prop::collection::vec(any::<u8>(), 0..80), kind in any::<u8>(), size in any::<u16>(),
        ) {
            if let Ok(mut uncut) = uncut(says(kind, size), &bytes) {
                while let Some(len) = uncut.next_len() {
                    uncut.next(&mut vec![0; len]);
                }
            }
        }
    }

    #[test]
    fn other_frames_stay_whole() {
        let bytes = frame(false, b"data");
        for header in [[0; 10], says(1, 2), says(DATAGRAMS, 0)] {
            assert_eq!(uncut(header, &bytes).expect_err("it is not GSO").as_ref(), bytes);
        }
        // IPv4 without UDP, and neither version of IP.
        for at in [12, 23] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(uncut(says(DATAGRAMS, 2), &other).is_err());
        }
    }
}
