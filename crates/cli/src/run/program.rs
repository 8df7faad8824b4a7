//! Which file a program is, and whether a library can be preloaded into it.
//!
//! The loader preloads into programs that are linked dynamically, with the C
//! library that we are linked with, and that gain no rights by being started.
//! Whatever else would start and serve on the kernel's TCP without a word.
//! Source: ld.so(8), elf(5).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::Error;

/// Interpreters of interpreters that are followed.
const SCRIPTS_MAX: usize = 4;
/// Enough of a file for what is looked at: headers, or a first line.
const HEAD_BYTES: usize = 4096;

/// The file that `name` means to a shell, into which a library can be preloaded.
///
/// # Errors
/// There is none, or it cannot.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, Error> {
    let text = name.display();
    let found = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(|path| path.exists())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
    };
    let found = found.ok_or_else(|| {
        let error = Error::new(format!("program {text} is not there"));
        error.advice("its whole path, such as /usr/sbin/nginx, or to install its package")
    })?;
    if !is_program(&found) {
        let what = format!("{}: it is not a program that we may run", found.display());
        return Err(Error::new(what).advice(format!("chmod +x {}", found.display())));
    }
    let mut file = found.clone();
    for _ in 0..SCRIPTS_MAX {
        gains_nothing(&file)?;
        let head = head(&file)?;
        let Some(interpreter) = script(&head) else {
            loads(&file, &head)?;
            return Ok(found);
        };
        file = interpreter;
    }
    Err(Error::new(format!("{text}: more than {SCRIPTS_MAX} scripts, each run by the next"))
        .advice("the program itself"))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

fn head(file: &Path) -> Result<Vec<u8>, Error> {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    read.map_err(|e| Error::file(file, &e).advice("a program that may be read"))?;
    Ok(head)
}

/// The interpreter that a script names in its first line.
fn script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let words = line.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(words)))
}

/// Refuses a program that runs with more rights than ours.
fn gains_nothing(file: &Path) -> Result<(), Error> {
    const SETUID: u32 = 0o4000;
    const SETGID: u32 = 0o2000;
    let of = file.metadata().map_err(|e| Error::file(file, &e))?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let gained = match of.mode() {
        mode if mode & SETUID != 0 && of.uid() != user => Some("setuid"),
        mode if mode & SETGID != 0 && of.gid() != group => Some("setgid"),
        _ if user != 0 && has_capabilities(file) => Some("given capabilities"),
        _ => None,
    };
    let Some(how) = gained else { return Ok(()) };
    let what = format!("{} is {how}, and the loader preloads nothing into such programs", file.display());
    Err(Error::new(what).advice("a copy without those rights, started by who has them"))
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
}

/// Reads the headers of an ELF file of 64 bits in our byte order.
fn loading(head: &[u8]) -> Option<Loading> {
    const PT_INTERP: u32 = 3;
    let half = |at: usize| Some(u16::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
    let long = |at: usize| usize::try_from(u64::from_ne_bytes(*head.get(at..)?.first_chunk()?)).ok();
    head.strip_prefix(b"\x7fELF")?;
    let machine = [*head.get(4)?, *head.get(5)?, *head.get(18)?, *head.get(19)?];
    let (start, size, count) = (long(32)?, usize::from(half(54)?), usize::from(half(56)?));
    let mut loader = None;
    for header in (0..count).map(|n| start.saturating_add(n.saturating_mul(size))) {
        if word(header)? == PT_INTERP {
            let at = long(header + 8)?;
            let name = head.get(at..at.checked_add(long(header + 32)?)?)?;
            loader = Some(name.strip_suffix(b"\0").unwrap_or(name).to_vec());
        }
    }
    Some(Loading { machine, loader })
}

/// Refuses a program whose loader is not ours.
fn loads(file: &Path, its: &[u8]) -> Result<(), Error> {
    let ours = loading(&head(Path::new("/proc/self/exe"))?);
    let name = file.display();
    let (what, advice) = match (loading(its), ours) {
        (None, _) if !its.starts_with(b"\x7fELF") => {
            (format!("{name} is neither a program nor a script"), "the program itself")
        }
        (Some(Loading { loader: None, .. }), _) => {
            (format!("{name} is linked statically, and nothing can be preloaded into it"), DYNAMIC)
        }
        (Some(its), Some(ours)) if its == ours => return Ok(()),
        (Some(Loading { loader: Some(loader), .. }), Some(_)) => {
            let loader = String::from_utf8_lossy(&loader).into_owned();
            (format!("{name} is loaded by {loader}, for which libgreenwave.so is not built"), DYNAMIC)
        }
        _ => (format!("{name} is not a program of this machine's kind"), DYNAMIC),
    };
    Err(Error::new(what).advice(advice))
}

const DYNAMIC: &str = "a build that is linked dynamically, such as the distribution's package";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, expected: &str) {
        let error = find(OsStr::new(name)).expect_err(name).to_string();
        assert!(error.contains(expected) && error.contains("\n  try: "), "{error}");
    }

    #[test]
    fn programs_and_scripts_are_found() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(find(this.as_os_str()), Ok(this));
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
        let is = Loading { machine: [2, 1, 62, 0], loader: None };
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
    fn a_script_names_its_interpreter() {
        assert_eq!(script(b"#! /usr/bin/env python3\nx"), Some("/usr/bin/env".into()));
        assert_eq!(script(b"#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(script(b"#!\n"), None);
        assert_eq!(script(b"\x7fELF"), None);
    }
}
