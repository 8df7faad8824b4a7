//! Lookup of a program's file, and a check that a library can be preloaded into it.
//!
//! The loader preloads into dynamically linked programs with the same C library that gain no
//! privileges on execve(2). Go programs, and programs without any library, load it but make direct
//! system calls. Any such program would silently use the kernel's TCP. Source: ld.so(8), elf(5),
//! execve(2).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::elf::{Elf, Machine};

/// Reason why nothing can be preloaded into a program.
#[derive(Debug)]
pub enum NotPreloadable {
    /// No file has this name, or none in `PATH`.
    NotThere(OsString),
    /// The file is not executable by this user.
    NotRunnable(PathBuf),
    /// The file cannot be read.
    Unread(PathBuf, io::Error),
    /// The program gains privileges; how.
    Gains(PathBuf, &'static str),
    /// Nested script interpreters beyond `SCRIPTS_MAX`.
    Scripts(OsString),
    /// Neither a program nor a script.
    Neither(PathBuf),
    /// Statically linked.
    Static(PathBuf),
    /// The program needs this other loader.
    Loader(PathBuf, String),
    /// Built for another machine: the program's, and this one.
    Foreign(PathBuf, String, String),
    /// Compiled by Go, whose programs make system calls without the C library.
    Go(PathBuf),
    /// Linked with no library, so that it makes direct system calls.
    NoLibrary(PathBuf),
}

impl NotPreloadable {
    /// Short form, for tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotThere(_) => "missing",
            Self::NotRunnable(_) => "not executable by this user",
            Self::Unread(..) => "not readable by this user",
            Self::Gains(_, how) => how,
            Self::Scripts(_) => "scripts of scripts",
            Self::Neither(_) => "not executable",
            Self::Static(_) => "static",
            Self::Loader(..) => "for another dynamic loader",
            Self::Foreign(..) => "for another architecture",
            Self::Go(_) => "Go programs",
            Self::NoLibrary(_) => "without the C library",
        }
    }

    /// Form for a running program.
    #[must_use]
    pub fn clause(&self) -> String {
        match self {
            Self::NotThere(_) | Self::NotRunnable(_) | Self::Unread(..) => "it cannot be read".to_owned(),
            Self::Gains(_, how) => format!("it is {how}"),
            Self::Scripts(_) | Self::Neither(_) => "it is not an executable".to_owned(),
            Self::Static(_) => "it is linked statically".to_owned(),
            Self::Loader(_, loader) => format!("it is loaded by {loader}"),
            Self::Foreign(_, its, _) => format!("it is built for {its}"),
            Self::Go(_) => "it is a Go program".to_owned(),
            Self::NoLibrary(_) => "it does not use the C library".to_owned(),
        }
    }

    /// Advice for the user.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::NotThere(_) => {
                "its absolute path, such as /usr/sbin/nginx, or install its package".to_owned()
            }
            Self::NotRunnable(file) => format!("chmod +x {}", file.display()),
            Self::Unread(..) => "a readable program".to_owned(),
            Self::Gains(..) => {
                "a copy without setuid and file capabilities, started by a user with these rights".to_owned()
            }
            Self::Scripts(_) | Self::Neither(_) => "an executable or a script".to_owned(),
            Self::Static(_) | Self::Loader(..) => {
                "a build that is linked dynamically, such as the distribution's package".to_owned()
            }
            Self::Foreign(..) => "a build for this machine, such as the distribution's package".to_owned(),
            Self::Go(_) | Self::NoLibrary(_) => {
                "a proxy in front of it that uses the C library, such as nginx or haproxy".to_owned()
            }
        }
    }
}

