//! ICMP for IPv4: echo and error messages, and the error type of both versions.
//!
//! Source: RFC 792, 1122 §3.2.2, 1191 §4.

use super::{Malformed, be16, checksum};

/// Length in bytes before the echo payload or the quoted packet.
pub const HEADER_LEN: usize = 8;

/// ICMP message of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Echo request or reply.
    Echo(EchoMessage<'a>),
    /// Error about a packet that was not delivered.
    Error(IcmpError<'a>),
}

/// Error about a packet that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError<'a> {
    /// Cause of the error.
    pub cause: Cause,
    /// Start of the packet.
    pub quoted: &'a [u8],
}

/// Cause of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Port unreachable: no socket on the port.
    Port,
    /// Protocol unreachable: the host does not support the protocol.
    Protocol,
    /// Administratively prohibited.
    Prohibited,
    /// Network unreachable, perhaps only for now.
    Network,
    /// Host unreachable, perhaps only for now.
    Unreachable,
    /// Packet too big for a link of the path (fragmentation needed).
    TooBig {
        /// MTU of that link in bytes; 0 if the router does not report it.
        mtu: u32,
    },
    /// Hop limit exceeded.
    Hops,
    /// Reassembly time exceeded: fragments are missing.
    Reassembly,
    /// Parameter problem: invalid header field.
    Parameter,
}

impl Cause {
    /// True for a hard error, for which a retry is useless (RFC 1122 §4.2.3.9).
    #[must_use]
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::Port | Self::Protocol | Self::Prohibited)
    }

    /// Type, code and second word for IPv4.
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
    /// Parses a message.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadChecksum`]; [`Malformed::Unsupported`] if it is
    /// neither echo nor error.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        if message.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if checksum::of(message) != [0, 0] {
            return Err(Malformed::BadChecksum);
        }
        let cause = match (message[0], message[1]) {
            (8, 0) => return Ok(Self::Echo(EchoMessage::read(false, message))),
            (0, 0) => return Ok(Self::Echo(EchoMessage::read(true, message))),
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
        Ok(Self::Error(IcmpError { cause, quoted: &message[HEADER_LEN..] }))
    }
}

impl IcmpError<'_> {
    /// Maximum length of an error in bytes: its packet fits 576 bytes (RFC 1812 §4.3.2.3).
    pub const LEN_MAX: usize = 576 - 20;

    /// Appends the message to the empty `buf`, with as much of the quoted packet as is allowed.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let (kind, code, word) = self.cause.v4();
        buf.extend([kind, code, 0, 0]);
        buf.extend(word.to_be_bytes());
        buf.extend(&self.quoted[..self.quoted.len().min(Self::LEN_MAX - HEADER_LEN)]);
        let sum = checksum::of(buf);
        buf[2..4].copy_from_slice(&sum);
    }
}

/// Echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoMessage<'a> {
    /// True for a reply.
    pub reply: bool,
    /// Identifier.
    pub ident: u16,
    /// Sequence number.
    pub sequence: u16,
    /// Payload, returned unchanged in the reply.
    pub payload: &'a [u8],
}

impl<'a> EchoMessage<'a> {
    /// Parses an echo message.
    ///
    /// # Errors
    /// The errors of [`Message::parse`]; [`Malformed::Unsupported`] for other messages.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        match Message::parse(message)? {
            Message::Echo(echo) => Ok(echo),
            Message::Error(_) => Err(Malformed::Unsupported),
        }
    }

    /// Fields behind type, code and checksum of `message`.
    pub(super) fn read(reply: bool, message: &'a [u8]) -> Self {
        let (ident, sequence) = (be16(message, 4), be16(message, 6));
        Self { reply, ident, sequence, payload: &message[HEADER_LEN..] }
    }

    /// Length written by [`EchoMessage::emit`], in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    /// Always false: the header is never empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message into the first [`EchoMessage::len`] bytes of `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter.
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
