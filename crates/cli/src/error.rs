//! Errors of commands: one line, and one of advice.

use std::fmt;
use std::process::ExitCode;

use crate::suggestion;

/// The exit status of a measurement that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// An error, for the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    advice: Option<String>,
    is_machines: bool,
    is_interrupt: bool,
}

impl Error {
    /// An error `what`: one line with the given value and the valid ones. The advice is the valid name
    /// that is close to the given one, if there is one.
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        let advice = suggestion::of_text(&what).map(suggested);
        Self { what, advice, is_machines: false, is_interrupt: false }
    }

    /// A measurement interrupted by ctrl-C or SIGTERM; `what` describes the remaining results.
    pub fn interrupted(what: &str) -> Self {
        Self { is_interrupt: true, ..Self::new(format!("interrupted{what}")) }
    }

    /// The exit status: 130 for an interruption, as of a program that SIGINT ends; else 2.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        ExitCode::from(if self.is_interrupt { INTERRUPTED } else { 2 })
    }

    /// An error reported by this machine, in its words.
    fn of_machine(e: &impl fmt::Display, advice: Option<String>) -> Self {
        let error = Self { is_machines: true, ..Self::new(plain(&e.to_string())) };
        advice.into_iter().fold(error, Self::advice)
    }

    /// True if the machine refused a valid request.
    #[must_use]
    pub fn is_machines(&self) -> bool {
        self.is_machines
    }

    /// Sets the advice, after the name that the text suggests.
    #[must_use]
    pub fn advice(self, advice: impl Into<String>) -> Self {
        let advice = match suggestion::of_text(&self.what) {
            Some(name) => format!("{}, or {}", suggested(name), advice.into()),
            None => advice.into(),
        };
        Self { advice: Some(advice), ..self }
    }

    /// The advice that the closest of the `valid` names to `given` was meant, if there is one.
    #[must_use]
    pub fn suggest<'a>(self, given: &str, valid: impl IntoIterator<Item = &'a str>) -> Self {
        match suggestion::closest(given, valid) {
            Some(name) => Self { advice: Some(suggested(name)), ..self },
            None => self,
        }
    }

    /// Sets the advice where there is none yet; an interruption needs none.
    #[must_use]
    pub fn or_advice(self, advice: impl FnOnce() -> String) -> Self {
        if self.advice.is_some() || self.is_interrupt { self } else { self.advice(advice()) }
    }

    /// Puts the subject `what` before the error's text.
    #[must_use]
    pub fn begin(self, what: &str) -> Self {
        Self { what: format!("{what}{}", self.what), ..self }
    }

    /// Appends to the error's text, such as the state that remains.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        Self { what: format!("{}; {more}", self.what), ..self }
    }

    /// The error's text and advice, for callers that print them elsewhere.
    pub fn parts(&self) -> (&str, Option<&str>) {
        (&self.what, self.advice.as_deref())
    }

    /// An error about `path`.
    pub fn file(path: &std::path::Path, e: &std::io::Error) -> Self {
        let error = Self::new(format!("{}: {}", path.display(), plain(&e.to_string())));
        match host::files::Untrusted::advice(e) {
            Some(advice) => error.advice(advice),
            None => error,
        }
    }

    /// Ok if `path` can be written; called before a long measurement rather than after it. An
    /// existing file stays as it is.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn unless_writable(path: &std::path::Path) -> Result<(), Self> {
        host::files::check_writable(path).map_err(|e| Self::unwritable(path, &e))
    }

    /// An error about the output file `path`.
    pub fn unwritable(path: &std::path::Path, e: &std::io::Error) -> Self {
        let error = Self::file(path, e);
        match &error.advice {
            Some(_) => error,
            None => error.advice("a file in an existing, writable folder"),
        }
    }
}

/// Advice that the name was meant.
fn suggested(name: &str) -> String {
    format!("{name} (did you mean that?)")
}

/// The kernel's message, without its number.
#[must_use]
pub fn plain(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}

/// `error: …`, and `  try: …` on a second line where there is advice.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what.replace('\n', " "))?;
        match &self.advice {
            Some(advice) => write!(f, "\n  try: {advice}"),
            None => Ok(()),
        }
    }
}

impl From<drivers::tap::TapError> for Error {
    fn from(e: drivers::tap::TapError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<host::interface::InterfaceError> for Error {
    fn from(e: host::interface::InterfaceError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<drivers::dpdk::DpdkError> for Error {
    fn from(e: drivers::dpdk::DpdkError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<hostbpf::egress::FabricError> for Error {
    fn from(e: hostbpf::egress::FabricError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<netlab::LabError> for Error {
    fn from(e: netlab::LabError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<hostsched::CoresError> for Error {
    fn from(e: hostsched::CoresError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<shim::preload::PreloadError> for Error {
    fn from(e: shim::preload::PreloadError) -> Self {
        // Another file would do, except that a refusal by the loader may be the machine's fault.
        let is_machines = matches!(e, shim::preload::PreloadError::NotLoaded(..));
        Self { is_machines, ..Self::of_machine(&e, Some(e.advice())) }
    }
}

impl From<shim::preload::elf_check::NotPreloadable> for Error {
    fn from(e: shim::preload::elf_check::NotPreloadable) -> Self {
        // Another program would do.
        Self { is_machines: false, ..Self::of_machine(&e, Some(e.advice())) }
    }
}

impl From<hostbpf::guard::GuardError> for Error {
    fn from(e: hostbpf::guard::GuardError) -> Self {
        Self::of_machine(&e, e.advice())
    }
}

impl From<host::sandbox::SandboxError> for Error {
    fn from(e: host::sandbox::SandboxError) -> Self {
        Self::new(plain(&e.to_string())).advice("--no-sandbox, and a systemd unit that restricts the process")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_its_advice_another() {
        let error = Error::new("port 80 is\nin use");
        assert_eq!(error.to_string(), "error: port 80 is in use");
        assert_eq!(error.advice("--port 81").to_string(), "error: port 80 is in use\n  try: --port 81");
    }

    #[test]
    fn the_kernels_number_is_left_out() {
        let error = std::fs::read("/no/such/file").map_err(|e| Error::file("/no/such/file".as_ref(), &e));
        assert_eq!(error.unwrap_err().to_string(), "error: /no/such/file: No such file or directory");
    }

    #[test]
    fn asking_whether_a_file_can_be_written_leaves_none() {
        let path = std::env::temp_dir().join(format!("greenwave-writable-{}", std::process::id()));
        assert_eq!(Error::unless_writable(&path), Ok(()));
        assert!(!path.exists());
        assert!(Error::unless_writable("/no/such/folder/file".as_ref()).is_err());
        std::fs::write(&path, "kept").unwrap();
        assert_eq!(Error::unless_writable(&path), Ok(()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        let link = path.with_extension("link");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(Error::unless_writable(&link), Ok(()));
        assert!(link.is_symlink() && !path.exists(), "a link that names nothing yet stays as it is");
        std::fs::remove_file(&link).unwrap();
    }
}
