//! Test frames for a guard.

/// An IPv4 SYN from 10.0.0.1 to `port`.
pub fn syn(port: u16) -> Vec<u8> {
    ipv4([10, 0, 0, 1], 0, 0, &tcp(port, SYN))
}

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind.to_be_bytes()[..], payload].concat()
}

/// The frame with a VLAN tag inserted before its payload.
#[cfg(test)]
pub fn tagged(kind: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes()[..], &[0, 5], &frame[12..]].concat()
}

/// An IPv4 packet to 10.0.0.2 with `options` bytes of options and this fragment field.
pub fn ipv4(source: [u8; 4], options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x45 + (options / 4) as u8;
    header[2..4].copy_from_slice(&((20 + options + payload.len()) as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    (header[8], header[9]) = (64, 6);
    header[12..16].copy_from_slice(&source);
    header[16..20].copy_from_slice(&[10, 0, 0, 2]);
    ethernet(0x0800, &[&header, payload].concat())
}

/// An IPv6 packet from fd00::`source` to fd00::ff.
pub fn ipv6(source: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    (header[6], header[7]) = (next, 64);
    (header[8], header[23], header[24], header[39]) = (0xfd, source, 0xfd, 0xff);
    ethernet(0x86dd, &[&header, payload].concat())
}

/// A TCP header from port 1000 to `port`, with `flags`.
pub fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&1000_u16.to_be_bytes());
    header[2..4].copy_from_slice(&port.to_be_bytes());
    (header[12], header[13]) = (0x50, flags);
    header
}
