//! What the requests on a connection say, read from its bytes.
//!
//! A [`StreamParser`] is given a connection's stream piece by piece and tells its
//! [`RequestVisitor`]or of every request: what its head says ([`Request`]), which pieces
//! its bytes were in, and where it ended. It reads just enough to know where
//! the next request starts, keeps bytes only while a head is split, and
//! believes nothing: a stream that is not what it should be is given up, with
//! the reason counted, and what knows only the packet decides about it from
//! then on. It checks no server's work: what a server would refuse may pass.
//!
//! Bounds: [`HEAD_BYTES_MAX`] of a connection whose head is split, and
//! [`HELD_BYTES_MAX`] of all connections together. A peer that sends a head
//! byte by byte has what came before it read again at each byte.
//! Source: ADPS §3, scenarios 2, 5 and 6, for protocols that exist.

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

pub use framing::Layout;
pub use service_time::ServiceTimeEstimator;
pub use stream_parser::{RequestVisitor, StreamParser};

/// The longest head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Bytes of split heads that wait for their rest, of all connections that
/// share [`Notes`].
pub const HELD_BYTES_MAX: usize = 16 << 20;
/// As much of a key as is shown, and of a verb a quarter of it.
pub const KEY_BYTES_MAX: usize = 256;

/// What a connection speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and 1.1 (RFC 9112).
    Http,
    /// The protocol of Redis: arrays of bulk strings, and inline commands.
    Resp,
    /// Memcached's, text and binary.
    Memcached,
    /// TLS: the first record names the server (RFC 8446 §4.1.2, RFC 6066 §3).
    Tls,
    /// Messages that an operator has described.
    Message(Arc<Layout>),
}

impl Protocol {
    /// As policies write it.
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

/// What a request's head says.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Of HTTP.
    Http {
        /// As it was sent.
        method: &'a str,
        /// The request's target, with its query.
        path: &'a str,
        /// Names and values.
        headers: &'a [httparse::Header<'a>],
    },
    /// Of RESP and memcached; empty where there is none, and cut where it is
    /// longer than is shown.
    Command {
        /// As it was sent.
        verb: &'a [u8],
        /// The first argument.
        key: &'a [u8],
    },
    /// A whole connection of TLS.
    Tls {
        /// The server that the client asked for.
        name: Option<&'a [u8]>,
    },
    /// The start of a message, as much of it as [`Layout::look`] asks for.
    Message {
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// Bytes that a kind's name takes at the most.
pub const KIND_BYTES_MAX: usize = 80;

/// What a request has in common with others that take about as long: method
/// and the first two parts of the path, the verb, or the bytes that tell
/// messages apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    bytes: [u8; KIND_BYTES_MAX],
    len: u8,
}

impl Kind {
    /// The kind of `request`; none where a connection is one request.
    #[must_use]
    pub fn of(protocol: &Protocol, request: &Request<'_>) -> Option<Self> {
        let mut kind = Self { bytes: [0; KIND_BYTES_MAX], len: 0 };
        match request {
            Request::Http { method, path, .. } => {
                kind.push(method.bytes());
                kind.push([b' ']);
                let path = path.split(['?', '#']).next().unwrap_or_default();
                let mut ends = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
                let end = ends.nth(PATH_PARTS).unwrap_or(path.len());
                kind.push(path[..end].bytes());
            }
            Request::Command { verb, .. } => kind.push(verb.iter().map(u8::to_ascii_uppercase)),
            Request::Message { bytes } => match protocol {
                Protocol::Message(layout) => kind.push(layout.kind(bytes).iter().copied()),
                _ => return None,
            },
            Request::Tls { .. } => return None,
        }
        Some(kind)
    }

    fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for (place, byte) in self.bytes[usize::from(self.len)..].iter_mut().zip(bytes) {
            *place = byte;
            self.len += 1;
        }
    }

    /// Its bytes, at most [`KIND_BYTES_MAX`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// Parts of a path that tell kinds of requests apart: behind them come names
/// of single things.
const PATH_PARTS: usize = 2;

/// Why a stream was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// It does not start as the protocol does.
    Foreign,
    /// A head, or a line within a body, is longer than [`HEAD_BYTES_MAX`].
    TooLong,
    /// There are more headers, or arguments, than a server would take.
    TooMany,
    /// What it says of a length is no length, or contradicts itself.
    Length,
    /// Bytes are missing: whoever asked first did not ask us.
    Gap,
    /// Too many bytes of split heads wait already.
    Crowded,
}

impl Nonsense {
    /// All, in the order in which [`Notes`] counts them.
    pub const ALL: [Self; 6] =
        [Self::Foreign, Self::TooLong, Self::TooMany, Self::Length, Self::Gap, Self::Crowded];
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Foreign => "another protocol",
            Self::TooLong => "a head too long",
            Self::TooMany => "too many headers or arguments",
            Self::Length => "a length that is none",
            Self::Gap => "bytes missed",
            Self::Crowded => "too much waiting",
        })
    }
}

/// What readers that share a bound have come across.
#[derive(Debug, Default)]
pub struct Notes {
    requests: AtomicU64,
    given_up: [AtomicU64; Nonsense::ALL.len()],
    held: AtomicUsize,
}

impl Notes {
    /// Requests whose heads were read.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Streams that were given up for this reason.
    #[must_use]
    pub fn given_up(&self, why: Nonsense) -> u64 {
        self.given_up[why as usize].load(Ordering::Relaxed)
    }

    /// Bytes that wait for the rest of their head.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// What the bytes at the front of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing yet: there must be more of them.
    More,
    /// The first `used` are done with; `skip` more concern nobody, and then
    /// comes `then`.
    Go { used: usize, skip: u64, then: Then },
}

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// A request's head.
    Head,
    /// So many arguments of a RESP array.
    Arguments(u32),
    /// A chunk of an HTTP body.
    Chunk,
    /// What follows the last chunk, up to an empty line.
    Trailers,
    /// Bytes up to the mark that ends a message.
    Mark,
    /// More of the same request, for good.
    Rest,
}

/// Reads what `then` says from the front of `bytes`, which are not none; tells
/// `visit` of the request whose head is there.
fn step(
    protocol: &Protocol,
    then: Then,
    bytes: &[u8],
    visit: &mut dyn FnMut(&Request<'_>),
) -> Result<Step, Nonsense> {
    match (then, protocol) {
        (Then::Head, Protocol::Http) => http::head(bytes, visit),
        (Then::Head, Protocol::Resp) => resp::head(bytes, visit),
        (Then::Head, Protocol::Memcached) => memcached::head(bytes, visit),
        (Then::Head, Protocol::Tls) => tls::head(bytes, visit),
        (Then::Head, Protocol::Message(layout)) => layout.head(bytes, visit),
        (Then::Mark, Protocol::Message(layout)) => Ok(layout.mark(bytes)),
        (Then::Arguments(left), _) => resp::argument(bytes, left),
        (Then::Chunk, _) => http::chunk(bytes),
        (Then::Trailers, _) => http::trailer(bytes),
        (Then::Rest | Then::Mark, _) => Ok(Step::Go { used: bytes.len(), skip: 0, then }),
    }
}

/// A head, or a line within a body, that takes `used` bytes.
fn bounded(used: usize) -> Result<usize, Nonsense> {
    if used > HEAD_BYTES_MAX { Err(Nonsense::TooLong) } else { Ok(used) }
}

/// The line at the front of `bytes`, without its end, and the bytes that it
/// takes with it.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// A number in decimal digits, and nothing else.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')))
}
