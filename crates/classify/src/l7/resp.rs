//! Redis protocol (RESP): commands as arrays of bulk strings, or as inline lines.
//!
//! Keys and values may hold any bytes. The verb and the first argument of a command are parsed, the
//! other arguments are skipped.
//! Source: the Redis serialization protocol specification; the bounds are those of Redis
//! (`proto-max-bulk-len`, a million arguments).

use super::{KEY_BYTES_MAX, Nonsense, RequestHead, Step, Then, bounded, digits, line};

const ARGUMENTS_MAX: u64 = 1 << 20;
const ARGUMENT_BYTES_MAX: u64 = 512 << 20;
/// Longest reported verb, in bytes.
pub(super) const VERB_BYTES_MAX: usize = KEY_BYTES_MAX / 4;
/// Longest line with a number: sign, digits and line end.
const NUMBER_BYTES_MAX: usize = 24;

pub(super) fn head(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    if bytes[0] != b'*' {
        return inline(bytes, visit);
    }
    let Some((count, at)) = number(bytes, b'*')? else { return Ok(Step::More) };
    let Some(count) = count.filter(|count| *count > 0) else {
        return Ok(Step::Go { used: at, skip: 0, then: Then::Head });
    };
    if count > ARGUMENTS_MAX {
        return Err(Nonsense::TooMany);
    }
    let left = count as u32 - 1;
    let Some(verb) = Argument::at(bytes, at, VERB_BYTES_MAX)? else { return Ok(Step::More) };
    if left == 0 || verb.is_cut() {
        visit(&RequestHead::Command { verb: verb.shown, key: b"" });
        return Ok(Step::Go { used: verb.used, skip: verb.rest, then: after(left) });
    }
    // The verb is complete as soon as any byte of the next argument is there.
    let start = verb.used + verb.rest as usize;
    let Some(key) = Argument::at(bytes, start, KEY_BYTES_MAX)? else { return Ok(Step::More) };
    visit(&RequestHead::Command { verb: verb.shown, key: key.shown });
    Ok(Step::Go { used: key.used, skip: key.rest, then: after(left - 1) })
}

/// Skips one of the `left` remaining arguments.
pub(super) fn argument(bytes: &[u8], left: u32) -> Result<Step, Nonsense> {
    let Some(argument) = Argument::at(bytes, 0, 0)? else { return Ok(Step::More) };
    Ok(Step::Go { used: argument.used, skip: argument.rest, then: after(left.saturating_sub(1)) })
}

fn after(left: u32) -> Then {
    if left == 0 { Then::Head } else { Then::Arguments(left) }
}

/// Inline command: words in a line, as typed by a person.
fn inline(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    if !bytes[0].is_ascii_graphic() && !bytes[0].is_ascii_whitespace() {
        return Err(Nonsense::Foreign);
    }
    let Some((line, used)) = line(bytes) else { return Ok(Step::More) };
    let used = bounded(used)?;
    let mut words = words(line);
    if let Some(verb) = words.next() {
        visit(&RequestHead::Command { verb, key: words.next().unwrap_or_default() });
    }
    Ok(Step::Go { used, skip: 0, then: Then::Head })
}

/// Words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Bulk string, parsed up to a limit.
struct Argument<'a> {
    shown: &'a [u8],
    /// Bytes up to the end of `shown`.
    used: usize,
    /// Bytes after that, including the line end.
    rest: u64,
}

impl<'a> Argument<'a> {
    /// Argument at offset `at`, of which up to `shown_max` bytes are shown; `None` while they are
    /// incomplete.
    fn at(bytes: &'a [u8], at: usize, shown_max: usize) -> Result<Option<Self>, Nonsense> {
        let Some(from) = bytes.get(at..) else { return Ok(None) };
        let Some((len, start)) = number(from, b'$')? else { return Ok(None) };
        let len = len.filter(|len| *len <= ARGUMENT_BYTES_MAX).ok_or(Nonsense::Length)?;
        let shown = (len as usize).min(shown_max);
        let used = at + start + shown;
        let Some(argument_bytes) = bytes.get(at + start..used) else { return Ok(None) };
        Ok(Some(Self { shown: argument_bytes, used, rest: len - shown as u64 + 2 }))
    }

    const fn is_cut(&self) -> bool {
        self.rest > 2
    }
}

/// Number after `sign` (`None` if negative) and the length of its line; `None` while the line is
/// incomplete.
fn number(bytes: &[u8], sign: u8) -> Result<Option<(Option<u64>, usize)>, Nonsense> {
    match bytes.first() {
        None => return Ok(None),
        Some(first) if *first != sign => return Err(Nonsense::Foreign),
        Some(_) => {}
    }
    match line(&bytes[..bytes.len().min(NUMBER_BYTES_MAX)]) {
        Some((text, used)) => match (digits(&text[1..]), text.get(1)) {
            (None, Some(b'-')) if digits(&text[2..]).is_some() => Ok(Some((None, used))),
            (None, _) => Err(Nonsense::Length),
            (number, _) => Ok(Some((number, used))),
        },
        None if bytes.len() >= NUMBER_BYTES_MAX => Err(Nonsense::Length),
        None => Ok(None),
    }
}
