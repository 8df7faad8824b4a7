//! Redis's protocol: commands as arrays of bulk strings, or as a line of words.
//!
//! Keys and values may hold any bytes. Of a command the verb and its first
//! argument are looked at, the others are stepped over.
//! Source: the Redis serialization protocol specification; bounds as Redis has
//! them (`proto-max-bulk-len`, a million arguments).

use super::{KEY_BYTES_MAX, Nonsense, Request, Step, Then, bounded, digits, line};

const ARGUMENTS_MAX: u64 = 1 << 20;
const ARGUMENT_BYTES_MAX: u64 = 512 << 20;
/// Verbs are shorter.
pub(super) const VERB_BYTES_MAX: usize = KEY_BYTES_MAX / 4;
/// A number and what stands around it.
const NUMBER_BYTES_MAX: usize = 24;

pub(super) fn head(bytes: &[u8], visit: &mut dyn FnMut(&Request<'_>)) -> Result<Step, Nonsense> {
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
        visit(&Request::Command { verb: verb.shown, key: b"" });
        return Ok(Step::Go { used: verb.used, skip: verb.rest, then: after(left) });
    }
    // Its end is there as soon as anything of the next is.
    let start = verb.used + verb.rest as usize;
    let Some(key) = Argument::at(bytes, start, KEY_BYTES_MAX)? else { return Ok(Step::More) };
    visit(&Request::Command { verb: verb.shown, key: key.shown });
    Ok(Step::Go { used: key.used, skip: key.rest, then: after(left - 1) })
}

/// Steps over one of the `left` arguments that are still to come.
pub(super) fn argument(bytes: &[u8], left: u32) -> Result<Step, Nonsense> {
    let Some(argument) = Argument::at(bytes, 0, 0)? else { return Ok(Step::More) };
    Ok(Step::Go { used: argument.used, skip: argument.rest, then: after(left.saturating_sub(1)) })
}

fn after(left: u32) -> Then {
    if left == 0 { Then::Head } else { Then::Arguments(left) }
}

/// A line of words, as people type it.
fn inline(bytes: &[u8], visit: &mut dyn FnMut(&Request<'_>)) -> Result<Step, Nonsense> {
    if !bytes[0].is_ascii_graphic() && !bytes[0].is_ascii_whitespace() {
        return Err(Nonsense::Foreign);
    }
    let Some((line, used)) = line(bytes) else { return Ok(Step::More) };
    let used = bounded(used)?;
    let mut words = words(line);
    if let Some(verb) = words.next() {
        visit(&Request::Command { verb, key: words.next().unwrap_or_default() });
    }
    Ok(Step::Go { used, skip: 0, then: Then::Head })
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A bulk string: as much of it as is looked at.
struct Argument<'a> {
    shown: &'a [u8],
    /// Bytes up to the end of what is shown.
    used: usize,
    /// Bytes behind that, with the line's end.
    rest: u64,
}

impl<'a> Argument<'a> {
    /// The one at `at`, of which up to `look` bytes are looked at; `None`
    /// while they are not there.
    fn at(bytes: &'a [u8], at: usize, look: usize) -> Result<Option<Self>, Nonsense> {
        let Some(from) = bytes.get(at..) else { return Ok(None) };
        let Some((len, start)) = number(from, b'$')? else { return Ok(None) };
        let len = len.filter(|len| *len <= ARGUMENT_BYTES_MAX).ok_or(Nonsense::Length)?;
        let shown = (len as usize).min(look);
        let used = at + start + shown;
        let Some(shown_bytes) = bytes.get(at + start..used) else { return Ok(None) };
        Ok(Some(Self { shown: shown_bytes, used, rest: len - shown as u64 + 2 }))
    }

    const fn is_cut(&self) -> bool {
        self.rest > 2
    }
}

/// The number behind `sign`, none if it is negative, and the bytes of its
/// line; `None` while it is not there.
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
