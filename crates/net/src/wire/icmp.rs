//! ICMP echo, which is all of ICMP that this stack speaks. Source: RFC 792.

use super::{Malformed, be16, checksum};

/// Bytes before the echoed payload.
pub const HEADER_LEN: usize = 8;

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
    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::BadChecksum`];
    /// [`Malformed::Unsupported`] when it is not an echo.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        if message.len() < HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        if checksum::of(message) != [0, 0] {
            return Err(Malformed::BadChecksum);
        }
        let reply = match (message[0], message[1]) {
            (8, 0) => false,
            (0, 0) => true,
            _ => return Err(Malformed::Unsupported),
        };
        Ok(Self {
            reply,
            ident: be16(message, 4),
            sequence: be16(message, 6),
            payload: &message[HEADER_LEN..],
        })
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
        let buf = &mut buf[..self.len()];
        buf[..4].copy_from_slice(&[if self.reply { 0 } else { 8 }, 0, 0, 0]);
        buf[4..6].copy_from_slice(&self.ident.to_be_bytes());
        buf[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        buf[HEADER_LEN..].copy_from_slice(self.payload);
        let sum = checksum::of(buf);
        buf[2..4].copy_from_slice(&sum);
    }
}
