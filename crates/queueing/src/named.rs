//! Values that settings write by name.

use std::fmt;

/// The value called `name` in `table`, where `what` says what they are.
///
/// # Errors
/// When it is none of them.
pub fn named<T: Copy>(table: &[(&'static str, T)], what: &'static str, name: &str) -> Result<T, UnknownName> {
    let found = table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
    let known = || table.iter().map(|&(known, _)| known).collect();
    found.ok_or_else(|| UnknownName { what, name: name.to_owned(), known: known() })
}

/// What was called by a name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl std::error::Error for UnknownName {}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} is none of {}", self.what, self.name, self.known.join(", "))
    }
}