impl fmt::Display for NotPreloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(name) => write!(f, "program {} does not exist", name.display()),
            Self::NotRunnable(file) => write!(f, "{}: not executable by this user", file.display()),
            Self::Unread(file, e) => write!(f, "{}: {e}", file.display()),
            Self::Gains(file, how) => {
                write!(
                    f,
                    "{} is {how}; the dynamic loader ignores LD_PRELOAD for such programs",
                    file.display()
                )
            }
            Self::Scripts(name) => {
                write!(f, "{}: more than {SCRIPTS_MAX} nested script interpreters", name.display())
            }
            Self::Neither(file) => write!(f, "{} is not an executable", file.display()),
            Self::Static(file) => {
                write!(f, "{} is statically linked, so no library can be preloaded", file.display())
            }
            Self::Loader(file, loader) => {
                write!(
                    f,
                    "{} needs the loader {loader}, and libgreenwave.so is built for another one",
                    file.display()
                )
            }
            Self::Foreign(file, its, ours) => {
                write!(f, "{} is built for {its}, and libgreenwave.so for {ours}", file.display())
            }
            Self::Go(file) => write!(
                f,
                "{} is a Go program: it makes system calls without the C library, so libgreenwave.so cannot intercept them",
                file.display()
            ),
            Self::NoLibrary(file) => write!(
                f,
                "{} does not use the C library: it makes system calls itself, so libgreenwave.so cannot intercept them",
                file.display()
            ),
        }
    }
}

impl std::error::Error for NotPreloadable {}

/// Maximum depth of script interpreters.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a script's first line that the kernel reads.
const LINE_MAX: u64 = 256;

/// File that a shell would run for `name`, if a library can be preloaded into it.
///
/// # Errors
/// There is no such file, or no library can be preloaded.
pub fn find(name: &OsStr) -> Result<PathBuf, NotPreloadable> {
    let found = if name.as_bytes().contains(&b'/') {
        Some(PathBuf::from(name)).filter(|path| path.exists())
    } else {
        in_path(name)
    };
    let found = found.ok_or_else(|| NotPreloadable::NotThere(name.to_owned()))?;
    if !is_program(&found) {
        return Err(NotPreloadable::NotRunnable(found));
    }
    fits(&found)?;
    Ok(found)
}

/// Checks that a library can be preloaded into the executable file `program`.
///
/// # Errors
/// The reason why the library cannot be preloaded.
pub fn fits(program: &Path) -> Result<(), NotPreloadable> {
    let mut file = program.to_owned();
    for _ in 0..SCRIPTS_MAX {
        match interpreter(&head(&file)?) {
            Some(interpreter) => file = interpreter,
            None => {
                // The kernel ignores setuid bits of scripts.
                gains_nothing(&file)?;
                return loads(&file);
            }
        }
    }
    Err(NotPreloadable::Scripts(program.as_os_str().to_owned()))
}

/// True if this user may execute `file`.
#[must_use]
pub fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Path of program `name` in `PATH`.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn open(file: &Path) -> Result<File, NotPreloadable> {
    File::open(file).map_err(|e| NotPreloadable::Unread(file.to_owned(), e))
}

fn head(file: &Path) -> Result<Vec<u8>, NotPreloadable> {
    let mut head = Vec::new();
    let read = open(file)?.take(LINE_MAX).read_to_end(&mut head);
    read.map_err(|e| NotPreloadable::Unread(file.to_owned(), e))?;
    Ok(head)
}

/// Interpreter of a script: the one in its first line, or the program that env(1) would run.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    // Options and variables precede the program's name.
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let found = name.filter(|_| first.ends_with("env")).and_then(|name| in_path(OsStr::from_bytes(name)));
    Some(found.unwrap_or_else(|| first.to_owned()))
}

/// Refuses a program that gains privileges.
fn gains_nothing(file: &Path) -> Result<(), NotPreloadable> {
    const SETUID: u32 = 0o4000;
    /// Without the group's execute bit, setgid has another meaning.
    const SETGID: u32 = 0o2010;
    let of = file.metadata().map_err(|e| NotPreloadable::Unread(file.to_owned(), e))?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let gained = match of.mode() {
        mode if mode & SETUID != 0 && of.uid() != user => "setuid",
        mode if mode & SETGID == SETGID && of.gid() != group => "setgid",
        _ if user != 0 && has_capabilities(file) => "given capabilities",
        _ => return Ok(()),
    };
    let is_denied = || statvfs(file).is_ok_and(|of| of.f_flag.contains(StatVfsMountFlags::NOSUID));
    if rustix::thread::no_new_privs().unwrap_or(false) || is_denied() {
        return Ok(());
    }
    Err(NotPreloadable::Gains(file.to_owned(), gained))
}

