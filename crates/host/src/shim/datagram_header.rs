//! What stands before a datagram in the pair between a program and the stack.
//!
//! A pair knows no addresses, so each message begins with 43 bytes that the
//! library adds and strips:
//!
//! ```text
//! KIND·1 SAYS·1 PORT·2 ADDRESS·16 INTERFACE·4 OURS·16 SEGMENT·2 CLASS·1
//! ```
//!
//! in network order; IPv4 is written as it is mapped into IPv6 (RFC 4291
//! §2.5.5.2). Towards a program the address is the peer's who sent, or there
//! is none and the port's place says what went wrong; towards the stack it is
//! the peer's who is to have it, or there is none and the one is meant with
//! whom the socket is connected. What follows ([`Cmsg`]) is what a program is
//! told beside the datagram, where it wants to be, or says beside it. Bit 0 of
//! `SAYS`: to which address of ours it came, or from which it is to leave
//! ([`PktInfo`]). Bit 1: its traffic class, DSCP and congestion bits (RFC 2474,
//! RFC 3168). `SEGMENT`, where it is not 0, cuts what follows into datagrams of
//! so many bytes and a last one that may be shorter (UDP_SEGMENT, udp(7)).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of an envelope.
pub const LEN: usize = 43;
/// Those of them that say whom it is for, or from.
const THERE: usize = 20;
/// Where it says how it is cut, and the traffic class.
const SEGMENT: usize = 40;
const CLASS: usize = 42;
/// What a message says: our end, and a traffic class.
const HERE: u8 = 1;
const CLASSED: u8 = 2;
/// Datagrams that a message is cut into at most, as Linux has it.
pub const SEGMENTS_MAX: usize = 128;
/// Bytes of the longest datagram, over IPv4 and over IPv6 (RFC 768, RFC 8200).
pub const PAYLOAD_MAX: [usize; 2] = [65_507, 65_527];

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramHeader {
    /// A datagram from this peer, or for it.
    Peer(SocketAddr),
    /// A datagram for whom the socket is connected with.
    Connected,
    /// No datagram: what became of an earlier one, or why there is none (errno(3)).
    Failed(u16),
}

/// Our end of a datagram, as IP_PKTINFO and IPV6_PKTINFO tell it (ip(7), ipv6(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PktInfo {
    /// The address of ours; unspecified where a program leaves that to us.
    pub addr: IpAddr,
    /// The interface's number; 0 where there is none.
    pub interface: u32,
}

/// What is said beside a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cmsg {
    /// Our end of it.
    pub here: Option<PktInfo>,
    /// Its traffic class.
    pub class: Option<u8>,
    /// Bytes of each datagram that follows; 0: it is one.
    pub segment: u16,
}

impl Cmsg {
    /// What the envelope `bytes` says.
    #[must_use]
    pub fn decode(bytes: &[u8; LEN]) -> Self {
        let says = |bit| bytes[1] & bit != 0;
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let addr = Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|byte| bytes[THERE + 4 + byte]));
        let here = PktInfo { addr: addr.to_canonical(), interface: number(THERE) };
        Self {
            here: says(HERE).then_some(here),
            class: says(CLASSED).then_some(bytes[CLASS]),
            segment: u16::from_be_bytes([bytes[SEGMENT], bytes[SEGMENT + 1]]),
        }
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

impl DatagramHeader {
    /// Its bytes, with what else is said.
    #[must_use]
    pub fn encode_with(self, Cmsg { here, class, segment }: Cmsg) -> [u8; LEN] {
        let mut bytes = self.encode();
        if let Some(class) = class {
            bytes[1] |= CLASSED;
            bytes[CLASS] = class;
        }
        if let Some(PktInfo { addr, interface }) = here {
            bytes[1] |= HERE;
            bytes[THERE..THERE + 4].copy_from_slice(&interface.to_be_bytes());
            bytes[THERE + 4..SEGMENT].copy_from_slice(&mapped(addr).octets());
        }
        bytes[SEGMENT..CLASS].copy_from_slice(&segment.to_be_bytes());
        bytes
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
        let &[kind, 0..=3, high, low, ref addr @ ..] = bytes.first_chunk::<LEN>()?.first_chunk::<THERE>()?
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
        let others = [DatagramHeader::Connected, DatagramHeader::Failed(111)];
        for envelope in peers.into_iter().map(DatagramHeader::Peer).chain(others) {
            let bytes = envelope.encode();
            assert_eq!(DatagramHeader::decode(&bytes), Some(envelope));
            assert_eq!(DatagramHeader::decode(&[&bytes[..], b"payload"].concat()), Some(envelope));
            assert_eq!(DatagramHeader::decode(&bytes[1..]), None, "too short");
        }
        assert_eq!(
            DatagramHeader::decode(&DatagramHeader::Failed(0).encode()),
            None,
            "a failure has its reason"
        );
    }

    #[test]
    fn what_is_said_beside_it_is_read_as_it_was_written() {
        let envelope = DatagramHeader::Peer("10.0.0.1:53".parse().unwrap());
        assert_eq!(Cmsg::decode(&envelope.encode()), Cmsg::default());
        for (addr, interface) in [("10.0.0.2", 3), ("fd00::2", 0), ("0.0.0.0", u32::MAX)] {
            let here = Some(PktInfo { addr: addr.parse().unwrap(), interface });
            for (here, class, segment) in [(here, None, 1200), (None, Some(0), 0), (here, Some(187), 9)] {
                let said = Cmsg { here, class, segment };
                let bytes = envelope.encode_with(said);
                assert_eq!((DatagramHeader::decode(&bytes), Cmsg::decode(&bytes)), (Some(envelope), said));
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 2..60),
            kind in prop::option::of(prop::sample::select(&b"PCF"[..])),
        ) {
            let mut bytes = bytes;
            if let Some(kind) = kind {
                (bytes[0], bytes[1]) = (kind, bytes[1] & 3);
            }
            if let Some(envelope) = DatagramHeader::decode(&bytes) {
                let said = Cmsg::decode(bytes.first_chunk().unwrap());
                let again = envelope.encode_with(said);
                prop_assert_eq!(&again[..THERE], &bytes[..THERE]);
                prop_assert_eq!((DatagramHeader::decode(&again), Cmsg::decode(&again)), (Some(envelope), said));
            }
        }
    }
}
