//! ICMP for IPv4: echo and errors; the words for both versions' errors.
//! Source: RFC 792, 1122 §3.2.2, 1191 §4.

use super::{Malformed, be16, checksum};

/// Bytes before the echoed payload, or before what an error quotes.
pub const HEADER_LEN: usize = 8;

/// A message of either version, neighbour discovery apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A ping or its answer.
    Echo(Echo<'a>),
    /// A packet did not get where it should.
    Error(Error<'a>),
}

/// A packet did not get where it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// Why.
    pub cause: Cause,
    /// The start of that packet.
    pub quoted: &'a [u8],
}

/// Why a packet did not get where it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody listens on the port.
    Port,
    /// The host does not speak the protocol.
    Protocol,
    /// Someone forbids it.
    Prohibited,
    /// No way to the host's network, perhaps for now only.
    Network,
    /// No way to the host, likewise.
    Unreachable,
    /// It is larger than a link on the way takes; 0 where the router does not say.
    TooBig {
        /// What that link takes, in bytes.
        mtu: u32,
    },
    /// It took too many hops.
    Hops,
    /// Not all its pieces came in time.
    Reassembly,
    /// A header field makes no sense to someone.
    Parameter,
}

impl Cause {
    /// Whether trying again is of no use (RFC 1122 §4.2.3.9).
    #[must_use]
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::Port | Self::Protocol | Self::Prohibited)
    }

    /// Type and code for IPv4, and what stands in the second word.
    const fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::Network => (3, 0, 0),
            Self::Unreachable => (3, 1, 0),
            Self::Protocol => (3, 2, 0),
            Self::Port => (3, 3, 0),
            Self::TooBig { mtu } => (3, 4, mtu),
            Self::Prohibited => (3, 13, 0),
            Self::Hops => (11, 0, 0),
            Self::Reassembly => (11, 1, 0),
            Self::Parameter => (12, 0, 0),
        }
    }
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadChecksum`];
    /// [`Malformed::Unsupported`] when it is neither an echo nor an error.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        if message.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if checksum::of(message) != [0, 0] {
            return Err(Malformed::BadChecksum);
        }
        let cause = match (message[0], message[1]) {
            (8, 0) => return Ok(Self::Echo(Echo::read(false, message))),
            (0, 0) => return Ok(Self::Echo(Echo::read(true, message))),
            (3, 2) => Cause::Protocol,
            (3, 3) => Cause::Port,
            (3, 4) => Cause::TooBig { mtu: be16(message, 6).into() },
            (3, 0 | 6 | 11) => Cause::Network,
            (3, 9 | 10 | 13..=15) => Cause::Prohibited,
            (3, 0..=15) => Cause::Unreachable,
            (11, 0) => Cause::Hops,
            (11, 1) => Cause::Reassembly,
            (12, 0..=2) => Cause::Parameter,
            _ => return Err(Malformed::Unsupported),
        };
        Ok(Self::Error(Error { cause, quoted: &message[HEADER_LEN..] }))
    }
}

impl Error<'_> {
    /// Bytes of the largest error: what it quotes fits 576 bytes in all (RFC 1812 §4.3.2.3).
    pub const LEN_MAX: usize = 576 - 20;

    /// Appends the message to `buf`, which is empty, with as much of the
    /// quoted packet as may be sent back.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let (kind, code, word) = self.cause.v4();
        buf.extend([kind, code, 0, 0]);
        buf.extend(word.to_be_bytes());
        buf.extend(&self.quoted[..self.quoted.len().min(Self::LEN_MAX - HEADER_LEN)]);
        let sum = checksum::of(buf);
        buf[2..4].copy_from_slice(&sum);
    }
}

/// An echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Whether this is the answer.
    pub reply: bool,
    /// Which ping it belongs to.
    pub ident: u16,
    /// Its number within the ping.
    pub sequence: u16,
    /// What comes back unchanged.
    pub payload: &'a [u8],
}

impl<'a> Echo<'a> {
    /// Reads a message that is an echo.
    ///
    /// # Errors
    /// As [`Message::parse`]; [`Malformed::Unsupported`] when it is something else.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        match Message::parse(message)? {
            Message::Echo(echo) => Ok(echo),
            Message::Error(_) => Err(Malformed::Unsupported),
        }
    }

    /// What stands behind type, code and checksum of `message`.
    pub(super) fn read(reply: bool, message: &'a [u8]) -> Self {
        let (ident, sequence) = (be16(message, 4), be16(message, 6));
        Self { reply, ident, sequence, payload: &message[HEADER_LEN..] }
    }

    /// Bytes that [`Echo::emit`] writes.
    #[must_use]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    /// Never: there is always a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message into the first [`Echo::len`] bytes of `buf`.
    ///
    /// # Panics
    /// When `buf` is shorter than that.
    pub fn emit(&self, buf: &mut [u8]) {
        self.write(if self.reply { 0 } else { 8 }, buf);
        let sum = checksum::of(&buf[..self.len()]);
        buf[2..4].copy_from_slice(&sum);
    }

    /// Writes the message with a checksum of zero.
    pub(super) fn write(&self, kind: u8, buf: &mut [u8]) {
        let buf = &mut buf[..self.len()];
        buf[..4].copy_from_slice(&[kind, 0, 0, 0]);
        buf[4..6].copy_from_slice(&self.ident.to_be_bytes());
        buf[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        buf[HEADER_LEN..].copy_from_slice(self.payload);
    }
}
