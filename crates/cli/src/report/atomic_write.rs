//! Atomic file writes: a file is written whole or not at all.
//!
//! Text goes to a new file beside the target, which replaces the target once all of it is on disk.
//! A full disk or a crash leaves the old content. Devices and pipes are written directly.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use host::files::replace;

use crate::error::Error;

/// Writes `text` to `path` atomically.
///
/// # Errors
/// One line: the kernel's error and advice.
pub fn whole(path: &Path, text: &str) -> Result<(), Error> {
    whole_by(path, |file| file.write_all(text.as_bytes()))
}

/// As [`whole`], with the content from `write`.
///
/// # Errors
/// The errors of [`whole`].
pub fn whole_by(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    replace(path, true, write).map_err(|e| match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::file(path, &e)
            .advice("free some disk space, or write to another disk; the old file is unchanged"),
        _ => Error::unwritable(path, &e),
    })
}

/// Writes `text` to `path` atomically for concurrent readers, without waiting for the disk; the
/// content need not survive a crash of the machine.
///
/// # Errors
/// The kernel's error.
pub fn at_once(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, false, |file| file.write_all(text.as_bytes())).map_err(|e| Error::file(path, &e))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs `test` in a temporary folder.
    fn in_folder(name: &str, test: impl FnOnce(&Path)) {
        let folder = std::env::temp_dir().join(format!("greenwave-save-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        test(&folder);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_gets_its_new_text_and_nothing_lies_beside_it() {
        in_folder("new", |folder| {
            let path = folder.join("page.html");
            whole(&path, "one").unwrap();
            whole(&path, "two").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "two");
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        });
    }

    #[test]
    fn a_link_stays_one() {
        in_folder("link", |folder| {
            let (file, link) = (folder.join("file"), folder.join("link"));
            fs::write(&file, "one").unwrap();
            std::os::unix::fs::symlink(&file, &link).unwrap();
            whole(&link, "two").unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read_to_string(&file).unwrap(), "two");
            fs::remove_file(&file).unwrap();
            whole(&link, "three").unwrap();
            assert!(link.is_symlink(), "a dangling link also stays");
            assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        });
    }

    #[test]
    fn an_error_names_the_file_that_cannot_be_written() {
        let error = whole("/no/such/folder/page.html".as_ref(), "x").unwrap_err().to_string();
        assert!(
            error.starts_with("error: /no/such/folder/page.html: No such file or directory\n  try: "),
            "{error}"
        );
        let full = whole("/dev/full".as_ref(), "x").unwrap_err().to_string();
        assert!(full.contains("/dev/full: No space left on device\n  try: free some"), "{full}");
    }
}
