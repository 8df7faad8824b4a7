//! Which file a program is, and whether a library can be preloaded into it.
//!
//! The loader preloads into programs that are linked dynamically, with the C
//! library that we are linked with, and that gain no rights by being started.
//! What Go has compiled is loaded and calls the kernel itself all the same.
//! Whatever else would start and serve on the kernel's TCP without a word.
//! Source: ld.so(8), elf(5).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why nothing can be preloaded into a program.
#[derive(Debug)]
pub enum Unfit {
    /// No file is what a shell would take the name for.
    NotThere(OsString),
    /// The file is no program, or not one for us.
    NotRunnable(PathBuf),
    /// It may not be read.
    Unread(PathBuf, io::Error),
    /// It runs with more rights than ours; how it gets them.
    Gains(PathBuf, &'static str),
    /// A script whose interpreter is a script, and so on.
    Scripts(OsString),
    /// Neither a program nor a script.
    Neither(PathBuf),
    /// Linked statically.
    Static(PathBuf),
    /// Another loader than ours, this one.
    Loader(PathBuf, String),
    /// For another machine.
    Foreign(PathBuf),
    /// Compiled by Go, whose programs ask the kernel past the C library.
    Go(PathBuf),
}

impl Unfit {
    /// The same in a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotThere(_) => "not there",
            Self::NotRunnable(_) => "not ours to run",
            Self::Unread(..) => "not ours to read",
            Self::Gains(_, how) => how,
            Self::Scripts(_) => "scripts of scripts",
            Self::Neither(_) => "neither programs nor scripts",
            Self::Static(_) => "static",
            Self::Loader(..) => "of another loader",
            Self::Foreign(_) => "of another machine",
            Self::Go(_) => "Go's",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::NotThere(_) => {
                "its whole path, such as /usr/sbin/nginx, or to install its package".to_owned()
            }
            Self::NotRunnable(file) => format!("chmod +x {}", file.display()),
            Self::Unread(..) => "a program that may be read".to_owned(),
            Self::Gains(..) => "a copy without those rights, started by who has them".to_owned(),
            Self::Scripts(_) | Self::Neither(_) => "the program itself".to_owned(),
            Self::Static(_) | Self::Loader(..) | Self::Foreign(_) => {
                "a build that is linked dynamically, such as the distribution's package".to_owned()
            }
            Self::Go(_) => "a proxy before it that calls the C library, such as nginx or haproxy".to_owned(),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(name) => write!(f, "program {} is not there", name.display()),
            Self::NotRunnable(file) => write!(f, "{}: it is not a program that we may run", file.display()),
            Self::Unread(file, e) => write!(f, "{}: {e}", file.display()),
            Self::Gains(file, how) => {
                write!(f, "{} is {how}, and the loader preloads nothing into such programs", file.display())
            }
            Self::Scripts(name) => {
                write!(f, "{}: more than {SCRIPTS_MAX} scripts, each run by the next", name.display())
            }
            Self::Neither(file) => write!(f, "{} is neither a program nor a script", file.display()),
            Self::Static(file) => {
                write!(f, "{} is linked statically, and nothing can be preloaded into it", file.display())
            }
            Self::Loader(file, loader) => {
                write!(f, "{} is loaded by {loader}, for which libgreenwave.so is not built", file.display())
            }
            Self::Foreign(file) => write!(f, "{} is not a program of this machine's kind", file.display()),
            Self::Go(file) => write!(
                f,
                "{} is a Go program: it asks the kernel past the C library, and libgreenwave.so would not hear it",
                file.display()
            ),
        }
    }
}

impl std::error::Error for Unfit {}

/// Interpreters of interpreters that are followed.
const SCRIPTS_MAX: usize = 4;
/// Enough of a file for what is looked at: headers, or a first line.
const HEAD_BYTES: usize = 4096;

/// The file that `name` means to a shell, into which a library can be preloaded.
///
/// # Errors
/// There is none, or it cannot.
pub fn find(name: &OsStr) -> Result<PathBuf, Unfit> {
    let found = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(|path| path.exists())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
    };
    let found = found.ok_or_else(|| Unfit::NotThere(name.to_owned()))?;
    if !is_program(&found) {
        return Err(Unfit::NotRunnable(found));
    }
    fits(&found)?;
    Ok(found)
}

