//! Layout of the 64 private bytes of a connection (M5).
//!
//! | bytes | owner |
//! |---|---|
//! | 0..16 | the shipped classifiers: the current request ([`CurrentRequest`]) |
//! | 16..64 | the application and its own classifiers, in a layout of their own |
//!
//! All zeros, the state of a new connection, means *at the start of a request*.

use std::ops::Range;

use queueing::Span;

use super::Private;

/// Offset of the first byte of the application's part.
pub const APPLICATION: usize = 16;

/// The application's 48 bytes, read-only.
#[must_use]
pub fn application(private: &Private) -> &[u8] {
    &private[APPLICATION..]
}

/// The application's 48 bytes, writable.
pub fn application_mut(private: &mut Private) -> &mut [u8] {
    &mut private[APPLICATION..]
}

/// Number of request kinds whose expected service time fits into the application's bytes.
pub const KINDS: usize = (64 - APPLICATION) / 4;

/// Publishes the expected service time of `kind`, in ns and at most 4.29 s. The application's bytes
/// then hold one little-endian `u32` per kind (scenario 6).
///
/// # Errors
/// Returns the kind if it is outside `0..KINDS`.
pub fn publish(private: &mut Private, kind: u8, expected: Span) -> Result<(), u8> {
    let word = range_of(kind).ok_or(kind)?;
    let ns = u32::try_from(expected.as_nanos()).unwrap_or(u32::MAX).max(1);
    private[word].copy_from_slice(&ns.to_le_bytes());
    Ok(())
}

/// Expected service time of `kind`; `None` before the first [`publish`].
#[must_use]
pub fn expected(private: &Private, kind: u8) -> Option<Span> {
    let word = private[range_of(kind)?].try_into().expect("a word is four bytes");
    match u32::from_le_bytes(word) {
        0 => None,
        ns => Some(Span::from_nanos(ns.into())),
    }
}

fn range_of(kind: u8) -> Option<Range<usize>> {
    let at = APPLICATION + 4 * usize::from(kind);
    (usize::from(kind) < KINDS).then_some(at..at + 4)
}

/// Request that a connection is receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurrentRequest {
    /// Bytes of the request received so far; 0 between requests. (bytes 0..4)
    pub position: u32,
    /// Length of the request, from the bytes of its length field received so far. (bytes 4..8)
    pub length: u32,
    /// Offset of the next stream byte, modulo 2³². (bytes 8..12)
    pub next: u32,
    /// Level in the request's header; [`CurrentRequest::NO_LEVEL`] before that byte arrives. (byte
    /// 12, stored plus one)
    pub level: u8,
    /// True if the bytes could not be parsed as requests. (byte 13)
    pub lost: bool,
}

impl CurrentRequest {
    /// Value of `level` before the header's level byte has arrived.
    pub const NO_LEVEL: u8 = u8::MAX;

    /// Decodes the request from a connection's private bytes.
    #[must_use]
    pub fn load(private: &Private) -> Self {
        let word =
            |at: usize| u32::from_le_bytes([private[at], private[at + 1], private[at + 2], private[at + 3]]);
        Self {
            position: word(0),
            length: word(4),
            next: word(8),
            level: private[12].wrapping_sub(1),
            lost: private[13] != 0,
        }
    }

    /// Encodes the request into a connection's private bytes; the application's part is unchanged.
    pub fn store(&self, private: &mut Private) {
        private[..4].copy_from_slice(&self.position.to_le_bytes());
        private[4..8].copy_from_slice(&self.length.to_le_bytes());
        private[8..12].copy_from_slice(&self.next.to_le_bytes());
        private[12] = self.level.wrapping_add(1);
        private[13] = self.lost.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_the_start_of_a_request() {
        let start = CurrentRequest { level: CurrentRequest::NO_LEVEL, ..CurrentRequest::default() };
        assert_eq!(CurrentRequest::load(&[0; 64]), start);
    }

    //~ classifiers: scenario 6: service times published in the private area count for that connection
    #[test]
    fn published_times_read_back_and_leave_the_classifiers_bytes_alone() {
        let mut private = [0; 64];
        assert_eq!(expected(&private, 11), None);
        assert_eq!(publish(&mut private, 11, Span::from_micros(70)), Ok(()));
        assert_eq!(publish(&mut private, 0, Span::MAX), Ok(()));
        assert_eq!(publish(&mut private, 12, Span::ZERO), Err(12), "twelve kinds fit");
        assert_eq!(expected(&private, 11), Some(Span::from_micros(70)));
        assert_eq!(expected(&private, 0), Some(Span::from_nanos(u32::MAX.into())));
        assert_eq!(expected(&private, 255), None);
        assert_eq!(private[..APPLICATION], [0; APPLICATION]);
    }

    #[test]
    fn the_current_request_leaves_the_applications_bytes_alone() {
        let mut private = [0xee; 64];
        let current =
            CurrentRequest { position: 1, length: 0x0203_0405, next: u32::MAX, level: 7, lost: true };
        current.store(&mut private);
        assert_eq!(CurrentRequest::load(&private), current);
        assert_eq!(application(&private), [0xee; 48]);
        application_mut(&mut private).fill(0);
        assert_eq!(CurrentRequest::load(&private), current);
    }
}
