//! A temporary file of a test.

use std::path::PathBuf;

/// A file that is removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A file with `text`; concurrent tests need different names.
    pub fn new(name: &str, text: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("the folder for test files is writable");
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path of ours is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
