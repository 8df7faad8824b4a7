//! Files for programs in the laboratory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::LabError;
use super::process::Leftovers;

/// A folder of temporary files that all users may read; it is gone when this
/// is dropped, and what a crash left with the next [`NetLab::new`](super::NetLab::new).
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// An empty one; `name` tells it from others.
    ///
    /// # Errors
    /// [`LabError::Folder`] when it cannot be made.
    pub fn new(name: &str) -> Result<Self, LabError> {
        let path = env::temp_dir().join(Leftovers::name(name));
        match Leftovers::make(&path, |path| fs::create_dir(path)) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(LabError::Folder { path, source }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file; where that is.
    ///
    /// # Errors
    /// [`LabError::Folder`] when it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, LabError> {
        let path = self.0.join(name);
        match fs::write(&path, bytes) {
            Ok(()) => Ok(path),
            Err(source) => Err(LabError::Folder { path, source }),
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What cannot be removed now is tried again by the next laboratory.
        let _ = fs::remove_dir_all(&self.0);
        Leftovers::removed(&self.0);
    }
}

/// Removes folders whose maker is gone.
pub(super) fn end_leftovers() {
    Leftovers::in_folder(&env::temp_dir()).for_each(|path| drop(fs::remove_dir_all(path)));
}

/// Tries to remove a folder into which somebody may be writing.
const TRIES: usize = 100;

/// Removes the folder at `path` for good.
pub(super) fn end(path: &Path) {
    let is_gone = |_: &usize| match fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(e) => e.kind() == ErrorKind::NotFound,
    };
    let _ = (0..TRIES).find(is_gone);
}
