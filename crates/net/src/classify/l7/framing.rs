//! Messages of an operator's own protocol: where their length stands, or which
//! bytes end them. Scenario 5 for whoever can say that much.

use super::{HEAD_BYTES_MAX, Nonsense, Request, Step, Then};

/// How messages follow each other on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How far a message reaches.
    pub extent: FrameLength,
    /// Where the bytes are that tell kinds of messages apart: offset and
    /// count, 1..=8.
    pub kind: (usize, usize),
    /// Bytes from a message's start that are looked at, 1..=[`LOOK_BYTES_MAX`].
    pub look: usize,
}

/// How far a message reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameLength {
    /// A number says it, big-endian.
    Length {
        /// Offset of its first byte.
        at: usize,
        /// Its bytes, 1..=8.
        bytes: usize,
        /// Bytes of the message that it does not count.
        adds: u64,
    },
    /// It ends with these bytes, 1..=[`MARK_BYTES_MAX`].
    Mark(Box<[u8]>),
}

/// Most bytes of a message that may be looked at.
pub const LOOK_BYTES_MAX: usize = 1024;
/// The longest mark.
pub const MARK_BYTES_MAX: usize = 16;
/// The longest message, in bytes: a terabyte.
const MESSAGE_BYTES_MAX: u64 = 1 << 40;
const _: () = assert!(LOOK_BYTES_MAX + MARK_BYTES_MAX < HEAD_BYTES_MAX);

impl Layout {
    pub(super) fn kind<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        let (at, count) = self.kind;
        let behind = message.get(at..).unwrap_or_default();
        &behind[..count.min(behind.len())]
    }

    pub(super) fn head(&self, bytes: &[u8], visit: &mut dyn FnMut(&Request<'_>)) -> Result<Step, Nonsense> {
        match &self.extent {
            FrameLength::Length { at, bytes: count, adds } => {
                let end = at + count;
                let Some(field) = bytes.get(*at..end) else { return Ok(Step::More) };
                let length = field.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
                let total = length.checked_add(*adds).filter(|total| *total <= MESSAGE_BYTES_MAX);
                let total = total.filter(|total| *total >= end as u64).ok_or(Nonsense::Length)?;
                let used = total.min(self.look.max(end) as u64) as usize;
                let Some(shown) = bytes.get(..used) else { return Ok(Step::More) };
                visit(&Request::Message { bytes: shown });
                Ok(Step::Go { used, skip: total - used as u64, then: Then::Head })
            }
            FrameLength::Mark(mark) => {
                if let Some(end) = find(bytes, mark, self.look) {
                    visit(&Request::Message { bytes: &bytes[..end] });
                    return Ok(Step::Go { used: end + mark.len(), skip: 0, then: Then::Head });
                }
                if bytes.len() < self.look + mark.len() {
                    return Ok(Step::More);
                }
                visit(&Request::Message { bytes: &bytes[..self.look] });
                Ok(Step::Go { used: self.look, skip: 0, then: Then::Mark })
            }
        }
    }

    /// Looks for the mark; what cannot be part of it is done with.
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

/// Where `mark` starts, if that is within the first `look` bytes.
fn find(bytes: &[u8], mark: &[u8], look: usize) -> Option<usize> {
    let end = bytes.len().min(look.saturating_add(mark.len()));
    bytes[..end].windows(mark.len()).position(|window| window == mark)
}
