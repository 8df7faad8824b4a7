//! Source tree from which this program was built: artifacts built or fetched there, such as Java's
//! services, are not part of a package.

use std::path::{Path, PathBuf};

/// The path `below` in the source tree; it need not exist.
#[must_use]
pub fn path(below: &str) -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).expect("this crate is in crates/").join(below)
}
