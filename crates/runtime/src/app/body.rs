//! The part of a response that is generated while it is sent.
//!
//! A response of many megabytes to a peer that reads slowly would otherwise
//! stand in memory as a whole. Not for work: a body is written by the shard's
//! thread, between two segments of other connections.

use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What follows the bytes that [`App::serve`](super::App::serve) has appended.
///
/// The shard asks for the next bytes when the send buffer has room for them. A
/// body that panics, or writes another number of bytes, resets its connection.
pub trait Body: Send {
    /// Bytes of the whole; asked once, before the first are written.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next `len` bytes to `response`: 1 to as many as are left.
    fn write(&mut self, len: usize, response: &mut Vec<u8>);
}

/// What is left of a [`Body`].
pub struct Rest {
    body: Box<dyn Body>,
    left: usize,
}

impl Rest {
    pub(crate) fn new(body: Box<dyn Body>) -> Self {
        Self { left: body.len(), body }
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Appends the next `len` bytes to `response`; `false` when the body did not.
    pub(crate) fn write(&mut self, len: usize, response: &mut Vec<u8>) -> bool {
        let (before, body) = (response.len(), &mut self.body);
        let written = catch_unwind(AssertUnwindSafe(|| body.write(len, response)));
        self.left -= len;
        written.is_ok() && response.len() == before + len
    }
}

impl Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("left", &self.left).finish_non_exhaustive()
    }
}
