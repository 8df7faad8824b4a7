//! virtio_net_hdr: metadata before each frame, for missing or verified checksums and for segmentation.
//!
//! Source: virtio 1.2 §5.1.6, linux/virtio_net.h, in its form of 10 bytes.

mod gso_split;

pub(crate) use gso_split::GsoSegments;

/// Bytes before each frame.
pub(crate) const HEADER_LEN: usize = 10;

/// The header.
pub(crate) type Header = [u8; HEADER_LEN];

/// Flag: complete the checksum, from `csum_start` on, at `csum_offset`.
const NEEDS_CHECKSUM: u8 = 1;
/// Flag: the checksum was verified.
const DATA_VALID: u8 = 2;

/// GSO types of TCP over IPv4 and over IPv6.
const SEGMENTS_V4: u8 = 1;
const SEGMENTS_V6: u8 = 4;

/// Offset of the checksum in a TCP header, and IP protocol number of TCP.
const TCP_CHECKSUM: usize = 16;
const TCP: u8 = 6;
const ETHERNET: usize = 14;
/// Bytes of an IPv6 header.
const IPV6_LEN: usize = 40;

/// True if the transport checksum can be ignored: it was verified, or not filled in because the frame
/// has not left this machine.
#[inline]
pub(crate) fn is_checked(header: &Header) -> bool {
    header[0] & (NEEDS_CHECKSUM | DATA_VALID) != 0
}

/// Header of a frame to be sent, to be segmented into `size` bytes of data if it has more. A TCP
/// checksum field that holds the sum of the pseudo header is marked for completion. A complete one is
/// left alone: a path that corrupts frames on purpose completes them first.
#[inline]
pub(crate) fn header_for(frame: &[u8], size: Option<u16>) -> Header {
    let mut header = [0; HEADER_LEN];
    if let Some(start) = partial(frame) {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
        header[8..].copy_from_slice(&(TCP_CHECKSUM as u16).to_ne_bytes());
        if let Some(size) = size {
            let headers = start + usize::from(frame[start + 12] >> 4) * 4;
            header[1] = if frame[12] == 8 { SEGMENTS_V4 } else { SEGMENTS_V6 };
            header[2..4].copy_from_slice(&(headers as u16).to_ne_bytes());
            header[4..6].copy_from_slice(&size.to_ne_bytes());
        }
    }
    header
}

/// Offset of the TCP header whose checksum must be completed, if any.
#[inline]
pub(crate) fn partial(frame: &[u8]) -> Option<usize> {
    start_of(TCP, frame).filter(|&start| is_partial(frame, start))
}

/// True if the checksum of the segment at `start` is the pseudo header's sum.
fn is_partial(frame: &[u8], start: usize) -> bool {
    let addresses = if frame[12] == 8 { 26..34 } else { 22..54 };
    let field = start + TCP_CHECKSUM..start + TCP_CHECKSUM + 2;
    let (Some(addresses), Some(field)) = (frame.get(addresses), frame.get(field)) else { return false };
    let (pairs, _) = addresses.as_chunks::<2>();
    let sum = pairs.iter().map(|&pair| u32::from(u16::from_be_bytes(pair))).sum::<u32>();
    let sum = sum + u32::from(TCP) + (frame.len() - start) as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    u32::from(u16::from_be_bytes([field[0], field[1]])) == sum
}

/// Offset of the header of `protocol`, by IP number, directly behind IP's: we send no IPv6 extension
/// headers, and datagrams behind some are never merged.
fn start_of(protocol: u8, frame: &[u8]) -> Option<usize> {
    match (frame.get(12..14)?, *frame.get(ETHERNET)?) {
        ([8, 0], first) if *frame.get(23)? == protocol => Some(ETHERNET + usize::from(first & 15) * 4),
        ([0x86, 0xdd], _) if *frame.get(20)? == protocol => Some(ETHERNET + IPV6_LEN),
        _ => None,
    }
}

//~ devices: TAP devices offload checksums, merge receives and have several queues
#[cfg(test)]
mod tests {
    use classify::PacketMeta;
    use net::device::{Full, Offloads, ReceivedFrame};
    use net::stack::Config;
    use net::{Device, Stack};
    use queueing::Time;

    use super::*;

