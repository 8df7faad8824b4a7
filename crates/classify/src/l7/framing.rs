//! Framing of custom messages, by a length field or an end mark (scenario 5).

use super::{HEAD_BYTES_MAX, Nonsense, RequestHead, Step, Then};

/// Framing of the messages on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageLayout {
    /// Rule that gives a message's length.
    pub extent: FrameLength,
    /// Offset and count (1..=8) of the bytes that distinguish kinds of messages.
    pub kind: (usize, usize),
    /// Bytes reported from a message's start, 1..=[`LOOK_BYTES_MAX`].
    pub shown_len: usize,
}

/// Rule that gives a message's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameLength {
    /// Big-endian length field.
    Length {
        /// Offset of the first byte of the field.
        at: usize,
        /// Size of the field in bytes, 1..=8.
        bytes: usize,
        /// Bytes of the message that the field does not count.
        adds: u64,
    },
    /// End mark, 1..=[`MARK_BYTES_MAX`] bytes.
    Mark(Box<[u8]>),
}

/// Maximum number of bytes of a message that a rule may read.
pub const LOOK_BYTES_MAX: usize = 1024;
/// Longest end mark, in bytes.
pub const MARK_BYTES_MAX: usize = 16;
/// Longest message, in bytes: 1 TiB.
const MESSAGE_BYTES_MAX: u64 = 1 << 40;
const _: () = assert!(LOOK_BYTES_MAX + MARK_BYTES_MAX < HEAD_BYTES_MAX);

impl MessageLayout {
    pub(super) fn kind<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        let (at, count) = self.kind;
        let rest = message.get(at..).unwrap_or_default();
        &rest[..count.min(rest.len())]
    }

    pub(super) fn head(
        &self,
        bytes: &[u8],
        visit: &mut dyn FnMut(&RequestHead<'_>),
    ) -> Result<Step, Nonsense> {
        match &self.extent {
            FrameLength::Length { at, bytes: count, adds } => {
                let end = at + count;
                let Some(field) = bytes.get(*at..end) else { return Ok(Step::More) };
                let length = field.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
                let total = length.checked_add(*adds).filter(|total| *total <= MESSAGE_BYTES_MAX);
                let total = total.filter(|total| *total >= end as u64).ok_or(Nonsense::Length)?;
                let used = total.min(self.shown_len.max(end) as u64) as usize;
                let Some(visible) = bytes.get(..used) else { return Ok(Step::More) };
                visit(&RequestHead::Message { bytes: visible });
                Ok(Step::Go { used, skip: total - used as u64, then: Then::Head })
            }
            FrameLength::Mark(mark) => {
                if let Some(end) = find(bytes, mark, self.shown_len) {
                    visit(&RequestHead::Message { bytes: &bytes[..end] });
                    return Ok(Step::Go { used: end + mark.len(), skip: 0, then: Then::Head });
                }
                if bytes.len() < self.shown_len + mark.len() {
                    return Ok(Step::More);
                }
                visit(&RequestHead::Message { bytes: &bytes[..self.shown_len] });
                Ok(Step::Go { used: self.shown_len, skip: 0, then: Then::Mark })
            }
        }
    }

    /// Searches for the end mark; bytes that cannot be part of it are used up.
    pub(super) fn mark(&self, bytes: &[u8]) -> Step {
        let FrameLength::Mark(mark) = &self.extent else {
            return Step::Go { used: 0, skip: 0, then: Then::Head };
        };
        if let Some(end) = find(bytes, mark, bytes.len()) {
            return Step::Go { used: end + mark.len(), skip: 0, then: Then::Head };
        }
        match (bytes.len() + 1).saturating_sub(mark.len()) {
            0 => Step::More,
            used => Step::Go { used, skip: 0, then: Then::Mark },
        }
    }
}

/// Offset of `mark` if it starts within the first `shown_len` bytes.
fn find(bytes: &[u8], mark: &[u8], shown_len: usize) -> Option<usize> {
    let end = bytes.len().min(shown_len.saturating_add(mark.len()));
    bytes[..end].windows(mark.len()).position(|window| window == mark)
}
