//! Files that are written whole or not at all.
//!
//! Text goes to a new file beside the target and takes its name when all of it
//! is on the disk; so a full disk, or an end in the middle, leaves what was
//! there before. Devices and pipes are written to as they are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Writes `text` to `path`, whole or not at all.
///
/// # Errors
/// One line: what the kernel says, and what helps.
pub fn whole(path: &Path, text: &str) -> Result<(), Error> {
    whole_by(path, |file| file.write_all(text.as_bytes()))
}

/// As [`whole`], where `write` says what.
///
/// # Errors
/// As [`whole`]'s.
pub fn whole_by(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    replace(path, true, write).map_err(|e| {
        Error::file(path, &e).advice(match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free some of the disk, or write to another; what was there before is as it was"
            }
            _ => "a file in a folder that is there and may be written",
        })
    })
}

/// Writes `text` to `path` for whoever reads it at any time; it need not outlive the machine, and
/// nobody waits for a disk.
///
/// # Errors
/// What the kernel says.
pub fn at_once(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, false, |file| file.write_all(text.as_bytes())).map_err(|e| Error::file(path, &e))
}

fn replace(path: &Path, lasts: bool, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        // A device or a pipe keeps what it gets; a folder refuses.
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    // What a link names is what is written, not the link.
    let target = match fs::read_link(path) {
        _ if there.is_some() => path.canonicalize()?,
        Ok(names) => path.with_file_name("").join(names),
        Err(_) => path.to_owned(),
    };
    let new = beside(&target);
    let written = (|| {
        let mut file = File::create_new(&new)?;
        write(&mut file)?;
        if let Some(there) = there {
            file.set_permissions(there.permissions())?;
        }
        if lasts {
            // Some file systems find out only now that they are full.
            file.sync_all()?;
        }
        fs::rename(&new, &target)
    })();
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&new);
    }
    written
}

/// A name in the same folder that nobody else takes.
fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone afterwards.
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
            assert!(link.is_symlink(), "also one that named nothing yet");
            assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        });
    }

    #[test]
    fn what_cannot_be_written_is_said_with_its_name() {
        let said = whole("/no/such/folder/page.html".as_ref(), "x").unwrap_err().to_string();
        assert!(
            said.starts_with("error: /no/such/folder/page.html: No such file or directory\n  try: "),
            "{said}"
        );
        let full = whole("/dev/full".as_ref(), "x").unwrap_err().to_string();
        assert!(full.contains("/dev/full: No space left on device\n  try: free some"), "{full}");
    }
}
