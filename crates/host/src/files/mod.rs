//! Files and directories in places where other users may write, such as `/tmp`.
//!
//! A path is walked one directory at a time. In a directory writable by its group or by all, a link, a
//! file or a FIFO is trusted only if its owner is this process's user or the directory's, and a file
//! only if it has one link. These are the kernel's `protected_symlinks`, `protected_regular`,
//! `protected_fifos` and `protected_hardlinks`, independent of their settings here. A [`Folder`] for
//! run-time files must meet more: only its owner, this user or root, may write to it.
//!
//! Not for input that the operator names, such as a configuration: like other programs, greenwave reads
//! it whichever user wrote it.
//!
//! Source: openat(2), symlink(7), proc_sys_fs(5); `StrictModes` of sshd_config(5).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fcntl_getfl, fcntl_setfl, fstat,
    fstatfs, ftruncate, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

mod folder;
#[cfg(test)]
mod tests;

pub use folder::Folder;

/// Reason why a file or directory is not trusted, with a remedy.
#[derive(Debug)]
pub struct Untrusted {
    what: String,
    advice: String,
}

impl Untrusted {
    fn error(what: impl Into<String>, advice: impl Into<String>) -> io::Error {
        io::Error::other(Self { what: what.into(), advice: advice.into() })
    }

    /// Remedy for `e`, if it is an [`Untrusted`].
    #[must_use]
    pub fn advice(e: &io::Error) -> Option<&str> {
        Some(&e.get_ref()?.downcast_ref::<Self>()?.advice)
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Untrusted {}

/// `e`, prefixed with the file `name`.
#[must_use]
pub fn of_name(name: &str, e: io::Error) -> io::Error {
    match Untrusted::advice(&e) {
        Some(advice) => Untrusted::error(format!("{name}: {e}"), advice),
        None => io::Error::new(e.kind(), format!("{name}: {e}")),
    }
}

/// Opens `path` for writing: an empty file, or an existing device or FIFO.
///
/// # Errors
/// [`Untrusted`]; the kernel's.
pub fn create(path: &Path) -> io::Result<File> {
    let file = EntryPath::of(path)?.open()?.0;
    if is_regular(&fstat(&file)?) {
        ftruncate(&file, 0)?;
    }
    Ok(file)
}

/// Opens `path` for appending.
///
/// # Errors
/// The errors of [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    let file = EntryPath::of(path)?.open()?.0;
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::APPEND)?;
    Ok(file)
}

/// Checks that [`create`] would open `path`. Changes nothing.
///
/// # Errors
/// The errors of [`create`].
pub fn check_writable(path: &Path) -> io::Result<()> {
    let entry = EntryPath::of(path)?;
    // A FIFO without a reader would block the caller.
    match entry.stat()? {
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Fifo => entry.check(&stat),
        _ => match entry.open()? {
            (_, true) => Ok(unlinkat(&entry.folder, &entry.name, AtFlags::empty())?),
            (_, false) => Ok(()),
        },
    }
}

/// Checks that `path` is an executable file.
///
/// # Errors
/// The kernel's error.
pub fn check_runnable(path: &Path) -> io::Result<()> {
    rustix::fs::access(path, Access::EXEC_OK)?;
    if is_regular(&rustix::fs::stat(path)?) { Ok(()) } else { Err(Errno::ACCESS.into()) }
}

/// Replaces `path` atomically: `write` fills a new file beside it, which is then renamed. An existing
/// device or FIFO is written directly. With `lasts`, the file is synced to disk before the rename.
///
/// # Errors
/// The errors of [`create`], and those of `write`; the previous content is unchanged then.
pub fn replace(path: &Path, lasts: bool, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let entry = EntryPath::of(path)?;
    let there = entry.stat()?;
    if let Some(there) = &there {
        entry.check(there)?;
        if !is_regular(there) {
            return write(&mut entry.open()?.0);
        }
    }
    let mut new = OsString::from(".");
    new.push(&entry.name);
    new.push(format!(".{}", std::process::id()));
    let written = (|| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&entry.folder, &new, flags, WITH_UMASK)?);
        write(&mut file)?;
        if let Some(there) = there {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(there.st_mode))?;
        }
        if lasts {
            // Some file systems report a full disk only here.
            file.sync_all()?;
        }
        Ok(renameat(&entry.folder, &new, &entry.folder, &entry.name)?)
    })();
    if written.as_ref().is_err_and(|e: &io::Error| e.kind() != io::ErrorKind::AlreadyExists) {
        // It may not exist.
        let _ = unlinkat(&entry.folder, &new, AtFlags::empty());
    }
    written
}

/// Target of a path: a name in an open folder.
struct EntryPath {
    folder: OwnedFd,
    /// Metadata of the folder.
    stat: Stat,
    name: OsString,
    /// True if the name is one of `/proc`, whose links the kernel alone can follow.
    is_magic: bool,
    path: PathBuf,
}

