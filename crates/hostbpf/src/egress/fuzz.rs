//! Body of a fuzz target: egress metadata with arbitrary contents.

use super::attachment::{EgressAttachment, NOTES_LEN};

/// No panic; metadata that is read is written the same, if it fits.
pub(crate) fn notes(data: &[u8]) {
    let Ok(notes) = EgressAttachment::read(data) else { return };
    let _ = (notes.name(), notes.before());
    if let Ok(bytes) = notes.bytes() {
        assert_eq!(bytes.len(), NOTES_LEN);
        assert_eq!(EgressAttachment::read(&bytes).ok(), Some(notes));
    }
}