    /// A frame of 80 bytes that carries `protocol` at `start`; its addresses sum to 0xfffe, and its
    /// checksum field holds `checksum`.
    fn frame(first: u8, protocol: u8, start: usize, checksum: u16) -> Vec<u8> {
        let mut frame = vec![0; 80];
        frame[14] = first;
        let (kind, at, addresses) = match first >> 4 {
            4 => ([8, 0], 23, 26),
            _ => ([0x86, 0xdd], 20, 22),
        };
        frame[12..14].copy_from_slice(&kind);
        frame[at] = protocol;
        frame[addresses..addresses + 2].copy_from_slice(&[0xff, 0xfe]);
        frame[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    fn asks(frame: &[u8]) -> Option<(u16, u16)> {
        let header = header_for(frame, None);
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        (header[0] == NEEDS_CHECKSUM).then(|| (half(6), half(8)))
    }

    #[test]
    fn a_partial_tcp_checksum_is_left_to_the_kernel_and_no_other() {
        // 0xfffe + 6 + length, folded.
        let sum = |start: u16| 5 + 80 - start;
        for (first, start) in [(0x45, 34), (0x46, 38), (0x60, 54)] {
            let partial = frame(first, TCP, start.into(), sum(start));
            assert_eq!(asks(&partial), Some((start, 16)));
            assert_eq!(asks(&frame(first, TCP, start.into(), sum(start) + 1)), None, "it is complete");
            assert_eq!(asks(&frame(first, 17, start.into(), sum(start))), None, "UDP has its own");
            assert_eq!(asks(&partial[..50]), None, "a frame cut short");
        }
        assert_eq!(asks(&[0; 14]), None);
    }

    //~ devices: segmentation offload (TSO) puts the same bytes on the wire as single segments
    #[test]
    fn what_is_to_be_cut_says_where_its_data_begins_and_how_long_a_segment_is() {
        let half = |header: &Header, at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        for (first, start, kind) in [(0x45, 34, 1), (0x46, 38, 1), (0x60, 54, 4)] {
            // A header of 32 bytes, with timestamps.
            let mut long = frame(first, TCP, start.into(), 5 + 80 - start);
            long[usize::from(start) + 12] = 8 << 4;
            let header = header_for(&long, Some(7));
            assert_eq!((header[1], half(&header, 2), half(&header, 4)), (kind, start + 32, 7));
            assert_eq!(header_for(&long, None)[1..6], [0; 5]);
        }
    }

    #[test]
    fn a_stack_that_leaves_checksums_out_is_understood() {
        let mut device = Outbox(Vec::new());
        let mut config = Config::new([2; 6], [10, 0, 0, 2].into(), 24, [1; 16]);
        config.gateway = Some([10, 0, 0, 1].into());
        let mut stack = Stack::new(config);
        stack.connect(Time::ZERO, "10.0.0.1:80".parse().unwrap(), None).unwrap();
        stack.egress(Time::ZERO, &mut device);
        let mut answer = vec![0; 60];
        answer[..6].copy_from_slice(&[2; 6]);
        answer[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        answer[22..32].copy_from_slice(&[4, 4, 4, 4, 4, 4, 10, 0, 0, 1]);
        answer[32..42].copy_from_slice(&[2, 2, 2, 2, 2, 2, 10, 0, 0, 2]);
        stack.ingress(Time::ZERO, &answer, &PacketMeta::new(Time::ZERO, answer.len()));
        stack.egress(Time::ZERO, &mut device);
        let [question, syn] = &device.0[..] else { panic!("a question and a SYN: {:?}", device.0) };
        assert_eq!((asks(question), asks(syn)), (None, Some((34, 16))));
    }

    struct Outbox(Vec<Vec<u8>>);

    impl Device for Outbox {
        type Frame = Vec<u8>;

        fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
            None
        }

        fn recycle(&mut self, _frame: Vec<u8>) {}

        fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
            self.0.push(vec![0; len]);
            self.0.last_mut().into_iter().for_each(|frame| fill(frame));
            Ok(())
        }

        fn offloads(&self) -> Offloads {
            Offloads { tx_checksum: true, ..Offloads::default() }
        }
    }

    #[test]
    fn missing_and_verified_checksums_need_no_look() {
        let says = |flags| is_checked(&[flags, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!([0, 1, 2, 4].map(says), [false, true, true, false]);
    }
}
