//! Memcached protocols: text lines, some followed by a data block, and the old binary protocol. The
//! first byte of each request distinguishes them.
//!
//! Source: memcached's doc/protocol.txt and its binary protocol.

use super::resp::words;
use super::{KEY_BYTES_MAX, Nonsense, RequestHead, Step, Then, bounded, digits, line};

/// Longest data block: the largest possible item size.
const DATA_BYTES_MAX: u64 = 1 << 30;
/// First byte of a binary request.
const BINARY: u8 = 0x80;
const BINARY_HEADER_BYTES: usize = 24;

pub(super) fn head(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    match bytes[0] {
        BINARY => binary(bytes, visit),
        first if first.is_ascii_graphic() || first.is_ascii_whitespace() => text(bytes, visit),
        _ => Err(Nonsense::Foreign),
    }
}

fn text(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    let Some((line, used)) = line(bytes) else { return Ok(Step::More) };
    let used = bounded(used)?;
    let mut words = words(line);
    let Some(verb) = words.next() else { return Ok(Step::Go { used, skip: 0, then: Then::Head }) };
    let key = words.next().unwrap_or_default();
    // Index of the length among the words after verb and key.
    let length_at = match verb {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some(2),
        b"ms" => Some(0),
        _ => None,
    };
    let skip = match length_at {
        None => 0,
        Some(at) => {
            let length = words.nth(at).and_then(digits).filter(|length| *length <= DATA_BYTES_MAX);
            length.ok_or(Nonsense::Length)? + 2
        }
    };
    visit(&RequestHead::Command { verb, key });
    Ok(Step::Go { used, skip, then: Then::Head })
}

fn binary(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    let Some(header) = bytes.get(..BINARY_HEADER_BYTES) else { return Ok(Step::More) };
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras = usize::from(header[4]);
    let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let start = BINARY_HEADER_BYTES + extras;
    if ((extras + key_len) as u64) > u64::from(body) || u64::from(body) > DATA_BYTES_MAX {
        return Err(Nonsense::Length);
    }
    let used = start + key_len.min(KEY_BYTES_MAX);
    let Some(key) = bytes.get(start..used) else { return Ok(Step::More) };
    visit(&RequestHead::Command { verb: verb(header[1]), key });
    let skip = BINARY_HEADER_BYTES as u64 + u64::from(body) - used as u64;
    Ok(Step::Go { used, skip, then: Then::Head })
}

/// Name in the text protocol of a binary operation; quiet variants have the same name.
fn verb(operation: u8) -> &'static [u8] {
    match operation {
        0x00 | 0x09 | 0x0c | 0x0d => b"get",
        0x01 | 0x11 => b"set",
        0x02 | 0x12 => b"add",
        0x03 | 0x13 => b"replace",
        0x04 | 0x14 => b"delete",
        0x05 | 0x15 => b"incr",
        0x06 | 0x16 => b"decr",
        0x07 | 0x17 => b"quit",
        0x08 | 0x18 => b"flush_all",
        0x0a => b"noop",
        0x0b => b"version",
        0x0e | 0x19 => b"append",
        0x0f | 0x1a => b"prepend",
        0x10 => b"stats",
        0x1b => b"verbosity",
        0x1c => b"touch",
        0x1d | 0x1e => b"gat",
        _ => b"other",
    }
}