/// Mode of new files before the umask.
const WITH_UMASK: Mode = Mode::from_raw_mode(0o666);
/// Maximum of links, as in the kernel.
const LINKS_MAX: usize = 40;

impl EntryPath {
    /// Walks to the last name of `path` that is not a link.
    fn of(path: &Path) -> io::Result<Self> {
        let mut rest: VecDeque<OsString> = VecDeque::new();
        let mut folder = enter(&mut rest, path)?;
        let mut links = 0;
        loop {
            let stat = fstat(&folder)?;
            let name = rest.pop_front().unwrap_or_else(|| ".".into());
            let is_last = rest.is_empty();
            if is_magic(&folder)? {
                if is_last {
                    return Ok(Self { folder, stat, name, is_magic: true, path: path.to_owned() });
                }
                folder = openat(&folder, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match openat(&folder, &name, flags, Mode::empty()) {
                Ok(found) => found,
                Err(Errno::NOENT) if is_last => {
                    return Ok(Self { folder, stat, name, is_magic: false, path: path.to_owned() });
                }
                Err(e) => return Err(e.into()),
            };
            let its = fstat(&found)?;
            if FileType::from_raw_mode(its.st_mode) == FileType::Symlink {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                owned_by(&stat, &its).map_err(|user| untrusted(&name, "link", user))?;
                let target =
                    PathBuf::from(OsString::from_vec(readlinkat(&found, c"", Vec::new())?.into_bytes()));
                let start = enter(&mut rest, &target)?;
                if target.is_absolute() {
                    folder = start;
                }
            } else if is_last {
                return Ok(Self { folder, stat, name, is_magic: false, path: path.to_owned() });
            } else {
                folder = found;
            }
        }
    }

    /// The existing file, if there is one.
    fn stat(&self) -> io::Result<Option<Stat>> {
        let follow = if self.is_magic { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        match statat(&self.folder, &self.name, follow) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the existing file for writing, or a new one; true if it is new.
    fn open(&self) -> io::Result<(File, bool)> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let new = openat(&self.folder, &self.name, flags | OFlags::CREATE | OFlags::EXCL, WITH_UMASK);
        match new {
            Ok(file) => return Ok((file.into(), true)),
            Err(Errno::EXIST) => {}
            // A directory where no file can be created, such as /proc, may have writable ones.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT) if self.stat()?.is_some() => {}
            Err(e) => return Err(e.into()),
        }
        // Opening a FIFO waits for its reader; an untrusted one is not opened.
        self.stat()?.map_or(Ok(()), |stat| self.check(&stat))?;
        let follow = if self.is_magic { OFlags::empty() } else { OFlags::NOFOLLOW };
        let file = openat(&self.folder, &self.name, flags | follow, Mode::empty())?;
        self.check(&fstat(&file)?)?;
        Ok((file.into(), false))
    }

    /// True if the file described by `stat` may be written to.
    fn check(&self, stat: &Stat) -> io::Result<()> {
        if self.is_magic {
            return Ok(());
        }
        owned_by(&self.stat, stat).map_err(|user| untrusted(&self.name, "file", user))?;
        if is_shared(&self.stat) && is_regular(stat) && stat.st_nlink > 1 {
            let what = format!(
                "it has {} names (hard links) in places that other users may write to",
                stat.st_nlink
            );
            return Err(Untrusted::error(what, format!("rm {}, if it is not needed", self.path.display())));
        }
        Ok(())
    }
}

/// Puts the names of `path` before `rest`; the directory in which they start.
fn enter(rest: &mut VecDeque<OsString>, path: &Path) -> io::Result<OwnedFd> {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let start = if path.is_absolute() { "/" } else { "." };
    Ok(openat(CWD, start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// True if users other than its owner may write to a directory.
fn is_shared(folder: &Stat) -> bool {
    folder.st_mode & 0o022 != 0
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_magic(folder: impl AsFd) -> io::Result<bool> {
    Ok(fstatfs(folder)?.f_type == PROC_SUPER_MAGIC)
}

/// Checks that the owner of `what` is trusted in `folder`; otherwise returns the owner.
fn owned_by(folder: &Stat, what: &Stat) -> Result<(), u32> {
    let counts = !is_shared(folder) || what.st_uid == geteuid().as_raw() || what.st_uid == folder.st_uid;
    if counts { Ok(()) } else { Err(what.st_uid) }
}

fn untrusted(name: &OsStr, kind: &str, user: u32) -> io::Error {
    let name = name.to_string_lossy();
    let what = format!("{name} is a {kind} of user {user}, in a folder that several users may write to");
    Untrusted::error(what, "a path in a folder of your own")
}
