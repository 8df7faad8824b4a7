//! Preloaded library: lookup, verification, and a trial load.
//!
//! Any library could be preloaded, and the program would silently use the kernel's TCP. The
//! library's build identifier, an ELF note, is therefore checked before it is loaded. If root runs
//! it, only root may be able to write it (`trust`). The loader reports a library that it cannot
//! load on stderr and starts the program anyway, so the library is first loaded into a trivial
//! program. Programs are checked in [`elf_check`]. Source: ld.so(8), elf(5).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::build_id::{BUILD, NOTE_KIND, NOTE_OWNER, OTHER_BUILD};
use super::protocol::AccessKey;
use super::{VARIABLE, client};

mod elf;
pub mod elf_check;
mod trust;

use elf::Elf;

/// Verified path of `libgreenwave.so`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library(PathBuf);

/// Environment variable with the library's path.
const PLACE: &str = "GREENWAVE_LIB";
/// Environment variable of the loader.
const PRELOAD: &str = "LD_PRELOAD";
/// Trial program, and the file with its mappings.
const SHOWS: [&str; 2] = ["cat", "/proc/self/maps"];

/// Reason why nothing can be preloaded.
#[derive(Debug)]
pub enum PreloadError {
    /// The library does not exist, or cannot be read.
    NotThere(PathBuf, io::Error),
    /// The file is no shared library; the text names its kind.
    NotLibrary(PathBuf, &'static str),
    /// Built for another machine: the library's, and this one.
    Foreign(PathBuf, String, String),
    /// Another library.
    Stranger(PathBuf),
    /// Users other than root could write it; how.
    Exposed(PathBuf, String),
    /// Error in the file that `$GREENWAVE_LIB` names.
    Variable(Box<PreloadError>),
    /// The loader would split the path.
    Separated(PathBuf),
    /// Built with another build of this program.
    OtherBuild(PathBuf),
    /// Error message of the loader, or of the trial program.
    NotLoaded(PathBuf, String),
}

impl PreloadError {
    /// Advice for the user.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::Variable(e) => return e.advice(),
            Self::NotThere(..) | Self::NotLibrary(..) | Self::Foreign(..) | Self::Stranger(_) => {
                "make build, or --lib with the path of libgreenwave.so"
            }
            Self::Exposed(..) => "a copy that root owns and only root may write (chown root, chmod go-w)",
            Self::Separated(_) => "--lib with a copy elsewhere",
            Self::OtherBuild(_) => {
                "make build, which makes both, or --lib with the path of its libgreenwave.so"
            }
            Self::NotLoaded(..) => {
                "the libgreenwave.so that was built here, where programs may be mapped (no noexec)"
            }
        }
        .to_owned()
    }
}

impl fmt::Display for PreloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(e) => write!(f, "{PLACE}: {e}"),
            Self::NotThere(path, e) => write!(f, "{}: {e}", path.display()),
            Self::NotLibrary(path, what) => {
                write!(f, "{}: it is {what}, not libgreenwave.so", path.display())
            }
            Self::Foreign(path, its, ours) => {
                write!(f, "{} is for {its}, and programs here are for {ours}", path.display())
            }
            Self::Stranger(path) => {
                write!(f, "{}: it is not libgreenwave.so", path.display())
            }
            Self::Exposed(path, how) => {
                write!(f, "{}: {how}, and it would run in root's programs", path.display())
            }
            Self::Separated(path) => {
                write!(f, "{}: the loader takes no path with a space or a colon", path.display())
            }
            Self::OtherBuild(path) => write!(f, "{}: {OTHER_BUILD}", path.display()),
            Self::NotLoaded(path, reason) => write!(f, "{} is not loaded: {reason}", path.display()),
        }
    }
}

impl std::error::Error for PreloadError {}

impl Library {
    /// Library at `given`, else at `$GREENWAVE_LIB`, else beside this program.
    ///
    /// # Errors
    /// The library does not exist, is of another build, is writable by users other than root
    /// when root runs it, or has a path that the loader would split.
    pub fn find(given: Option<&Path>) -> Result<Self, PreloadError> {
        if let Some(given) = given {
            return Self::at(given);
        }
        match std::env::var_os(PLACE).filter(|path| !path.is_empty()) {
            Some(path) => Self::at(Path::new(&path)).map_err(|e| PreloadError::Variable(Box::new(e))),
            None => {
                let this = std::env::current_exe().map_err(|e| PreloadError::NotThere(PathBuf::new(), e))?;
                Self::at(&this.with_file_name("libgreenwave.so"))
            }
        }
    }

