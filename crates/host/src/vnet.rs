//! What the kernel says of a frame before it, and what we say: whose checksum
//! is missing and whose was verified.
//! Source: virtio 1.2 §5.1.6, linux/virtio_net.h, in its form of 10 bytes.

/// Bytes before each frame.
pub(crate) const HEADER_LEN: usize = 10;

/// The header.
pub(crate) type Header = [u8; HEADER_LEN];

/// The checksum has to be completed, from here on, there.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum was verified.
const DATA_VALID: u8 = 2;

/// Where a TCP header has its checksum, and IP's number of TCP.
const TCP_CHECKSUM: u16 = 16;
const TCP: u8 = 6;
const ETHERNET: usize = 14;

/// Whether the transport checksum need not be looked at: it was verified, or
/// was never filled in because the frame has not left this machine.
#[inline]
pub(crate) fn is_checked(header: &Header) -> bool {
    header[0] & (NEEDS_CHECKSUM | DATA_VALID) != 0
}

/// The header of a frame whose TCP checksum, if it carries TCP, holds the sum
/// of the pseudo header only.
#[inline]
pub(crate) fn header_for(frame: &[u8]) -> Header {
    let mut header = [0; HEADER_LEN];
    if let Some(start) = tcp_start(frame) {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
        header[8..].copy_from_slice(&TCP_CHECKSUM.to_ne_bytes());
    }
    header
}

/// Where the TCP header of a frame of ours starts, if it has one. We send no
/// IPv6 extension headers before TCP.
fn tcp_start(frame: &[u8]) -> Option<usize> {
    match (frame.get(12..14)?, *frame.get(ETHERNET)?) {
        ([8, 0], first) if *frame.get(23)? == TCP => Some(ETHERNET + usize::from(first & 15) * 4),
        ([0x86, 0xdd], _) if *frame.get(20)? == TCP => Some(ETHERNET + 40),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: [u8; 2], first: u8, at: usize, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 80];
        frame[12..14].copy_from_slice(&kind);
        frame[14] = first;
        frame[at] = protocol;
        frame
    }

    #[test]
    fn a_tcp_checksum_is_left_to_the_kernel_and_no_other() {
        let asks = |frame: &[u8]| {
            let header = header_for(frame);
            let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
            (header[0] == NEEDS_CHECKSUM).then(|| (half(6), half(8)))
        };
        assert_eq!(asks(&frame([8, 0], 0x45, 23, TCP)), Some((34, 16)));
        assert_eq!(asks(&frame([8, 0], 0x46, 23, TCP)), Some((38, 16)));
        assert_eq!(asks(&frame([0x86, 0xdd], 0x60, 20, TCP)), Some((54, 16)));
        assert_eq!(asks(&frame([8, 0], 0x45, 23, 1)), None, "ICMP has its own");
        assert_eq!(asks(&frame([8, 6], 0, 23, TCP)), None, "ARP has none");
        assert_eq!(asks(&[0; 14]), None);
    }

    #[test]
    fn missing_and_verified_checksums_need_no_look() {
        let says = |flags| is_checked(&[flags, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!([0, 1, 2, 4].map(says), [false, true, true, false]);
    }
}
