//! What stands before a datagram in the pair between a program and the stack.
//!
//! A pair knows no addresses, so each message begins with 42 bytes that the
//! library adds and strips:
//!
//! ```text
//! KIND·1 HERE·1 PORT·2 ADDRESS·16 INTERFACE·4 OURS·16 SEGMENT·2
//! ```
//!
//! in network order; IPv4 is written as it is mapped into IPv6 (RFC 4291
//! §2.5.5.2). Towards a program the address is the peer's who sent, or there
//! is none and the port's place says what went wrong; towards the stack it is
//! the peer's who is to have it, or there is none and the one is meant with
//! whom the socket is connected. What follows says something where `HERE` is
//! 1 ([`Here`]): to which address of ours it came, where the program wants to
//! be told, and from which it is to leave, where the program says so. `SEGMENT`,
//! where it is not 0, cuts what follows into datagrams of so many bytes and a
//! last one that may be shorter (UDP_SEGMENT, udp(7)).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of an envelope.
pub const LEN: usize = 42;
/// Those of them that say whom it is for, or from.
const THERE: usize = 20;
/// Where it says how it is cut.
const SEGMENT: usize = 40;
/// Datagrams that a message is cut into at most, as Linux has it.
pub const SEGMENTS_MAX: usize = 128;
/// Bytes of the longest datagram, over IPv4 and over IPv6 (RFC 768, RFC 8200).
pub const PAYLOAD_MAX: [usize; 2] = [65_507, 65_527];

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A datagram from this peer, or for it.
    Peer(SocketAddr),
    /// A datagram for whom the socket is connected with.
    Connected,
    /// No datagram: what became of an earlier one, or why there is none (errno(3)).
    Failed(u16),
}

/// Our end of a datagram, as IP_PKTINFO and IPV6_PKTINFO tell it (ip(7), ipv6(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// The address of ours; unspecified where a program leaves that to us.
    pub addr: IpAddr,
    /// The interface's number; 0 where there is none.
    pub interface: u32,
}

impl Here {
    /// What the envelope that `bytes` begin with says of our end.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let envelope = bytes.first_chunk::<LEN>().filter(|bytes| bytes[1] == 1)?;
        let (interface, addr) = envelope[THERE..].split_first_chunk()?;
        let addr = Ipv6Addr::from(*addr.first_chunk::<16>()?).to_canonical();
        Some(Self { addr, interface: u32::from_be_bytes(*interface) })
    }
}

/// An address as IPv6 has it: how the seam writes all of them (RFC 4291 §2.5.5.2).
#[must_use]
pub fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

impl Envelope {
    /// Its bytes, with what is said of our end, and of a `segment`; 0: it is one datagram.
    #[must_use]
    pub fn encode_with(self, here: Option<Here>, segment: u16) -> [u8; LEN] {
        let mut bytes = self.encode();
        if let Some(Here { addr, interface }) = here {
            bytes[1] = 1;
            bytes[THERE..THERE + 4].copy_from_slice(&interface.to_be_bytes());
            bytes[THERE + 4..SEGMENT].copy_from_slice(&mapped(addr).octets());
        }
        bytes[SEGMENT..].copy_from_slice(&segment.to_be_bytes());
        bytes
    }

    /// Bytes of each datagram that follows `bytes`, which begin with an envelope; 0: there is one.
    #[must_use]
    pub fn segment(bytes: &[u8; LEN]) -> u16 {
        u16::from_be_bytes([bytes[SEGMENT], bytes[SEGMENT + 1]])
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; LEN] {
        let (kind, number, addr) = match self {
            Self::Peer(peer) => (b'P', peer.port(), mapped(peer.ip()).octets()),
            Self::Connected => (b'C', 0, [0; 16]),
            Self::Failed(errno) => (b'F', errno, [0; 16]),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..THERE].copy_from_slice(&addr);
        bytes
    }

    /// What `bytes` begin with; `None` when that is no envelope.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, 0 | 1, high, low, ref addr @ ..] = bytes.first_chunk::<LEN>()?.first_chunk::<THERE>()?
        else {
            return None;
        };
        let number = u16::from_be_bytes([high, low]);
        let ip = Ipv6Addr::from(*addr);
        Some(match kind {
            b'P' => Self::Peer(SocketAddr::new(ip.to_canonical(), number)),
            b'C' if number == 0 && ip.is_unspecified() => Self::Connected,
            b'F' if number != 0 && ip.is_unspecified() => Self::Failed(number),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn envelopes_read_as_they_are_written() {
        let peers = ["10.0.0.1:53", "[fd00::1]:65535", "[::1]:1"].map(|text| text.parse().unwrap());
        let others = [Envelope::Connected, Envelope::Failed(111)];
        for envelope in peers.into_iter().map(Envelope::Peer).chain(others) {
            let bytes = envelope.encode();
            assert_eq!(Envelope::decode(&bytes), Some(envelope));
            assert_eq!(Envelope::decode(&[&bytes[..], b"payload"].concat()), Some(envelope));
            assert_eq!(Envelope::decode(&bytes[1..]), None, "too short");
        }
        assert_eq!(Envelope::decode(&Envelope::Failed(0).encode()), None, "a failure has its reason");
    }

    #[test]
    fn our_end_is_told_where_it_is_said() {
        let envelope = Envelope::Peer("10.0.0.1:53".parse().unwrap());
        assert_eq!(Here::decode(&envelope.encode()), None);
        for (addr, interface) in [("10.0.0.2", 3), ("fd00::2", 0), ("0.0.0.0", u32::MAX)] {
            let here = Here { addr: addr.parse().unwrap(), interface };
            let bytes = envelope.encode_with(Some(here), 1200);
            assert_eq!((Envelope::decode(&bytes), Here::decode(&bytes)), (Some(envelope), Some(here)));
            assert_eq!(Envelope::segment(&bytes), 1200);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), few in any::<bool>()) {
            let mut bytes = bytes;
            bytes.iter_mut().take(if few { 2 } else { 0 }).for_each(|byte| *byte &= 1);
            let here = Here::decode(&bytes);
            if let Some(envelope) = Envelope::decode(&bytes) {
                let again = envelope.encode_with(here, 0);
                prop_assert_eq!(&again[..THERE], &bytes[..THERE]);
                prop_assert_eq!((Envelope::decode(&again), Here::decode(&again)), (Some(envelope), here));
            }
        }
    }
}
