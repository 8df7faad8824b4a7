//! Directory for run-time files that no other user can change.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{EntryPath, Untrusted, is_regular, is_shared};

/// A directory owned by this user or root and not writable by others.
#[derive(Debug)]
pub struct Folder {
    folder: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// The directory at `path`, created with mode 0700 if absent.
    ///
    /// # Errors
    /// [`Untrusted`], or the kernel's error.
    pub fn create(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // Parent directories are created as by `mkdir -p`; only this one is checked.
            std::fs::create_dir_all(parent)?;
        }
        let entry = EntryPath::of(path)?;
        match mkdirat(&entry.folder, &entry.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open(path),
            Err(e) => Err(e.into()),
        }
    }

    /// The directory at `path`.
    ///
    /// # Errors
    /// [`Untrusted`], or the kernel's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let entry = EntryPath::of(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&entry.folder, &entry.name, flags, Mode::empty())?;
        let stat = fstat(&folder)?;
        owned(&stat)?;
        if is_shared(&stat) {
            let what = format!("writable by other users (mode {:o})", stat.st_mode & 0o7777);
            let advice =
                format!("another folder, or chmod go-w {} if you own all files in it", path.display());
            return Err(Untrusted::error(what, advice));
        }
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new file `name` with mode 0600.
    ///
    /// # Errors
    /// The file exists, or the kernel's error.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Opens file `name` for reading.
    ///
    /// # Errors
    /// [`Untrusted`] unless it is a regular file of this user or root with one link, or the kernel's error.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let advice = || format!("rm {}, if it is not needed", self.path.join(name).display());
        let file = openat(&self.folder, name, flags, Mode::empty()).map_err(|e| match e {
            Errno::LOOP => Untrusted::error("it is a link", advice()),
            Errno::NXIO => Untrusted::error("it is not a regular file", advice()),
            e => e.into(),
        })?;
        let stat = fstat(&file)?;
        owned(&stat)?;
        if !is_regular(&stat) || stat.st_nlink > 1 || is_shared(&stat) {
            let what = "it is not a regular file with one link and without write permission for others";
            return Err(Untrusted::error(what, advice()));
        }
        Ok(file.into())
    }

    /// Text of file `name`.
    ///
    /// # Errors
    /// The errors of [`open_file`](Self::open_file); text that is not UTF-8.
    pub fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.open_file(name)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Renames file `old` to `new`, and replaces a file there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        Ok(renameat(&self.folder, old, &self.folder, new)?)
    }

    /// Removes file `name`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// Names of the files, sorted; names that are not text are left out.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }
}

/// Checks that the owner is this user or root.
fn owned(stat: &Stat) -> io::Result<()> {
    if stat.st_uid == 0 || stat.st_uid == geteuid().as_raw() {
        return Ok(());
    }
    let what = format!("owned by user {}, neither by you nor by root", stat.st_uid);
    Err(Untrusted::error(what, "another place, or remove it as its owner or root"))
}