fn has_capabilities(file: &Path) -> bool {
    rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok()
}

/// Machine and loader of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loading {
    machine: Machine,
    /// Path of the loader; none: statically linked.
    loader: Option<Vec<u8>>,
}

impl Loading {
    /// True if a library for `ours` can be loaded here. `ours` may be statically linked; the
    /// library is glibc's anyway.
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

fn elf(file: &Path) -> Result<Elf, NotPreloadable> {
    let elf = Elf::read(open(file)?).map_err(|e| NotPreloadable::Unread(file.to_owned(), e))?;
    elf.ok_or_else(|| NotPreloadable::Neither(file.to_owned()))
}

/// Refuses a program with another loader, or one that does not call the C library.
fn loads(file: &Path) -> Result<(), NotPreloadable> {
    let program = elf(file)?;
    let ours = elf(Path::new("/proc/self/exe"))?;
    if program.machine != ours.machine {
        return Err(NotPreloadable::Foreign(
            file.to_owned(),
            program.machine.to_string(),
            ours.machine.to_string(),
        ));
    }
    if !program.is_loadable() {
        return Err(NotPreloadable::Neither(file.to_owned()));
    }
    if program.is_go() {
        return Err(NotPreloadable::Go(file.to_owned()));
    }
    let [its, ours] = [&program, &ours].map(|elf| Loading { machine: elf.machine, loader: elf.loader() });
    match &its.loader {
        None => Err(NotPreloadable::Static(file.to_owned())),
        Some(loader) if !its.is_loaded_as(&ours) => {
            Err(NotPreloadable::Loader(file.to_owned(), String::from_utf8_lossy(loader).into_owned()))
        }
        Some(_) if !program.needs_library() => Err(NotPreloadable::NoLibrary(file.to_owned())),
        Some(_) => Ok(()),
    }
}

/// Fuzzes the ELF reader with a file of `bytes`.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    use std::io::Write as _;

    let memory = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC).expect("a descriptor");
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes).expect("memory is left");
    let _ = interpreter(bytes);
    if let Ok(Some(elf)) = Elf::read(file) {
        let loader = elf.loader();
        assert!(loader.is_none_or(|loader| loader.len() <= bytes.len()), "the loader's name is in the file");
        let _ = (elf.is_loadable(), elf.is_go(), elf.needs_library());
    }
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
        refused("no-such-program", "program no-such-program does not exist");
        refused("/no/such/program", "does not exist");
        refused("/etc/passwd", "not executable by this user");
    }

    #[test]
    fn beside_a_static_greenwave_the_loader_is_glibc_s() {
        let this = elf(Path::new("/proc/self/exe")).unwrap().machine;
        let of = |loader: Option<&str>| Loading {
            machine: this,
            loader: loader.map(|loader| loader.as_bytes().to_vec()),
        };
        let (glibc, musl) = (of(Some("/lib64/ld-linux-x86-64.so.2")), of(Some("/lib/ld-musl-x86_64.so.1")));
        assert!(glibc.is_loaded_as(&of(None)) && glibc.is_loaded_as(&glibc));
        assert!(!musl.is_loaded_as(&of(None)) && !musl.is_loaded_as(&glibc));
    }

    #[test]
    fn a_script_names_its_interpreter_and_env_the_one_that_it_finds() {
        assert_eq!(interpreter(b"#! /bin/sh -e\nx"), Some("/bin/sh".into()));
        assert_eq!(interpreter(b"#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(interpreter(b"#!\n"), None);
        assert_eq!(interpreter(b"\x7fELF"), None);
        let sh = in_path(OsStr::new("sh"));
        for line in ["#!/usr/bin/env sh", "#!/usr/bin/env -S A=1 sh -e\n"] {
            assert!(sh.is_some() && interpreter(line.as_bytes()) == sh, "{line}");
        }
        assert_eq!(interpreter(b"#!/usr/bin/env no-such-program"), Some("/usr/bin/env".into()));
    }
}
