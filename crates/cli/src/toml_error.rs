//! Errors of the TOML parser, with the line and, for a duplicate key, its name.

use crate::Error;

/// The error `e` of the parser about `text`; `location` is the file and the line of a line in it, from 1.
pub fn of(text: &str, e: &toml::de::Error, location: impl Fn(usize) -> String) -> Error {
    let span = e.span().unwrap_or(0..0);
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let message = e.message().trim().replace('\n', " ");
    let at = location(line(span.start));
    if message != "duplicate key" {
        return Error::new(format!("{at}: {message}"));
    }
    let key = text.get(span).unwrap_or_default();
    Error::new(format!("{at}: {key} is set twice")).advice(format!("one of the two settings of {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: a duplicate key is refused with its name and line
    #[test]
    fn a_duplicate_is_named_with_its_line() {
        for (text, expected) in [
            ("a = 1\nb = 2\na = 3\n", "error: 3: a is set twice\n  try: one of the two settings of a"),
            ("[x]\na = 1\n\n[x]\nb = 1\n", "error: 4: x is set twice\n  try: one of the two settings of x"),
            ("[[t]]\nn = 1\nn = 1\n", "error: 3: n is set twice\n  try: one of the two settings of n"),
            ("a = { b = 1, b = 2 }\n", "error: 1: b is set twice\n  try: one of the two settings of b"),
        ] {
            let e = text.parse::<toml::Table>().expect_err(text);
            assert_eq!(of(text, &e, |line| line.to_string()).to_string(), expected);
        }
    }
}
