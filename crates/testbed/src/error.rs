//! Error of a runner: one line with the cause, and one with advice.

use std::fmt;

/// Error, as printed on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    advice: String,
}

impl Error {
    /// `what`: the given value and what would be valid; `advice`: what to do.
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
