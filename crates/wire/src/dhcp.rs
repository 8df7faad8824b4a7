//! DHCP messages, as far as a client needs them.
//!
//! Unknown options are skipped. Options in the `sname` and `file` fields (overload, RFC 2131 §4.1)
//! are not read, since no server needs that space for the options requested here.
//! Source: RFC 2131 §2, RFC 2132.

use std::net::Ipv4Addr;

use super::ethernet::Mac;
use super::{Malformed, addr, be32};

/// UDP port of the client.
pub const CLIENT_PORT: u16 = 68;
/// UDP port of the server.
pub const SERVER_PORT: u16 = 67;

/// Length before the options in bytes, including the magic cookie.
const HEADER_LEN: usize = 240;
/// Minimum length in bytes, since old relays drop shorter messages (RFC 1542 §2.1).
const LEN_MIN: usize = 300;
/// Prefix of the client identifier, before the hardware address.
const NAME: &[u8; 9] = b"greenwave";
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// DHCP message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// DHCPDISCOVER: the client looks for servers.
    Discover,
    /// DHCPOFFER: a server offers an address.
    Offer,
    /// DHCPREQUEST: the client requests an address or its extension.
    Request,
    /// DHCPDECLINE: the client refuses an address that is in use.
    Decline,
    /// DHCPACK: the server grants the address.
    Ack,
    /// DHCPNAK: the server refuses the address.
    Nak,
    /// DHCPRELEASE: the client returns the address.
    Release,
}

impl MessageType {
    const ALL: [Self; 7] =
        [Self::Discover, Self::Offer, Self::Request, Self::Decline, Self::Ack, Self::Nak, Self::Release];

    const fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// DHCP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Message type.
    pub kind: MessageType,
    /// Transaction id, common to requests and replies.
    pub transaction: u32,
    /// Seconds since the client began.
    pub seconds: u16,
    /// True if the reply must be broadcast, since the client cannot receive unicast yet.
    pub broadcast: bool,
    /// Client address, once it has one (`ciaddr`).
    pub client: Ipv4Addr,
    /// Address offered or granted (`yiaddr`).
    pub yours: Ipv4Addr,
    /// Hardware address of the client.
    pub mac: Mac,
    /// Address requested by the client.
    pub requested: Option<Ipv4Addr>,
    /// Server identifier.
    pub server: Option<Ipv4Addr>,
    /// Prefix length of the network, 0..=32.
    pub prefix: Option<u8>,
    /// Default router.
    pub router: Option<Ipv4Addr>,
    /// Lease time in seconds; all ones for infinity.
    pub lease_s: Option<u32>,
    /// Renewal time T1 in seconds, after which the client contacts its server.
    pub renew_s: Option<u32>,
    /// Rebinding time T2 in seconds, after which the client contacts any server.
    pub rebind_s: Option<u32>,
}

impl Message {
    /// A client message without options.
    #[must_use]
    pub const fn new(kind: MessageType, transaction: u32, mac: Mac) -> Self {
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

    /// Parses a message.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadOption`]; [`Malformed::Unsupported`] if it is not
    /// DHCP over Ethernet.
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
            ..Self::new(MessageType::Discover, be32(header, 4), mac)
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

    fn take(&mut self, code: u8, value: &[u8], kind: &mut Option<MessageType>) -> Result<(), Malformed> {
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
                *kind = MessageType::ALL.into_iter().find(|kind| kind.number() == number);
            }
            54 => self.server = Some(addr()?),
            58 => self.renew_s = Some(word()?),
            59 => self.rebind_s = Some(word()?),
            _ => {}
        }
        Ok(())
    }

    /// Appends the message to the empty `buf`.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let to_client = matches!(self.kind, MessageType::Offer | MessageType::Ack | MessageType::Nak);
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
            // Client identifier (RFC 2132 §9.14), distinct from that of a host with the same
            // hardware address.
            buf.extend([61, 16, 0]);
            buf.extend(NAME);
            buf.extend(self.mac);
            // Parameter request list: mask, router, lease time, T1, T2.
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
            kind in prop::sample::select(MessageType::ALL.to_vec()),
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
            Message { prefix: Some(24), ..Message::new(MessageType::Ack, 1, [2; 6]) }.emit(&mut bytes);
            bytes[at] = to;
            let _ = Message::parse(&bytes[..len]);
        }
    }
}
