//! Temporary directory for programs of a test bed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::LabError;
use super::process::Leftovers;

/// A directory of temporary files readable by all users. It is removed on drop, or after a crash by the
/// next [`NetLab::new`](super::NetLab::new).
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// An empty directory, with `name` as a part of its name.
    ///
    /// # Errors
    /// [`LabError::Folder`] if it cannot be created.
    pub fn new(name: &str) -> Result<Self, LabError> {
        let path = env::temp_dir().join(Leftovers::name(name));
        match Leftovers::make(&path, |path| fs::create_dir(path)) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(LabError::Folder { path, source }),
        }
    }

    /// Path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file; its path.
    ///
    /// # Errors
    /// [`LabError::Folder`] if it cannot be written.
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
        // The next test bed tries again.
        let _ = fs::remove_dir_all(&self.0);
        Leftovers::removed(&self.0);
    }
}

/// Removes directories whose creator is gone.
pub(crate) fn end_leftovers() {
    Leftovers::in_folder(&env::temp_dir()).for_each(|path| drop(fs::remove_dir_all(path)));
}

/// Maximum number of attempts to remove a directory to which a process may be writing.
const TRIES: usize = 100;

/// Removes the directory at `path`.
pub(crate) fn end(path: &Path) {
    let is_gone = |_: &usize| match fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(e) => e.kind() == ErrorKind::NotFound,
    };
    let _ = (0..TRIES).find(is_gone);
}
