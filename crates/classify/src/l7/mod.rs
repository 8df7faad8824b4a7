//! Application-protocol parsers: requests in a connection's byte stream.
//!
//! A [`StreamParser`] receives a connection's stream in pieces and reports each request to its
//! [`RequestVisitor`]: the head ([`RequestHead`]), the pieces that hold its bytes, and its end. It
//! parses just enough to find the start of the next request and buffers bytes only while a head is
//! incomplete. It trusts no input: on malformed bytes it gives up the stream and counts the reason,
//! and rules on the packet alone decide from then on. It does not validate requests as a server
//! does.
//!
//! Bounds: [`HEAD_BYTES_MAX`] for a connection with an incomplete head, [`HELD_BYTES_MAX`] for all
//! connections together. A head that arrives byte by byte is parsed again from its start at each
//! byte.
//! Source: ADPS §3, scenarios 2, 5 and 6, for existing protocols.

mod detect;
pub mod framing;
mod http;
mod memcached;
mod resp;
mod service_time;
mod stream_parser;
mod tls;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use queueing::{Priority, priority_field};

pub use framing::MessageLayout;
pub use service_time::ServiceTimeEstimator;
pub use stream_parser::{RequestVisitor, StreamParser};

/// Longest head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum number of bytes buffered for incomplete heads, over all connections that share [`Notes`].
pub const HELD_BYTES_MAX: usize = 16 << 20;
/// Longest reported key, in bytes. A verb is reported up to a quarter of it.
pub const KEY_BYTES_MAX: usize = 256;

/// Application protocol of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum L7Protocol {
    /// HTTP/1.0 and 1.1 (RFC 9112).
    Http,
    /// Redis: arrays of bulk strings, and inline commands.
    Resp,
    /// Memcached, text and binary.
    Memcached,
    /// TLS: the first record contains the server name (RFC 8446 §4.1.2, RFC 6066 §3).
    Tls,
    /// Messages framed as the policy describes.
    Message(Arc<MessageLayout>),
}

impl L7Protocol {
    /// Name of the protocol in policies.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Memcached => "memcached",
            Self::Tls => "tls",
            Self::Message(_) => "message",
        }
    }
}

/// Head of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestHead<'a> {
    /// HTTP request.
    Http {
        /// Method, as sent.
        method: &'a str,
        /// Request target, with its query.
        path: &'a str,
        /// Header fields.
        headers: &'a [httparse::Header<'a>],
    },
    /// RESP or memcached command. A missing verb or key is empty; a long one is truncated.
    Command {
        /// Verb, as sent.
        verb: &'a [u8],
        /// First argument.
        key: &'a [u8],
    },
    /// TLS connection, which is one request.
    ClientHello {
        /// Server name in the ClientHello (SNI).
        name: Option<&'a [u8]>,
    },
    /// Start of a message, up to [`MessageLayout::shown_len`] bytes.
    Message {
        /// Bytes of the message.
        bytes: &'a [u8],
    },
}

impl RequestHead<'_> {
    /// Level that the request asks for by its field `Priority` (RFC 9218), if it has one.
    #[must_use]
    pub fn asked(&self) -> Option<Priority> {
        let Self::Http { headers, .. } = self else { return None };
        let named = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(priority_field::NAME);
        priority_field::read(headers.iter().filter(named).map(|header| header.value))
    }
}

/// Longest name of a kind, in bytes.
pub const KIND_BYTES_MAX: usize = 80;

/// Requests that take about as long: the same method and first two parts of the path, the same
/// verb, or the same kind bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestKind {
    bytes: [u8; KIND_BYTES_MAX],
    len: u8,
}

impl RequestKind {
    /// Kind of `request`; `None` where a connection is one request.
    #[must_use]
    pub fn of(protocol: &L7Protocol, request: &RequestHead<'_>) -> Option<Self> {
        let mut kind = Self { bytes: [0; KIND_BYTES_MAX], len: 0 };
        match request {
            RequestHead::Http { method, path, .. } => {
                kind.push(method.bytes());
                kind.push([b' ']);
                let path = path.split(['?', '#']).next().unwrap_or_default();
                let mut ends = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
                let end = ends.nth(PATH_PARTS).unwrap_or(path.len());
                kind.push(path[..end].bytes());
            }
            RequestHead::Command { verb, .. } => kind.push(verb.iter().map(u8::to_ascii_uppercase)),
            RequestHead::Message { bytes } => match protocol {
                L7Protocol::Message(layout) => kind.push(layout.kind(bytes).iter().copied()),
                _ => return None,
            },
            RequestHead::ClientHello { .. } => return None,
        }
        Some(kind)
    }

    fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for (slot, byte) in self.bytes[usize::from(self.len)..].iter_mut().zip(bytes) {
            *slot = byte;
            self.len += 1;
        }
    }

    /// Name of the kind, at most [`KIND_BYTES_MAX`] bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// Number of parts of a path that distinguish kinds. Later parts usually name single objects.
const PATH_PARTS: usize = 2;

/// Reason for giving up a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// The bytes do not start like the protocol.
    Foreign,
    /// A head, or a line within a body, is longer than [`HEAD_BYTES_MAX`].
    TooLong,
    /// There are more headers or arguments than a server accepts.
    TooMany,
    /// A length is invalid or contradicts another.
    Length,
    /// Stream bytes were not seen: the parser started too late.
    Gap,
    /// Incomplete heads already occupy too many bytes.
    Crowded,
}

impl Nonsense {
    /// All reasons, in the order of the counters in [`Notes`].
    pub const ALL: [Self; 6] =
        [Self::Foreign, Self::TooLong, Self::TooMany, Self::Length, Self::Gap, Self::Crowded];
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Foreign => "another protocol",
            Self::TooLong => "head too long",
            Self::TooMany => "too many headers or arguments",
            Self::Length => "invalid length",
            Self::Gap => "missing bytes",
            Self::Crowded => "too many buffered bytes",
        })
    }
}

/// Counters of parsers that share a bound.
#[derive(Debug, Default)]
pub struct Notes {
    requests: AtomicU64,
    failed: [AtomicU64; Nonsense::ALL.len()],
    held: AtomicUsize,
}

impl Notes {
    /// Requests with a complete head.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Streams given up for the reason `why`.
    #[must_use]
    pub fn failed(&self, why: Nonsense) -> u64 {
        self.failed[why as usize].load(Ordering::Relaxed)
    }

    /// Bytes buffered for incomplete heads.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Result of parsing the front of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// More bytes are needed.
    More,
    /// The first `used` bytes are parsed, `skip` more bytes are not parsed, and `then` follows.
    Go { used: usize, skip: u64, then: Then },
}

/// Next element of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Head of a request.
    Head,
    /// This number of arguments of a RESP array.
    Arguments(u32),
    /// Chunk of an HTTP body.
    Chunk,
    /// Trailer section after the last chunk, up to an empty line.
    Trailers,
    /// Bytes up to the end mark of a message.
    Mark,
    /// Bytes of the same request until the connection ends.
    Rest,
}

/// Parses the element `then` at the front of the non-empty `bytes`. Calls `visit` when a request's
/// head is complete.
fn step(
    protocol: &L7Protocol,
    then: Then,
    bytes: &[u8],
    visit: &mut dyn FnMut(&RequestHead<'_>),
) -> Result<Step, Nonsense> {
    match (then, protocol) {
        (Then::Head, L7Protocol::Http) => http::head(bytes, visit),
        (Then::Head, L7Protocol::Resp) => resp::head(bytes, visit),
        (Then::Head, L7Protocol::Memcached) => memcached::head(bytes, visit),
        (Then::Head, L7Protocol::Tls) => tls::head(bytes, visit),
        (Then::Head, L7Protocol::Message(layout)) => layout.head(bytes, visit),
        (Then::Mark, L7Protocol::Message(layout)) => Ok(layout.mark(bytes)),
        (Then::Arguments(left), _) => resp::argument(bytes, left),
        (Then::Chunk, _) => http::chunk(bytes),
        (Then::Trailers, _) => http::trailer(bytes),
        (Then::Rest | Then::Mark, _) => Ok(Step::Go { used: bytes.len(), skip: 0, then }),
    }
}

/// `used`, the length of a head or of a line in a body, if it is within the bound.
fn bounded(used: usize) -> Result<usize, Nonsense> {
    if used > HEAD_BYTES_MAX { Err(Nonsense::TooLong) } else { Ok(used) }
}

/// First line of `bytes` without its line end, and its length with the line end.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// Decimal number; `None` if there is any other character.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')))
}
