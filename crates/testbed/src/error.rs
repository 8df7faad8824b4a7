//! Error of a runner: one line with the cause, and one with advice.

use std::fmt;

/// Error, as printed on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    cause: String,
    advice: String,
}

impl Error {
    /// `cause`: the given value and the valid ones; `advice`: the next step.
    pub fn new(cause: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { cause: cause.into(), advice: advice.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  try: {}", self.cause.trim().replace('\n', " "), self.advice)
    }
}

impl std::error::Error for Error {}
