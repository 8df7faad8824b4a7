//! RST of a host to a SYN for a closed port: `bpf/reset.h` in Rust.
//! Source: RFC 9293 §3.10.7.1, RFC 1122 §4.2.3.10.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum::{self, Checksum};

use super::syn::{Syn, at_ip};

/// The RST frame that refuses the SYN in `frame`. `None` if there is no SYN, it is behind IP options or
/// extension headers, has invalid lengths, or a multicast or broadcast address.
pub(super) fn reset(frame: &[u8]) -> Option<Vec<u8>> {
    Syn::read(frame)?;
    let (kind, at) = at_ip(frame)?;
    let (ethernet, packet) = frame.split_at(at);
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    let (header, payload) = match kind {
        0x0800 => (20, word(2)?.checked_sub(20)?),
        0x86dd => (40, word(4)?),
        _ => return None,
    };
    let syn: &[u8; 20] = packet.get(header..)?.first_chunk()?;
    let plain = if kind == 0x0800 { packet[0] == 0x45 } else { packet[6] == TCP };
    let offset = usize::from(syn[12] >> 4) * 4;
    if !plain || offset < 20 || (ethernet[0] | ethernet[6]) & 1 == 1 {
        return None;
    }
    let len = payload.checked_sub(offset)?;
    let seq = u32::from_be_bytes(*syn[4..].first_chunk()?);
    let mut tcp = [0; 20];
    tcp[..2].copy_from_slice(&syn[2..4]);
    tcp[2..4].copy_from_slice(&syn[..2]);
    tcp[8..12].copy_from_slice(&seq.wrapping_add(1 + len as u32).to_be_bytes());
    (tcp[12], tcp[13]) = (0x50, RST | ACK);
    let mut ip = vec![0; header];
    let sum = match kind {
        0x0800 => {
            let address = |at: usize| Some(Ipv4Addr::from(*packet[at..].first_chunk::<4>()?));
            let (source, target) = (address(12)?, address(16)?);
            if !(1..224).contains(&source.octets()[0]) {
                return None;
            }
            ip[..10].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, HOPS, TCP]);
            ip[12..16].copy_from_slice(&target.octets());
            ip[16..].copy_from_slice(&source.octets());
            let sum = checksum::of(&ip);
            ip[10..12].copy_from_slice(&sum);
            Checksum::pseudo(target, source, TCP, tcp.len())
        }
        _ => {
            let address = |at: usize| Some(Ipv6Addr::from(*packet[at..].first_chunk::<16>()?));
            let (source, target) = (address(8)?, address(24)?);
            if source.is_multicast() {
                return None;
            }
            ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, TCP, HOPS]);
            ip[8..24].copy_from_slice(&target.octets());
            ip[24..].copy_from_slice(&source.octets());
            Checksum::pseudo(target, source, TCP, tcp.len())
        }
    };
    let sum = sum.with(&tcp).finish();
    tcp[16..18].copy_from_slice(&sum);
    let macs = [&ethernet[6..12], &ethernet[..6], &ethernet[12..]].concat();
    Some([&macs[..], &ip, &tcp].concat())
}

const TCP: u8 = 6;
const HOPS: u8 = 64;
const RST: u8 = 4;
const ACK: u8 = 16;

//~ xdp-guard: a shed client receives a valid RST if configured
#[cfg(test)]
mod tests {
    use wire::ethernet::Frame;
    use wire::tcp::{Flags, Segment};
    use wire::{ipv4, ipv6};

    use super::super::frames::{ipv4, ipv6, syn, tcp};
    use super::super::vectors::vectors;
    use super::*;

    /// Acknowledgment number and ports, read by greenwave's own parsers.
    fn read(frame: &[u8]) -> (u32, u16, u16) {
        let frame = Frame::parse(frame).expect("an Ethernet frame");
        let (source, target, bytes): (std::net::IpAddr, std::net::IpAddr, _) = match frame.payload[0] >> 4 {
            4 => {
                let packet = ipv4::Packet::parse(frame.payload).expect("IPv4, by its checksum");
                (packet.source.into(), packet.target.into(), packet.payload)
            }
            _ => {
                let packet = ipv6::Packet::parse(frame.payload).expect("IPv6");
                (packet.source.into(), packet.target.into(), packet.payload)
            }
        };
        let segment = Segment::parse(bytes, source, target, true).expect("TCP, by its checksum");
        assert!(segment.flags.contains(Flags::RST.with(Flags::ACK)) && segment.payload.is_empty());
        (u32::from_be_bytes(*bytes[8..].first_chunk().unwrap()), segment.source_port, segment.target_port)
    }

    #[test]
    fn a_reset_confirms_the_syn_and_what_came_with_it() {
        let with_seq = |mut tcp: Vec<u8>, data: usize| {
            tcp[4..8].copy_from_slice(&7_u32.to_be_bytes());
            tcp.extend(vec![9; data]);
            tcp
        };
        for (frame, ack) in [
            (ipv4([10, 0, 0, 1], 0, 0, &with_seq(tcp(80, 2), 0)), 8),
            (ipv4([10, 0, 0, 1], 0, 0, &with_seq(tcp(80, 2), 5)), 13),
            (ipv6(1, 6, &with_seq(tcp(80, 2), 0)), 8),
            (ipv6(1, 6, &with_seq(tcp(80, 2), 100)), 108),
        ] {
            assert_eq!(read(&reset(&frame).expect("a SYN gets a RST")), (ack, 80, 1000));
        }
    }

    #[test]
    fn only_a_plain_syn_is_answered() {
        for vector in vectors().iter().filter(|vector| !vector.is_syn) {
            assert_eq!(reset(&vector.frame), None, "{}", vector.what);
        }
        let from = |source| reset(&ipv4(source, 0, 0, &tcp(80, 2)));
        assert!(from([10, 0, 0, 1]).is_some());
        assert_eq!([from([0, 0, 0, 1]), from([224, 0, 0, 1]), from([255; 4])], [None, None, None]);
        let mut group = syn(80);
        group[6] |= 1;
        assert_eq!(reset(&group), None, "from a multicast address");
    }
}
