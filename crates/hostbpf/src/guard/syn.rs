//! Parser of SYNs, as in the XDP program.
//! Source: RFC 9293 §3.1, RFC 791 §3.1, RFC 8200 §4, IEEE 802.1Q.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A parsed SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    /// Source address and port.
    pub source: (IpAddr, u16),
    /// Destination address and port.
    pub target: (IpAddr, u16),
}

impl Syn {
    /// The SYN in a frame, if its header is complete, other flags are clear, and it is behind at most
    /// two VLAN tags and six IPv6 extension headers.
    #[must_use]
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (kind, at) = at_ip(frame)?;
        let ip = frame.get(at..)?;
        let (source, target, tcp) = match kind {
            0x0800 => {
                let header: &[u8; 20] = ip.first_chunk()?;
                let len = usize::from(header[0] & 15) * 4;
                let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
                if header[0] >> 4 != 4 || len < 20 || fragment != 0 || header[9] != TCP {
                    return None;
                }
                let address = |at: usize| Some(Ipv4Addr::from(*header[at..].first_chunk::<4>()?).into());
                (address(12)?, address(16)?, ip.get(len..)?)
            }
            0x86dd => {
                let header: &[u8; 40] = ip.first_chunk()?;
                if header[0] >> 4 != 6 {
                    return None;
                }
                let address = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?).into());
                (address(8)?, address(24)?, behind_extensions(header[6], &ip[40..])?)
            }
            _ => return None,
        };
        let tcp: &[u8; 20] = tcp.first_chunk()?;
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let is_syn = tcp[13] & SYN_FLAGS == SYN;
        is_syn.then_some(Self { source: (source, port(0)), target: (target, port(2)) })
    }
}

/// Ethertype behind at most two VLAN tags, and offset of the payload.
pub(super) fn at_ip(frame: &[u8]) -> Option<(u16, usize)> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let mut at = 12;
    let mut kind = word(at)?;
    for _ in 0..2 {
        if !matches!(kind, 0x8100 | 0x88a8) {
            break;
        }
        at += 4;
        kind = word(at)?;
    }
    Some((kind, at + 2))
}

/// TCP segment behind permitted extension headers, if this host is the packet's final destination.
fn behind_extensions(mut next: u8, mut bytes: &[u8]) -> Option<&[u8]> {
    for _ in 0..EXTENSIONS {
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
            break;
        }
        let header: &[u8; 8] = bytes.first_chunk()?;
        if next == ROUTING && header[3] != 0 {
            return None;
        }
        next = header[0];
        bytes = bytes.get(8 + usize::from(header[1]) * 8..)?;
    }
    (next == TCP).then_some(bytes)
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;
/// Maximum of extension headers before a SYN.
const EXTENSIONS: usize = 6;
const TCP: u8 = 6;
const SYN: u8 = 2;
/// SYN, and the flags it must not have: FIN, RST, ACK.
const SYN_FLAGS: u8 = SYN | 1 | 4 | 16;
