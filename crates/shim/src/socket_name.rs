//! Name of the stack's end of a socket pair, which identifies the program's socket.
//!
//! The kernel keeps the name as long as the pair. `getpeername` at the program's end returns it in
//! any process, after fork, exec, dup or descriptor passing, so the library needs no descriptor
//! table.
//!
//! It is 107 bytes after the NUL of an abstract name (unix(7)), all printable for `/proc/net/unix`:
//!
//! ```text
//! greenwave RUN·8 KIND·1 FAMILY·1 ID·16 ADDRESS·32 PORT·4 ADDRESS·32 PORT·4
//! ```
//!
//! Numbers are in hexadecimal. The first address is local, the second the peer's; IPv4 addresses
//! are mapped into IPv6 (RFC 4291 §2.5.5.2).
//! the peer's; IPv4 is written as it is mapped into IPv6 (RFC 4291 §2.5.5.2).

use std::net::{Ipv6Addr, SocketAddr};

use super::datagram_header::mapped;

/// Identity of a stack socket, read at the program's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Number of its `greenwave run`.
    pub run: u32,
    /// Kind of socket.
    pub kind: SocketKind,
    /// IPv6 socket: it shows IPv4 addresses as mapped ones.
    pub six: bool,
    /// Number of the connection, listener or UDP socket.
    pub id: u64,
    /// Local address.
    pub local: SocketAddr,
    /// Peer's address; unspecified if it is no connection.
    pub remote: SocketAddr,
}

/// Kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A bound socket that may listen.
    Listener,
    /// An accepted connection.
    Connection,
    /// A connection that the program opened; its handshake may be pending.
    Opened,
    /// A UDP socket, whose messages have a [`DatagramHeader`](super::DatagramHeader).
    Datagrams,
}

/// First number of connections between two programs of one `greenwave run`, above the stack's.
pub const BETWEEN: u64 = 0x3fff_ffff << 32;

impl Name {
    /// True if it is a connection between two programs: its socket pair is between them, without
    /// the stack.
    #[must_use]
    pub fn is_between(&self) -> bool {
        matches!(self.kind, SocketKind::Connection | SocketKind::Opened) && self.id >= BETWEEN
    }
}

impl SocketKind {
    const ALL: [(Self, u8); 4] =
        [(Self::Listener, b'L'), (Self::Connection, b'C'), (Self::Opened, b'O'), (Self::Datagrams, b'D')];

    fn letter(self) -> u8 {
        let known = Self::ALL.into_iter().find(|(kind, _)| *kind == self);
        known.expect("every kind has a letter").1
    }

    fn of_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == letter).map(|(kind, _)| kind)
    }
}

/// Length of a name in bytes.
pub const LEN: usize = 107;
const MARK: &[u8; 9] = b"greenwave";

impl Name {
    /// Encoded name.
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
        assert_eq!(at, LEN, "a name has 107 bytes");
        bytes
    }

    /// Decodes a name; `None` if `bytes` have another format.
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

    /// Fields `run` and `id` of a connection's name, as in [`decode`](Self::decode).
    #[must_use]
    pub fn decode_number(bytes: &[u8]) -> Option<(u32, u64)> {
        let (run, kind, _, id, _) = Self::decode_head(bytes)?;
        matches!(kind, SocketKind::Connection | SocketKind::Opened).then_some((run, id))
    }

    /// Fields before the addresses, and the remaining bytes.
    fn decode_head(bytes: &[u8]) -> Option<(u32, SocketKind, bool, u64, &[u8])> {
        let mut rest = bytes.strip_prefix(MARK)?;
        if bytes.len() != LEN {
            return None;
        }
        let run = u32::from_be_bytes(take_hex(&mut rest)?);
        let (&[letter, family], tail) = rest.split_first_chunk()?;
        rest = tail;
        let kind = SocketKind::of_letter(letter)?;
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
            run in any::<u32>(), id in any::<u64>(), kind in 0..SocketKind::ALL.len(), six in any::<bool>(),
            local in end(), remote in end(),
        ) {
            let kind = SocketKind::ALL[kind].0;
            let name = Name { run, kind, six, id, local, remote };
            prop_assert_eq!(Name::decode(&name.encode()), Some(name));
            let has_outbox = matches!(kind, SocketKind::Connection | SocketKind::Opened);
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
            Name { run: 1, kind: SocketKind::Listener, six: false, id: 2, local: end, remote: end }.encode();
        for at in 0..LEN {
            let mut other = bytes;
            other[at] = b'~';
            assert_eq!(Name::decode(&other), None, "byte {at}");
        }
    }
}
