//! A file for a test.

use std::path::PathBuf;

/// A file that is gone when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// With `text`; tests that run side by side give it different names.
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
