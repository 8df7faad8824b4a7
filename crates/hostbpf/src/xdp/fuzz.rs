//! Body of a fuzz target: a reply of the kernel's about an interface.

use super::query::{kind_in, program_in};

/// No panic; the result is taken from the reply.
pub fn links(data: &[u8]) {
    assert_ne!(program_in(data), Some(0), "program 0 is none");
    if let Some(kind) = kind_in(data) {
        assert!(data.as_ptr_range().contains(&kind.as_ptr()) || kind.is_empty());
    }
}
