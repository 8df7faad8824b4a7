//! Why a command could not run: one line, and one that says what to try.

use std::fmt;

/// What went wrong, for the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    advice: Option<String>,
}

impl Error {
    /// `what`: one line with the value that was given and what would be valid.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), advice: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// An error about `path`.
    pub fn file(path: &std::path::Path, e: &std::io::Error) -> Self {
        Self::new(format!("{}: {e}", path.display()))
    }
}

/// `error: …`, and `  try: …` on a second line where something is known to help.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what.replace('\n', " "))?;
        match &self.advice {
            Some(advice) => write!(f, "\n  try: {advice}"),
            None => Ok(()),
        }
    }
}

impl From<host::tap::TapError> for Error {
    fn from(e: host::tap::TapError) -> Self {
        Self { what: e.to_string(), advice: e.advice() }
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
}
