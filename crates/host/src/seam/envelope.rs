//! What stands before a datagram in the pair between a program and the stack.
//!
//! A pair knows no addresses, so each message begins with 20 bytes that the
//! library adds and strips:
//!
//! ```text
//! KIND·1 0·1 PORT·2 ADDRESS·16
//! ```
//!
//! in network order; IPv4 is written as it is mapped into IPv6 (RFC 4291
//! §2.5.5.2). Towards a program the address is the peer's who sent, or there
//! is none and the port's place says what went wrong; towards the stack it is
//! the peer's who is to have it, or there is none and the one is meant with
//! whom the socket is connected.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of an envelope.
pub const LEN: usize = 20;
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

impl Envelope {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; LEN] {
        let (kind, number, addr) = match self {
            Self::Peer(peer) => {
                let ip = match peer.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                (b'P', peer.port(), ip.octets())
            }
            Self::Connected => (b'C', 0, [0; 16]),
            Self::Failed(errno) => (b'F', errno, [0; 16]),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..].copy_from_slice(&addr);
        bytes
    }

    /// What `bytes` begin with; `None` when that is no envelope.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, 0, high, low, ref addr @ ..] = bytes.first_chunk::<LEN>()? else { return None };
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

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(envelope) = Envelope::decode(&bytes) {
                prop_assert_eq!(&envelope.encode()[..], &bytes[..LEN]);
            }
        }
    }
}
