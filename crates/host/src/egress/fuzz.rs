//! Body of a fuzz target: notes of an egress as any program may have left them.

use super::attachment::{EgressAttachment, NOTES_LEN};

/// No panic; notes that are read are written the same, where they fit.
pub(crate) fn notes(data: &[u8]) {
    let Ok(notes) = EgressAttachment::read(data) else { return };
    let _ = (notes.name(), notes.before());
    if let Ok(bytes) = notes.bytes() {
        assert_eq!(bytes.len(), NOTES_LEN);
        assert_eq!(EgressAttachment::read(&bytes).ok(), Some(notes));
    }
}
