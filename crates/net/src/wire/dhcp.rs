//! DHCP messages, as far as a client needs them.
//!
//! Unknown options are stepped over; options that continue in the fields of
//! old (RFC 2131 §4.1, overload) are not looked for, since no server needs
//! that room for what is asked here. Source: RFC 2131 §2, RFC 2132.

use std::net::Ipv4Addr;

use super::ethernet::Mac;
use super::{Malformed, addr, be32};

/// The client's port.
pub const CLIENT_PORT: u16 = 68;
/// The server's port.
pub const SERVER_PORT: u16 = 67;

/// Bytes before the options, the cookie included.
const HEADER_LEN: usize = 240;
/// Old relays drop what is shorter (RFC 1542 §2.1).
const LEN_MIN: usize = 300;
/// What a client calls itself, before its hardware address.
const NAME: &[u8; 9] = b"greenwave";
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Which servers are there?
    Discover,
    /// A server would lend an address.
    Offer,
    /// The client asks for an address, or to keep it.
    Request,
    /// The client does not take it: someone has it.
    Decline,
    /// It has it.
    Ack,
    /// It cannot have it.
    Nak,
    /// The client gives it back.
    Release,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Discover, Self::Offer, Self::Request, Self::Decline, Self::Ack, Self::Nak, Self::Release];

    const fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Ties answers to questions.
    pub transaction: u32,
    /// Seconds since the client began.
    pub seconds: u16,
    /// The answer must be sent to everybody, since the client hears nothing else yet.
    pub broadcast: bool,
    /// The client's address, once it has one.
    pub client: Ipv4Addr,
    /// The address that is lent.
    pub yours: Ipv4Addr,
    /// The client's hardware address.
    pub mac: Mac,
    /// The address that the client would like.
    pub requested: Option<Ipv4Addr>,
    /// Who lends it.
    pub server: Option<Ipv4Addr>,
    /// Bits of the network's prefix, 0..=32.
    pub prefix: Option<u8>,
    /// The way out.
    pub router: Option<Ipv4Addr>,
    /// Seconds for which it is lent; all ones for ever.
    pub lease_s: Option<u32>,
    /// Seconds after which to ask the lender (T1).
    pub renew_s: Option<u32>,
    /// Seconds after which to ask anyone (T2).
    pub rebind_s: Option<u32>,
}

