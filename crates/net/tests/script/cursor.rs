//! Position in one line of a script, and readers of tokens.

use queueing::Span;

/// Syntax error.
#[derive(Debug)]
pub struct Invalid(pub String);

pub type Parsed<T> = Result<T, Invalid>;

pub struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub fn new(line: &'a str) -> Self {
        Self { rest: line }
    }

    pub fn is_done(&self) -> bool {
        self.rest.trim().is_empty()
    }

    pub fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Error with the text at the position, and `valid`.
    pub fn invalid<T>(&self, valid: &str) -> Parsed<T> {
        let found = match self.rest.trim() {
            "" => "the end of the line".to_owned(),
            rest => format!("{:?}", rest.split_whitespace().next().unwrap_or_default()),
        };
        Err(Invalid(format!("{found} cannot stand here; valid: {valid}")))
    }

    pub fn peek(&mut self, text: &str) -> bool {
        self.spaces();
        self.rest.starts_with(text)
    }

    /// Skips `text` if it is at the position.
    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.peek(text);
        if found {
            self.rest = &self.rest[text.len()..];
        }
        found
    }

    pub fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { self.invalid(&format!("{text:?}")) }
    }

    /// Skips the word `word`; `ack` does not match `acknowledge`.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let mut ahead = Cursor { rest: self.rest };
        let found = ahead.word() == word;
        if found {
            self.rest = ahead.rest;
        }
        found
    }

    /// Letters, digits and underscores at the position; may be empty.
    pub fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    pub fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        self.spaces();
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (accepted, rest) = self.rest.split_at(end);
        self.rest = rest;
        accepted
    }

    /// True if a digit is at the position.
    pub fn at_digit(&mut self) -> bool {
        self.spaces();
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }

    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Parsed<T> {
        let before = self.rest;
        let digits = self.take_while(|c| c.is_ascii_digit());
        match digits.parse() {
            Ok(number) => Ok(number),
            Err(_) => {
                self.rest = before;
                self.invalid(what)
            }
        }
    }

    /// Seconds with up to nine decimals.
    pub fn seconds(&mut self) -> Parsed<Span> {
        let before = self.rest;
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '.');
        // `...` and `0...0.1` are not times.
        let (integer, part) = digits.split_once('.').unwrap_or((digits, ""));
        let padded = format!("{part:0<9}");
        let whole_ns: Result<u64, _> = if integer.is_empty() { Ok(0) } else { integer.parse::<u64>() };
        match (whole_ns, padded.parse::<u64>(), digits) {
            (Ok(integer), Ok(part_ns), digits) if padded.len() == 9 && !digits.is_empty() => {
                Ok(Span::from_nanos(integer * 1_000_000_000 + part_ns))
            }
            _ => {
                self.rest = before;
                self.invalid("a time in seconds with up to nine decimals")
            }
        }
    }

    /// Text up to the `close` that matches an `open` just read.
    pub fn until_close(&mut self, open: char, close: char) -> Parsed<&'a str> {
        let mut depth = 1;
        for (at, c) in self.rest.char_indices() {
            depth += i32::from(c == open) - i32::from(c == close);
            if depth == 0 {
                let inside = &self.rest[..at];
                self.rest = &self.rest[at + close.len_utf8()..];
                return Ok(inside);
            }
        }
        self.invalid(&format!("something that ends with {close:?}"))
    }
}

/// Parts of `text` between commas outside brackets.
pub fn split_top(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part).trim().to_owned());
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    if !part.trim().is_empty() || !parts.is_empty() {
        parts.push(part.trim().to_owned());
    }
    parts
}
