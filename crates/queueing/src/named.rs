//! Lookup of settings by name.

use std::fmt;

/// Value called `name` in `table`; `what` is the kind of value, for the error.
///
/// # Errors
/// If `table` has no such name; the text lists the valid ones.
pub fn named<T: Copy>(table: &[(&'static str, T)], what: &'static str, name: &str) -> Result<T, UnknownName> {
    let found = table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
    let known = || table.iter().map(|&(known, _)| known).collect();
    found.ok_or_else(|| UnknownName { what, name: name.to_owned(), known: known() })
}

/// Error for a name that is not in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl std::error::Error for UnknownName {}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} is not one of {}", self.what, self.name, self.known.join(", "))
    }
}
