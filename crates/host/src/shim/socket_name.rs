//! What our end of a socket pair is called.
//!
//! The kernel keeps the name as long as the pair lives, in whichever process
//! the other end is, after fork, exec, dup, or a trip through another socket:
//! `getpeername` of that end says it. So the library in the program needs no
//! table of descriptors that could be wrong.
//!
//! 107 bytes behind the NUL of an abstract name (unix(7)), all printable, so
//! that `/proc/net/unix` shows what is what:
//!
//! ```text
//! greenwave RUN·8 KIND·1 FAMILY·1 ID·16 ADDRESS·32 PORT·4 ADDRESS·32 PORT·4
//! ```
//!
//! in hexadecimal where it is a number; the first address is ours, the second
//! the peer's; IPv4 is written as it is mapped into IPv6 (RFC 4291 §2.5.5.2).

use std::net::{Ipv6Addr, SocketAddr};

use super::datagram_header::mapped;

/// A socket of ours, as the program's end tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Which `greenwave run` it belongs to.
    pub run: u32,
    /// What it stands for.
    pub kind: Kind,
    /// The program's socket speaks IPv6: it is told IPv4 addresses as mapped ones.
    pub six: bool,
    /// A connection's number, a listener's, or that of a socket for datagrams.
    pub id: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's; of what is no connection nobody's.
    pub remote: SocketAddr,
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections come out of it; bound, it perhaps does not listen yet.
    Listener,
    /// A connection that it accepted.
    Connection,
    /// A connection that it opened, perhaps in its handshake.
    Opened,
    /// Datagrams go in and out, each behind its [`DatagramHeader`](super::Envelope).
    Datagrams,
}

impl Kind {
    const ALL: [(Self, u8); 4] =
        [(Self::Listener, b'L'), (Self::Connection, b'C'), (Self::Opened, b'O'), (Self::Datagrams, b'D')];

    fn letter(self) -> u8 {
        let known = Self::ALL.into_iter().find(|(kind, _)| *kind == self);
        known.expect("every kind has its letter").1
    }

    fn of_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == letter).map(|(kind, _)| kind)
    }
}

/// Length of a name in bytes.
pub const LEN: usize = 107;
const MARK: &[u8; 9] = b"greenwave";

impl Name {
    /// As the kernel keeps it.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let mut at = 0;
        put(&mut bytes, &mut at, MARK);
        put_hex(&mut bytes, &mut at, &self.run.to_be_bytes());
        put(&mut bytes, &mut at, &[self.kind.letter()]);
        put(&mut bytes, &mut at, if self.six { b"6" } else { b"4" });
        put_hex(&mut bytes, &mut at, &self.id.to_be_bytes());
        for end in [self.local, self.remote] {
            put_hex(&mut bytes, &mut at, &mapped(end.ip()).octets());
            put_hex(&mut bytes, &mut at, &end.port().to_be_bytes());
        }
        assert_eq!(at, LEN, "a name is as long as it says");
        bytes
    }

    /// What `bytes` say; `None` when they are no name of ours.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (run, kind, six, id, mut rest) = Self::decode_head(bytes)?;
        let mut end = || {
            let addr = Ipv6Addr::from(take_hex::<16>(&mut rest)?);
            let port = u16::from_be_bytes(take_hex(&mut rest)?);
            Some(SocketAddr::new(addr.to_canonical(), port))
        };
        Some(Self { run, kind, six, id, local: end()?, remote: end()? })
    }

    /// `run` and `id` of a connection, of the fields that [`decode`](Self::decode) gives.
    #[must_use]
    pub fn decode_number(bytes: &[u8]) -> Option<(u32, u64)> {
        let (run, kind, _, id, _) = Self::decode_head(bytes)?;
        matches!(kind, Kind::Connection | Kind::Opened).then_some((run, id))
    }

    /// Fields before the addresses, and the rest.
    fn decode_head(bytes: &[u8]) -> Option<(u32, Kind, bool, u64, &[u8])> {
        let mut rest = bytes.strip_prefix(MARK)?;
        if bytes.len() != LEN {
            return None;
        }
        let run = u32::from_be_bytes(take_hex(&mut rest)?);
        let (&[letter, family], tail) = rest.split_first_chunk()?;
        rest = tail;
        let kind = Kind::of_letter(letter)?;
        let six = match family {
            b'4' => false,
            b'6' => true,
            _ => return None,
        };
        let id = u64::from_be_bytes(take_hex(&mut rest)?);
        Some((run, kind, six, id, rest))
    }
}

fn put(bytes: &mut [u8], at: &mut usize, what: &[u8]) {
    bytes[*at..*at + what.len()].copy_from_slice(what);
    *at += what.len();
}

fn put_hex(bytes: &mut [u8], at: &mut usize, what: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in what {
        put(bytes, at, &[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn take_hex<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_at_checked(2 * N)?;
    *rest = tail;
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(head.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::net::IpAddr;

    use super::*;

    fn end() -> impl Strategy<Value = SocketAddr> {
        let addr = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).to_canonical()),
        ];
        (addr, any::<u16>()).prop_map(SocketAddr::from)
    }

    proptest! {
        #[test]
        fn names_read_as_they_are_written(
            run in any::<u32>(), id in any::<u64>(), kind in 0..Kind::ALL.len(), six in any::<bool>(),
            local in end(), remote in end(),
        ) {
            let kind = Kind::ALL[kind].0;
            let name = Name { run, kind, six, id, local, remote };
            prop_assert_eq!(Name::decode(&name.encode()), Some(name));
            let has_outbox = matches!(kind, Kind::Connection | Kind::Opened);
            prop_assert_eq!(Name::decode_number(&name.encode()), has_outbox.then_some((run, id)));
            prop_assert!(name.encode().iter().all(u8::is_ascii_graphic));
        }

        #[test]
        fn other_names_are_not_ours(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_eq!(Name::decode(&bytes), None);
        }
    }

    #[test]
    fn a_name_with_a_byte_of_something_else_is_none() {
        let end = "10.0.0.1:80".parse().unwrap();
        let bytes =
            Name { run: 1, kind: Kind::Listener, six: false, id: 2, local: end, remote: end }.encode();
        for at in 0..LEN {
            let mut other = bytes;
            other[at] = b'~';
            assert_eq!(Name::decode(&other), None, "byte {at}");
        }
    }
}
