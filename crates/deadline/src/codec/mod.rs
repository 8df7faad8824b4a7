//! Text formats of budgets, as sent between machines.
//!
//! Remaining time, never an instant. [`field`] is greenwave's own format and holds a whole
//! [`Budget`](crate::Budget), as HTTP header, gRPC metadata, Dubbo attachment or field of a Storm
//! tuple. [`grpc`] and [`envoy`] are existing headers. Spans are rounded down, so no hop adds
//! time. Every parser limits the length before it reads.
//!
//! The test vectors in `spec/deadline/vectors.json` are shared with the Java implementation.

pub mod envoy;
pub mod field;
pub mod grpc;
mod raw;

/// Reason why a text is not a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Malformed.
    Garbled,
    /// Negative span.
    Negative,
}

/// Parses a decimal number of at most `digits` digits.
fn number(text: &str, digits: usize) -> Result<u64, ParseError> {
    let unsigned = text.strip_prefix('-');
    let bare = unsigned.unwrap_or(text);
    if bare.is_empty() || bare.len() > digits || !bare.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Garbled);
    }
    let value = bare.parse().map_err(|_| ParseError::Garbled)?;
    if unsigned.is_some() && value > 0 { Err(ParseError::Negative) } else { Ok(value) }
}