    fn at(path: &Path) -> Result<Self, PreloadError> {
        let not_there = |e| PreloadError::NotThere(path.to_owned(), e);
        let path = std::fs::canonicalize(path).map_err(not_there)?;
        // The loader treats both as separators (ld.so(8)).
        if path.to_string_lossy().contains([' ', ':']) {
            return Err(PreloadError::Separated(path));
        }
        // Opening a FIFO would block.
        match std::fs::metadata(&path).map_err(not_there)? {
            of if of.is_dir() => return Err(PreloadError::NotLibrary(path, "a directory")),
            of if !of.is_file() => return Err(PreloadError::NotLibrary(path, "not a file")),
            _ => {}
        }
        let read = |path: &Path| Elf::read(File::open(path)?);
        let Some(library) = read(&path).map_err(not_there)? else {
            return Err(PreloadError::NotLibrary(path, "not an ELF file"));
        };
        let this = Path::new("/proc/self/exe");
        let ours = read(this).map_err(|e| PreloadError::NotThere(this.to_owned(), e))?;
        if let Some(ours) = ours.filter(|ours| ours.machine != library.machine) {
            return Err(PreloadError::Foreign(path, library.machine.to_string(), ours.machine.to_string()));
        }
        if !library.is_loadable() {
            return Err(PreloadError::NotLibrary(path, "an object file"));
        }
        match library.find_note(|note| {
            (note.name == NOTE_OWNER && note.kind == NOTE_KIND).then_some(note.content == BUILD.as_bytes())
        }) {
            None => return Err(PreloadError::Stranger(path)),
            // This program, and its tests, have the note as well.
            Some(_) if library.loader().is_some() => {
                return Err(PreloadError::NotLibrary(path, "a program"));
            }
            Some(false) => return Err(PreloadError::OtherBuild(path)),
            Some(true) => {}
        }
        match trust::exposure(&path) {
            Some((of, how)) => Err(PreloadError::Exposed(of, how)),
            None => Ok(Self(path)),
        }
    }

    /// Path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Adds the library to `command`'s LD_PRELOAD, before others.
    pub fn preload<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let mut preload = self.0.as_os_str().to_owned();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env(PRELOAD, preload)
    }

    /// Loads the library into a program that ends at once; returns the reason if that could not be
    /// tried.
    ///
    /// # Errors
    /// The loader does not load it, or it is of another build.
    pub fn check(&self) -> Result<Option<elf_check::NotPreloadable>, PreloadError> {
        let program = match elf_check::find(OsStr::new(SHOWS[0])) {
            Ok(program) => program,
            Err(unfit) => return Ok(Some(unfit)),
        };
        let mut command = Command::new(program);
        // No server has this number: the program sends no request.
        command.arg(SHOWS[1]).env(VARIABLE, client::variable(0, &AccessKey::default()));
        let out = self.preload(&mut command).stdin(Stdio::null()).output();
        let not = |reason: String| PreloadError::NotLoaded(self.0.clone(), reason);
        let out = out.map_err(|e| not(e.to_string()))?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        if stderr.contains(OTHER_BUILD) {
            return Err(PreloadError::OtherBuild(self.0.clone()));
        }
        if !out.status.success() || !shows(&out.stdout, &self.0) {
            let reason =
                stderr.lines().next().map_or_else(|| format!("{}: {}", SHOWS[0], out.status), str::to_owned);
            return Err(not(reason));
        }
        Ok(None)
    }
}

/// True if `path` is among the files in `maps` (proc_pid_maps(5)).
fn shows(maps: &[u8], path: &Path) -> bool {
    let path = OsString::from(path).into_encoded_bytes();
    maps.split(|&b| b == b'\n').any(|line| line.ends_with(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Path of this test's C library.
    fn libc() -> PathBuf {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("we are linked dynamically");
        PathBuf::from(&line[line.find('/').unwrap()..])
    }

    #[test]
    fn what_the_loader_takes_is_seen_in_the_program() {
        assert!(matches!(Library(libc()).check(), Ok(None)));
    }

    #[test]
    fn what_the_loader_does_not_take_is_said_with_its_words() {
        let file = std::env::temp_dir().join(format!("greenwave-preload-{}.so", std::process::id()));
        std::fs::write(&file, "no library").unwrap();
        let (found, refused) = (Library::find(Some(&file)), Library(file.clone()).check());
        std::fs::remove_file(&file).unwrap();
        let error = refused.expect_err("it is no library").to_string();
        assert!(error.contains("is not loaded: ERROR: ld.so") && error.contains("preload"), "{error}");
        let error = found.expect_err("it is no library").to_string();
        assert!(error.ends_with(": it is not an ELF file, not libgreenwave.so"), "{error}");
    }

    #[test]
    fn a_library_of_others_and_a_program_of_ours_are_not_the_library() {
        let error_of = |path: &Path| Library::find(Some(path)).expect_err("it is another").to_string();
        assert!(error_of(&libc()).ends_with(": it is not libgreenwave.so"));
        let this = std::env::current_exe().unwrap();
        assert!(error_of(&this).ends_with(": it is a program, not libgreenwave.so"), "it has the note");
        assert!(error_of(Path::new("/")).ends_with(": it is a directory, not libgreenwave.so"));
        assert!(error_of(Path::new("/dev/null")).ends_with(": it is not a file, not libgreenwave.so"));
    }

    #[test]
    fn a_library_that_is_not_there_is_said_so() {
        let error = Library::find(Some(Path::new("/no/lib.so"))).expect_err("there is none");
        assert!(error.to_string().starts_with("/no/lib.so: No such file"), "{error}");
        assert!(shows(b"7f00-7f01 r-xp 0 fe:00 1 /usr/lib/a.so\n", Path::new("/usr/lib/a.so")));
        assert!(!shows(b"7f00-7f01 r-xp 0 fe:00 1 /usr/lib/a.so (deleted)\n", Path::new("/usr/lib/a.so")));
    }
}
