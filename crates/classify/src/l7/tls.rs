//! Server name in a TLS ClientHello, which is not encrypted.
//!
//! The ClientHello may span records, and a record may span segments. All later bytes are encrypted
//! and belong to the same request.
//! Source: RFC 8446 §4.1.2 and §5.1, RFC 6066 §3.

use super::{HEAD_BYTES_MAX, Nonsense, RequestHead, Step, Then, bounded};

const RECORD_HEADER_BYTES: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const NAME_BYTES_MAX: usize = 255;

pub(super) fn head(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    // Common case: one record.
    let Some((first, mut used)) = record(bytes)? else { return Ok(Step::More) };
    let mut reassembled = Vec::new();
    let hello = loop {
        let so_far = if reassembled.is_empty() { first } else { &reassembled };
        match so_far {
            [] => {}
            [CLIENT_HELLO, a, b, c, body @ ..] => {
                let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if len > HEAD_BYTES_MAX {
                    return Err(Nonsense::TooLong);
                }
                if let Some(hello) = body.get(..len) {
                    break name(hello)?;
                }
            }
            [CLIENT_HELLO, ..] => {}
            _ => return Err(Nonsense::Foreign),
        }
        let Some((more, used_now)) = record(&bytes[used..])? else { return Ok(Step::More) };
        if reassembled.is_empty() {
            reassembled.extend_from_slice(first);
        }
        reassembled.extend_from_slice(more);
        used += used_now;
    };
    let used = bounded(used)?;
    visit(&RequestHead::ClientHello { name: hello });
    Ok(Step::Go { used, skip: 0, then: Then::Rest })
}

/// Content of the record at the front, and its length with the header; `None` while it is
/// incomplete.
fn record(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Nonsense> {
    let fits = |at: usize, valid: &[u8]| bytes.get(at).is_none_or(|byte| valid.contains(byte));
    if !fits(0, &[HANDSHAKE]) || !fits(1, &[3]) || !fits(2, &[0, 1, 2, 3, 4]) {
        return Err(Nonsense::Foreign);
    }
    let Some(header) = bytes.get(..RECORD_HEADER_BYTES) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if len == 0 {
        return Err(Nonsense::Length);
    }
    if len > HEAD_BYTES_MAX {
        return Err(Nonsense::TooLong);
    }
    let end = RECORD_HEADER_BYTES + len;
    Ok(bytes.get(RECORD_HEADER_BYTES..end).map(|held| (held, end)))
}

/// Server name in a ClientHello, if present.
fn name(hello: &[u8]) -> Result<Option<&[u8]>, Nonsense> {
    let mut rest = Rest(hello);
    read_to_extensions(&mut rest).ok_or(Nonsense::Length)?;
    // TLS 1.2 allows a ClientHello without extensions.
    if rest.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Rest(rest.long().ok_or(Nonsense::Length)?);
    while !extensions.0.is_empty() {
        let (kind, value) = extensions.extension().ok_or(Nonsense::Length)?;
        if kind == SERVER_NAME {
            return host(value).ok_or(Nonsense::Length);
        }
    }
    Ok(None)
}

fn read_to_extensions(rest: &mut Rest<'_>) -> Option<()> {
    // Version and random, session, cipher suites, compression methods.
    rest.take(2 + 32)?;
    rest.short()?;
    rest.long()?;
    rest.short()?;
    Some(())
}

/// First host name in the list (at most one is allowed).
fn host(value: &[u8]) -> Option<Option<&[u8]>> {
    let mut names = Rest(Rest(value).long()?);
    while !names.0.is_empty() {
        let kind = names.take(1)?[0];
        let name = names.long()?;
        if kind == HOST_NAME {
            let sound = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
            return sound.then_some(Some(name));
        }
    }
    Some(None)
}

/// Bytes not parsed yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    /// Bytes after a length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let len = self.take(1)?[0];
        self.take(len.into())
    }

    /// Bytes after a length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(len.into())
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn extension(&mut self) -> Option<(u16, &'a [u8])> {
        Some((self.number()?, self.long()?))
    }
}