/// Whether a library can be preloaded into `program`, a file that may be run.
///
/// # Errors
/// It cannot.
pub fn fits(program: &Path) -> Result<(), Unfit> {
    let mut file = program.to_owned();
    for _ in 0..SCRIPTS_MAX {
        gains_nothing(&file)?;
        let head = head(&file)?;
        let Some(interpreter) = script(&head) else { return loads(&file, &head) };
        file = interpreter;
    }
    Err(Unfit::Scripts(program.as_os_str().to_owned()))
}

/// Whether `file` is one that we may run.
#[must_use]
pub fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

fn head(file: &Path) -> Result<Vec<u8>, Unfit> {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    read.map_err(|e| Unfit::Unread(file.to_owned(), e))?;
    Ok(head)
}

/// The interpreter that a script names in its first line.
fn script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let words = line.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(words)))
}

/// Refuses a program that runs with more rights than ours.
fn gains_nothing(file: &Path) -> Result<(), Unfit> {
    const SETUID: u32 = 0o4000;
    const SETGID: u32 = 0o2000;
    let of = file.metadata().map_err(|e| Unfit::Unread(file.to_owned(), e))?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let gained = match of.mode() {
        mode if mode & SETUID != 0 && of.uid() != user => "setuid",
        mode if mode & SETGID != 0 && of.gid() != group => "setgid",
        _ if user != 0 && has_capabilities(file) => "given capabilities",
        _ => return Ok(()),
    };
    Err(Unfit::Gains(file.to_owned(), gained))
}

fn has_capabilities(file: &Path) -> bool {
    rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok()
}

/// What an ELF file says of how it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loading {
    /// Class, byte order and machine.
    machine: [u8; 4],
    /// The loader; none: linked statically.
    loader: Option<Vec<u8>>,
    /// A note says that Go has compiled it.
    is_go: bool,
}

impl Loading {
    /// Whether what is loaded into `ours` is loaded into this, too. Ours may be
    /// linked statically, and the library is glibc's all the same.
    fn is_loaded_as(&self, ours: &Self) -> bool {
        let is_glibc = |loader: &[u8]| {
            loader.rsplit(|&b| b == b'/').next().is_some_and(|name| name.starts_with(b"ld-linux"))
        };
        match (&self.loader, &ours.loader) {
            (Some(its), None) => self.machine == ours.machine && is_glibc(its),
            _ => (self.machine, &self.loader) == (ours.machine, &ours.loader),
        }
    }
}

