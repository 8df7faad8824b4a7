//! TCP Fast Open cookie option.
//!
//! Source: RFC 7413 §4.1.1.

/// Fast Open cookie; an empty one is a cookie request.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FastOpen {
    len: u8,
    bytes: [u8; 16],
}

impl FastOpen {
    /// Cookie request.
    pub const REQUEST: Self = Self { len: 0, bytes: [0; 16] };

    /// A cookie of 4 to 16 bytes, an even number; an empty slice gives the request.
    ///
    /// `None` for any other length.
    #[must_use]
    pub fn new(cookie: &[u8]) -> Option<Self> {
        if !(cookie.is_empty() || (4..=16).contains(&cookie.len()) && cookie.len().is_multiple_of(2)) {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..cookie.len()].copy_from_slice(cookie);
        Some(Self { len: cookie.len() as u8, bytes })
    }

    /// Bytes of the cookie.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// True for a cookie request.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Length on the wire in bytes, including leading padding: a multiple of 4.
    pub(super) const fn wire_len(&self) -> usize {
        (2 + self.len as usize).next_multiple_of(4)
    }

    /// Writes the option into the first [`FastOpen::wire_len`] bytes of `buf`.
    pub(super) fn emit(&self, buf: &mut [u8]) {
        let start = self.wire_len() - 2 - usize::from(self.len);
        buf[..start].fill(NOP);
        (buf[start], buf[start + 1]) = (KIND, 2 + self.len);
        buf[start + 2..self.wire_len()].copy_from_slice(self.as_slice());
    }
}

impl std::fmt::Debug for FastOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// Option kind.
pub(super) const KIND: u8 = 34;
const NOP: u8 = 1;
