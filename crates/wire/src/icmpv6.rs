//! ICMP for IPv6: echo and error messages, with access to neighbour and listener discovery.
//!
//! The latter are parsed in `ndp` and `mld`.
//! Source: RFC 4443.

use std::net::Ipv6Addr;

use super::checksum::Checksum;
use super::icmp::{Cause, EchoMessage, HEADER_LEN, IcmpError};
use super::{Malformed, be32, mld, ndp};

const PROTOCOL: u8 = 58;

/// Received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Echo request or reply.
    Echo(EchoMessage<'a>),
    /// Error about a packet that was not delivered.
    Error(IcmpError<'a>),
    /// Neighbour discovery message.
    Ndp(ndp::Message<'a>),
    /// Multicast listener query.
    Query(mld::Query),
}

impl<'a> Message<'a> {
    /// Parses a message sent from `source` to `target`.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadChecksum`]; those of
    /// [`ndp::Message::parse`] and [`mld::Query::parse`]; [`Malformed::Unsupported`] for other types.
    pub fn parse(message: &'a [u8], source: Ipv6Addr, target: Ipv6Addr) -> Result<Self, Malformed> {
        if message.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if Checksum::pseudo(source, target, PROTOCOL, message.len()).with(message).finish() != [0, 0] {
            return Err(Malformed::BadChecksum);
        }
        let cause = match (message[0], message[1]) {
            (128, 0) => return Ok(Self::Echo(EchoMessage::read(false, message))),
            (129, 0) => return Ok(Self::Echo(EchoMessage::read(true, message))),
            (130, _) => return mld::Query::parse(message).map(Self::Query),
            (133..=137, 0) => return ndp::Message::parse(message).map(Self::Ndp),
            (1, 1 | 5 | 6) => Cause::Prohibited,
            (1, 4) => Cause::Port,
            (1, 0) => Cause::Network,
            (1, _) => Cause::Unreachable,
            (2, _) => Cause::TooBig { mtu: be32(message, 4) },
            (3, 0) => Cause::Hops,
            (3, 1) => Cause::Reassembly,
            (4, 1) => Cause::Protocol,
            (4, _) => Cause::Parameter,
            _ => return Err(Malformed::Unsupported),
        };
        Ok(Self::Error(IcmpError { cause, quoted: &message[HEADER_LEN..] }))
    }
}

/// Maximum length of an error in bytes: its packet fits the minimum MTU (RFC 4443 §2.4 c).
pub const ERROR_LEN_MAX: usize = 1280 - 40;

/// Appends the error to the empty `buf`.
pub fn emit_error(error: &IcmpError<'_>, source: Ipv6Addr, target: Ipv6Addr, buf: &mut Vec<u8>) {
    let (kind, code, word) = match error.cause {
        Cause::Network => (1, 0, 0),
        Cause::Unreachable => (1, 3, 0),
        Cause::Prohibited => (1, 1, 0),
        Cause::Port => (1, 4, 0),
        Cause::TooBig { mtu } => (2, 0, mtu),
        Cause::Hops => (3, 0, 0),
        Cause::Reassembly => (3, 1, 0),
        Cause::Parameter => (4, 0, 0),
        // The pointer gives the offset of the next-header field in the fixed header.
        Cause::Protocol => (4, 1, 6),
    };
    buf.extend([kind, code, 0, 0]);
    buf.extend(u32::to_be_bytes(word));
    buf.extend(&error.quoted[..error.quoted.len().min(ERROR_LEN_MAX - HEADER_LEN)]);
    finish_checksum(buf, source, target);
}

/// Writes `echo` into the first [`EchoMessage::len`] bytes of `buf`.
///
/// # Panics
/// If `buf` is shorter.
pub fn emit_echo(echo: &EchoMessage<'_>, source: Ipv6Addr, target: Ipv6Addr, buf: &mut [u8]) {
    let buf = &mut buf[..echo.len()];
    echo.write(if echo.reply { 129 } else { 128 }, buf);
    finish_checksum(buf, source, target);
}

/// Writes the checksum of the whole `message`, whose checksum field is zero.
///
/// # Panics
/// If `message` is shorter than 4 bytes.
pub fn finish_checksum(message: &mut [u8], source: Ipv6Addr, target: Ipv6Addr) {
    let sum = Checksum::pseudo(source, target, PROTOCOL, message.len()).with(message).finish();
    message[2..4].copy_from_slice(&sum);
}