impl Message {
    /// A message of a client with nothing to say but this.
    #[must_use]
    pub const fn new(kind: Kind, transaction: u32, mac: Mac) -> Self {
        Self {
            kind,
            transaction,
            seconds: 0,
            broadcast: false,
            client: Ipv4Addr::UNSPECIFIED,
            yours: Ipv4Addr::UNSPECIFIED,
            mac,
            requested: None,
            server: None,
            prefix: None,
            router: None,
            lease_s: None,
            renew_s: None,
            rebind_s: None,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadOption`];
    /// [`Malformed::Unsupported`] when it is no DHCP over Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (header, options) = bytes.split_at_checked(HEADER_LEN).ok_or(Malformed::Truncated)?;
        if header[1..3] != [1, 6] || header[236..] != COOKIE {
            return Err(Malformed::Unsupported);
        }
        let mac = [header[28], header[29], header[30], header[31], header[32], header[33]];
        let mut message = Self {
            seconds: u16::from_be_bytes([header[8], header[9]]),
            broadcast: header[10] & 0x80 != 0,
            client: addr(header, 12),
            yours: addr(header, 16),
            ..Self::new(Kind::Discover, be32(header, 4), mac)
        };
        let (mut kind, mut rest) = (None, options);
        loop {
            rest = match *rest {
                [] | [255, ..] => break,
                [0, ref rest @ ..] => rest,
                [code, len, ref rest @ ..] => {
                    let (value, rest) =
                        rest.split_at_checked(usize::from(len)).ok_or(Malformed::BadOption)?;
                    message.take(code, value, &mut kind)?;
                    rest
                }
                [_] => return Err(Malformed::BadOption),
            };
        }
        message.kind = kind.ok_or(Malformed::Unsupported)?;
        Ok(message)
    }

    fn take(&mut self, code: u8, value: &[u8], kind: &mut Option<Kind>) -> Result<(), Malformed> {
        let word = || value.first_chunk().map(|word| u32::from_be_bytes(*word)).ok_or(Malformed::BadOption);
        let addr = || word().map(Ipv4Addr::from_bits);
        match code {
            1 => {
                let mask = word()?;
                if mask.count_zeros() != mask.trailing_zeros() {
                    return Err(Malformed::BadOption);
                }
                self.prefix = Some(mask.count_ones() as u8);
            }
            3 => self.router = Some(addr()?),
            50 => self.requested = Some(addr()?),
            51 => self.lease_s = Some(word()?),
            53 => {
                let number = *value.first().ok_or(Malformed::BadOption)?;
                *kind = Kind::ALL.into_iter().find(|kind| kind.number() == number);
            }
            54 => self.server = Some(addr()?),
            58 => self.renew_s = Some(word()?),
            59 => self.rebind_s = Some(word()?),
            _ => {}
        }
        Ok(())
    }

    /// Appends the message to `buf`, which is empty.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let to_client = matches!(self.kind, Kind::Offer | Kind::Ack | Kind::Nak);
        buf.extend([if to_client { 2 } else { 1 }, 1, 6, 0]);
        buf.extend(self.transaction.to_be_bytes());
        buf.extend(self.seconds.to_be_bytes());
        buf.extend([if self.broadcast { 0x80 } else { 0 }, 0]);
        buf.extend(self.client.octets());
        buf.extend(self.yours.octets());
        buf.extend([0; 8]);
        buf.extend(self.mac);
        buf.resize(236, 0);
        buf.extend(COOKIE);
        buf.extend([53, 1, self.kind.number()]);
        let mask = self.prefix.map(|len| u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0));
        let words = [
            (1, mask),
            (3, self.router.map(Ipv4Addr::to_bits)),
            (50, self.requested.map(Ipv4Addr::to_bits)),
            (51, self.lease_s),
            (54, self.server.map(Ipv4Addr::to_bits)),
            (58, self.renew_s),
            (59, self.rebind_s),
        ];
        for (code, word) in words {
            if let Some(word) = word {
                buf.extend([code, 4]);
                buf.extend(word.to_be_bytes());
            }
        }
        if !to_client {
            // Who we are (RFC 2132 §9.14), apart from a host with the same hardware address.
            buf.extend([61, 16, 0]);
            buf.extend(NAME);
            buf.extend(self.mac);
            // We would like to know mask, router, lease and its two thirds.
            buf.extend([55, 5, 1, 3, 51, 58, 59]);
        }
        buf.push(255);
        buf.resize(buf.len().max(LEN_MIN), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Option<u32>> {
        any::<Option<u32>>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn messages_round_trip(
            kind in prop::sample::select(Kind::ALL.to_vec()),
            head in any::<(u32, u16, bool, u32, u32, [u8; 6])>(),
            words in (word(), word(), word(), word(), word(), word()),
            prefix in prop::option::of(0u8..=32),
        ) {
            let (transaction, seconds, broadcast, client, yours, mac) = head;
            let (requested, server, router, lease_s, renew_s, rebind_s) = words;
            let message = Message {
                seconds,
                broadcast,
                client: client.into(),
                yours: yours.into(),
                requested: requested.map(Into::into),
                server: server.map(Into::into),
                router: router.map(Into::into),
                prefix,
                lease_s,
                renew_s,
                rebind_s,
                ..Message::new(kind, transaction, mac)
            };
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            prop_assert_eq!(Message::parse(&bytes), Ok(message));
        }

        #[test]
        fn damaged_messages_never_panic(at in 0usize..300, to in any::<u8>(), len in 0usize..=300) {
            let mut bytes = Vec::new();
            Message { prefix: Some(24), ..Message::new(Kind::Ack, 1, [2; 6]) }.emit(&mut bytes);
            bytes[at] = to;
            let _ = Message::parse(&bytes[..len]);
        }
    }
}