/// Reads the headers of an ELF file of 64 bits in our byte order.
fn loading(head: &[u8]) -> Option<Loading> {
    const PT_INTERP: u32 = 3;
    const PT_NOTE: u32 = 4;
    let half = |at: usize| Some(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let long = |at: usize| usize::try_from(u64::from_ne_bytes(*head.get(at..)?.first_chunk()?)).ok();
    head.strip_prefix(b"\x7fELF")?;
    let machine = [*head.get(4)?, *head.get(5)?, *head.get(18)?, *head.get(19)?];
    let (start, size, count) = (long(32)?, usize::from(half(54)?), usize::from(half(56)?));
    let (mut loader, mut is_go) = (None, false);
    for header in (0..count).map(|n| start.saturating_add(n.saturating_mul(size))) {
        let kind = word(header)?;
        if kind != PT_INTERP && kind != PT_NOTE {
            continue;
        }
        let at = long(header + 8)?;
        let part = at.checked_add(long(header + 32)?).and_then(|end| head.get(at..end));
        match (kind, part) {
            (PT_INTERP, part) => {
                let name = part?;
                loader = Some(name.strip_suffix(b"\0").unwrap_or(name).to_vec());
            }
            // Notes that lie further on are nobody's that we look for.
            (_, part) => is_go |= part.is_some_and(has_note_of_go),
        }
    }
    Some(Loading { machine, loader, is_go })
}

/// Whether one of these notes is Go's.
fn has_note_of_go(mut notes: &[u8]) -> bool {
    const HEADER: usize = 12;
    let word = |at: usize, notes: &[u8]| Some(u32::from_ne_bytes(*notes.get(at..)?.first_chunk()?) as usize);
    // Each has 12 bytes at least.
    while let (Some(name), Some(rest)) = (word(0, notes), word(4, notes)) {
        if notes.get(HEADER..HEADER.saturating_add(name)).is_some_and(|name| name == b"Go\0") {
            return true;
        }
        let len = [name, rest].iter().fold(HEADER, |sum, n| sum.saturating_add(n.next_multiple_of(4)));
        notes = notes.get(len..).unwrap_or(&[]);
    }
    false
}

/// Refuses a program whose loader is not ours.
fn loads(file: &Path, its: &[u8]) -> Result<(), Unfit> {
    let ours = loading(&head(Path::new("/proc/self/exe"))?);
    Err(match (loading(its), ours) {
        (None, _) if !its.starts_with(b"\x7fELF") => Unfit::Neither(file.to_owned()),
        (Some(Loading { loader: None, .. }), _) => Unfit::Static(file.to_owned()),
        (Some(Loading { is_go: true, .. }), _) => Unfit::Go(file.to_owned()),
        (Some(its), Some(ours)) if its.is_loaded_as(&ours) => return Ok(()),
        (Some(Loading { loader: Some(loader), .. }), Some(_)) => {
            Unfit::Loader(file.to_owned(), String::from_utf8_lossy(&loader).into_owned())
        }
        _ => Unfit::Foreign(file.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, expected: &str) {
        let unfit = find(OsStr::new(name)).expect_err(name);
        assert!(unfit.to_string().contains(expected) && !unfit.advice().is_empty(), "{unfit}");
    }

    #[test]
    fn programs_and_scripts_are_found() {
        let this = std::env::current_exe().unwrap();
        assert!(find(this.as_os_str()).is_ok_and(|path| path == this));
        assert!(find(OsStr::new("sh")).is_ok_and(|path| path.is_absolute()));
    }

    #[test]
    fn what_cannot_be_preloaded_into_is_said_so() {
        refused("no-such-program", "program no-such-program is not there");
        refused("/no/such/program", "is not there");
        refused("/etc/passwd", "is not a program that we may run");
    }

    #[test]
    fn headers_of_a_static_program_name_no_loader() {
        let mut head = vec![0; 256];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[18] = 62;
        head[32] = 64;
        head[54] = 56;
        head[56] = 1;
        head[64] = 1;
        let is = Loading { machine: [2, 1, 62, 0], loader: None, is_go: false };
        assert_eq!(loading(&head), Some(is.clone()));
        // One program header of the kind that names the loader.
        head[64] = 3;
        head[72] = 200;
        head[96] = 4;
        head[200..204].copy_from_slice(b"/ld\0");
        assert_eq!(loading(&head), Some(Loading { loader: Some(b"/ld".to_vec()), ..is }));
        for len in 0..head.len() {
            let _ = loading(&head[..len]);
        }
    }

    #[test]
    fn beside_a_static_greenwave_the_loader_is_glibc_s() {
        let of = |loader: Option<&str>| Loading {
            machine: [2, 1, 62, 0],
            loader: loader.map(|loader| loader.as_bytes().to_vec()),
            is_go: false,
        };
        let (glibc, musl) = (of(Some("/lib64/ld-linux-x86-64.so.2")), of(Some("/lib/ld-musl-x86_64.so.1")));
        assert!(glibc.is_loaded_as(&of(None)) && glibc.is_loaded_as(&glibc));
        assert!(!musl.is_loaded_as(&of(None)) && !musl.is_loaded_as(&glibc));
        assert!(!glibc.is_loaded_as(&Loading { machine: [2, 1, 183, 0], ..of(None) }));
    }

    #[test]
    fn a_note_says_that_go_has_compiled_it() {
        let note = |name: &[u8], rest: usize| {
            let mut bytes = [name.len() as u32, rest as u32, 4].map(u32::to_ne_bytes).concat();
            bytes.extend(name);
            bytes.resize(12 + name.len().next_multiple_of(4) + rest.next_multiple_of(4), 7);
            bytes
        };
        let (other, go) = (note(b"GNU\0", 21), note(b"Go\0", 83));
        assert!(!has_note_of_go(&[&other[..], &other].concat()));
        assert!(has_note_of_go(&[&other[..], &go].concat()));
        for len in 0..12 {
            assert!(!has_note_of_go(&go[..len]), "it is cut");
        }
        assert!(!has_note_of_go(&[0xff; 64]), "sizes beyond all bounds");
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(script(b"#! /usr/bin/env python3\nx"), Some("/usr/bin/env".into()));
        assert_eq!(script(b"#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(script(b"#!\n"), None);
        assert_eq!(script(b"\x7fELF"), None);
    }
}
