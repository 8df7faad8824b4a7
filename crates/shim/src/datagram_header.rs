//! Header of a datagram in the socket pair between a program and the stack.
//!
//! A pair has no addresses, so each message begins with 44 bytes that the library adds and strips:
//!
//! ```text
//! KIND·1 SAYS·1 PORT·2 ADDRESS·16 INTERFACE·4 OURS·16 SEGMENT·2 CLASS·1 HOPS·1
//! ```
//!
//! in network order; IPv4 addresses are mapped into IPv6 (RFC 4291 §2.5.5.2). To a program, the
//! address is the sender's; without one, the port field holds an error. To the stack, it is the
//! destination's; without one, the connected peer is meant. The fields that follow are ancillary
//! data ([`Cmsg`]). Bit 0 of `SAYS`: the local address is present ([`PktInfo`]). Bit 1: the traffic
//! class is present, DSCP and congestion bits (RFC 2474, RFC 3168). `SEGMENT`, if not 0, splits the
//! payload into datagrams of this length; the last may be shorter (UDP_SEGMENT, udp(7)). Bit 2: the hop
//! limit is present.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of a header.
pub const LEN: usize = 44;
/// End of the peer's address, and start of the interface.
const THERE: usize = 20;
/// Offsets of the segment size, the traffic class and the hop limit.
const SEGMENT: usize = 40;
const CLASS: usize = 42;
const HOPS: usize = 43;
/// Flags: local address, traffic class, hop limit.
const HERE: u8 = 1;
const CLASSED: u8 = 2;
const LIMITED: u8 = 4;
/// Maximum number of datagrams in a message, as in Linux.
pub const SEGMENTS_MAX: usize = 128;
/// Maximum payload over IPv4 and over IPv6, in bytes (RFC 768, RFC 8200).
pub const PAYLOAD_MAX: [usize; 2] = [65_507, 65_527];

/// Kind and peer of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramHeader {
    /// A datagram from or to this peer.
    Peer(SocketAddr),
    /// A datagram for the connected peer.
    Connected,
    /// No datagram, but the error of an earlier one (errno(3)).
    Failed(u16),
}

/// Local end of a datagram, as in IP_PKTINFO and IPV6_PKTINFO (ip(7), ipv6(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PktInfo {
    /// Local address; unspecified if the stack chooses it.
    pub addr: IpAddr,
    /// Interface index; 0 for none.
    pub interface: u32,
}

/// Ancillary data of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cmsg {
    /// Local end.
    pub local: Option<PktInfo>,
    /// Traffic class.
    pub class: Option<u8>,
    /// Hop limit of each datagram, to the stack.
    pub hops: Option<u8>,
    /// Bytes of each datagram in the payload; 0: one datagram.
    pub segment: u16,
}

impl Cmsg {
    /// Ancillary data of the header `bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8; LEN]) -> Self {
        let says = |bit| bytes[1] & bit != 0;
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let addr = Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|byte| bytes[THERE + 4 + byte]));
        let local = PktInfo { addr: addr.to_canonical(), interface: number(THERE) };
        Self {
            local: says(HERE).then_some(local),
            class: says(CLASSED).then_some(bytes[CLASS]),
            hops: says(LIMITED).then_some(bytes[HOPS]),
            segment: u16::from_be_bytes([bytes[SEGMENT], bytes[SEGMENT + 1]]),
        }
    }
}

/// Address in IPv6 form, as in all messages (RFC 4291 §2.5.5.2).
#[must_use]
pub fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

impl DatagramHeader {
    /// Header bytes with ancillary data.
    #[must_use]
    pub fn encode_with(self, Cmsg { local, class, hops, segment }: Cmsg) -> [u8; LEN] {
        let mut bytes = self.encode();
        if let Some(class) = class {
            bytes[1] |= CLASSED;
            bytes[CLASS] = class;
        }
        if let Some(hops) = hops {
            bytes[1] |= LIMITED;
            bytes[HOPS] = hops;
        }
        if let Some(PktInfo { addr, interface }) = local {
            bytes[1] |= HERE;
            bytes[THERE..THERE + 4].copy_from_slice(&interface.to_be_bytes());
            bytes[THERE + 4..SEGMENT].copy_from_slice(&mapped(addr).octets());
        }
        bytes[SEGMENT..CLASS].copy_from_slice(&segment.to_be_bytes());
        bytes
    }

    /// Header bytes without ancillary data.
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

    /// Header at the start of `bytes`; `None` if it is malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, 0..=7, high, low, ref addr @ ..] = bytes.first_chunk::<LEN>()?.first_chunk::<THERE>()?
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
            "a failure has an error"
        );
    }

    #[test]
    fn what_is_said_beside_it_is_read_as_it_was_written() {
        let envelope = DatagramHeader::Peer("10.0.0.1:53".parse().unwrap());
        assert_eq!(Cmsg::decode(&envelope.encode()), Cmsg::default());
        for (addr, interface) in [("10.0.0.2", 3), ("fd00::2", 0), ("0.0.0.0", u32::MAX)] {
            let local = Some(PktInfo { addr: addr.parse().unwrap(), interface });
            for (local, class, segment) in [(local, None, 1200), (None, Some(0), 0), (local, Some(187), 9)] {
                let cmsg = Cmsg { local, class, hops: class.map(|class| class / 2), segment };
                let bytes = envelope.encode_with(cmsg);
                assert_eq!((DatagramHeader::decode(&bytes), Cmsg::decode(&bytes)), (Some(envelope), cmsg));
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
                (bytes[0], bytes[1]) = (kind, bytes[1] & 7);
            }
            if let Some(envelope) = DatagramHeader::decode(&bytes) {
                let cmsg = Cmsg::decode(bytes.first_chunk().unwrap());
                let again = envelope.encode_with(cmsg);
                prop_assert_eq!(&again[..THERE], &bytes[..THERE]);
                prop_assert_eq!((DatagramHeader::decode(&again), Cmsg::decode(&again)), (Some(envelope), cmsg));
            }
        }
    }
}
