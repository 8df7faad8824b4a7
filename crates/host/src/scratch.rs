//! Directory of one test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A directory of one test, removed on drop.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// A directory with `name` in its name and this mode.
    pub(crate) fn new(name: &str, mode: u32) -> Self {
        let path = std::env::temp_dir().join(format!("greenwave-files-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    /// Path of `name` in the folder.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
