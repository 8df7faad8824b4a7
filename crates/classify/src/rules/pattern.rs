//! Byte patterns in a payload, including the start of an HTTP request line.

/// Start of an HTTP request line. At least one of the fields is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPattern {
    /// Whole method.
    pub method: Option<String>,
    /// Prefix of the path.
    pub path: Option<String>,
}

/// Bytes at a position of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// At this offset.
    At(usize, Box<[u8]>),
    /// Directly after the first space, which must be among the first [`METHOD_LEN_MAX`] + 1 bytes.
    AfterSpace(Box<[u8]>),
}

/// Longest HTTP method, in bytes.
pub const METHOD_LEN_MAX: usize = 16;

impl Pattern {
    #[inline]
    pub fn matches(&self, payload: &[u8]) -> bool {
        match self {
            Self::At(at, bytes) => payload.get(*at..).is_some_and(|rest| rest.starts_with(bytes)),
            Self::AfterSpace(bytes) => behind_space(payload).is_some_and(|rest| rest.starts_with(bytes)),
        }
    }

    /// True if every payload that matches `other` matches this pattern.
    pub fn implied_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::At(at, bytes), Self::At(start, text)) => at
                .checked_sub(*start)
                .and_then(|skip| text.get(skip..))
                .is_some_and(|rest| rest.starts_with(bytes)),
            (Self::AfterSpace(bytes), Self::AfterSpace(text)) => text.starts_with(bytes),
            (Self::AfterSpace(bytes), Self::At(0, text)) => {
                behind_space(text).is_some_and(|rest| rest.starts_with(bytes))
            }
            _ => false,
        }
    }
}

fn behind_space(payload: &[u8]) -> Option<&[u8]> {
    let space = payload.iter().take(METHOD_LEN_MAX + 1).position(|&byte| byte == b' ')?;
    Some(&payload[space + 1..])
}
