//! Bytes that a payload must have, and how HTTP's first line becomes such.

/// The start of an HTTP request line; at least one of the two is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// The whole method.
    pub method: Option<String>,
    /// The start of the path.
    pub path: Option<String>,
}

/// Bytes that a payload must have, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// At this offset.
    At(usize, Box<[u8]>),
    /// Right behind the first space, which must be among the first
    /// [`METHOD_LEN_MAX`] + 1 bytes.
    AfterSpace(Box<[u8]>),
}

/// No HTTP method is longer.
pub const METHOD_LEN_MAX: usize = 16;

impl Pattern {
    #[inline]
    pub fn matches(&self, payload: &[u8]) -> bool {
        match self {
            Self::At(at, bytes) => payload.get(*at..).is_some_and(|rest| rest.starts_with(bytes)),
            Self::AfterSpace(bytes) => behind_space(payload).is_some_and(|rest| rest.starts_with(bytes)),
        }
    }

    /// Whether every payload that has `other` has this too.
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
