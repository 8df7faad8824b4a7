//! Attributes of a request, recorded for tracing.

use classify::l7::RequestHead;
use httparse::Header;

/// Attributes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestAttributes {
    /// Operation, with few distinct values: a method or a verb.
    pub method: String,
    /// Path without query, at most [`PATH_MAX`] characters. Empty where requests have none, as
    /// commands of a store.
    pub path: String,
    /// Calling span, if the request belongs to a trace.
    pub parent: Option<Parent>,
}

/// Characters of a path that are recorded.
pub const PATH_MAX: usize = 128;
/// Characters of a verb that are recorded.
const VERB_MAX: usize = 32;
const TRACEPARENT: &str = "traceparent";

impl RequestAttributes {
    /// Attributes from the head of an HTTP request.
    #[must_use]
    pub fn of_http(method: &str, target: &str, headers: &[Header<'_>]) -> Self {
        let mut parents = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(TRACEPARENT));
        let parent = match (parents.next(), parents.next()) {
            (Some(one), None) => std::str::from_utf8(one.value).ok().and_then(Parent::parse),
            _ => None,
        };
        Self { method: method.to_owned(), path: shown(path(target), PATH_MAX), parent }
    }

    /// Attributes of `request`; of a command only the verb, as keys may be secrets.
    #[must_use]
    pub fn of(request: &RequestHead<'_>) -> Self {
        match request {
            RequestHead::Http { method, path, headers } => Self::of_http(method, path, headers),
            RequestHead::Command { verb, .. } => {
                let method = shown(&String::from_utf8_lossy(verb), VERB_MAX).to_ascii_uppercase();
                Self { method, ..Self::default() }
            }
            RequestHead::ClientHello { .. } | RequestHead::Message { .. } => Self::default(),
        }
    }
}

/// First `most` characters of `text` without control characters, as it is printed on terminals.
fn shown(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// Path of a request target without query; also of an absolute target.
pub(super) fn path(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    }
}

/// Parent span of a request.
/// Source: W3C Trace Context, §3.2 (`traceparent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Trace id; not 0.
    pub trace: [u8; 16],
    /// Span id of the caller; not 0.
    pub span: [u8; 8],
    /// Trace flags; bit 0: the caller may have recorded its own spans.
    pub flags: u8,
}

impl Parent {
    /// Parent in the value of a field `traceparent`; `None` if invalid. Of later versions it reads
    /// the fields that this one has.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let [version] = bytes(parts.next()?)?;
        let (trace, span) = (bytes(parts.next()?)?, bytes(parts.next()?)?);
        let [flags] = bytes(parts.next()?)?;
        let is_read = version != 0xff && (version > 0 || parts.next().is_none());
        (is_read && trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags })
    }
}

/// `N` bytes in lower-case hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |at: usize| match text.as_bytes()[at] {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        letter @ b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = digit(index * 2)? << 4 | digit(index * 2 + 1)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_traceparent_round_trips() {
        let read = |text: &str| Parent::parse(text).map(|p| (p.trace[0], p.trace[15], p.span[7], p.flags));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-01")), Some((0x0a, 0x9c, 0x31, 1)));
        assert_eq!(read(&format!(" 00-{TRACE}-{SPAN}-00\t")), Some((0x0a, 0x9c, 0x31, 0)));
        assert_eq!(read(&format!("cc-{TRACE}-{SPAN}-03-what-comes")), Some((0x0a, 0x9c, 0x31, 3)));
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("00-{}é-{SPAN}-01", &TRACE[2..]),
        ] {
            assert_eq!(Parent::parse(&text), None, "{text:?}");
        }
    }
}
