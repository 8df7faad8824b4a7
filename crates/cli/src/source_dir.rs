//! Where the project lies that this program was built from: what is built or fetched there, such as
//! Java's services, is not part of a package.

use std::path::{Path, PathBuf};

/// `below` of the project's folder; it need not be there.
#[must_use]
pub fn path(below: &str) -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).expect("this crate lies in crates/ of the project").join(below)
}
