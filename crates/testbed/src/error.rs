//! Why a runner could not run: one line, and one that says what to try.

use std::fmt;

/// What went wrong, for whoever reads stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    advice: String,
}

impl Error {
    /// `what`: the value that was given and what would be valid; `advice`:
    /// what to do about it.
    pub fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  try: {}", self.what.trim().replace('\n', " "), self.advice)
    }
}

impl std::error::Error for Error {}
