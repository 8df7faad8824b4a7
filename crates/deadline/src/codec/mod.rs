//! Budgets as text: what travels between machines.
//!
//! Always time that is left, never an instant. [`field`] is our own, with
//! everything a [`Budget`](crate::Budget) knows, one text for an HTTP header,
//! gRPC metadata, a Dubbo attachment and a Storm tuple's field; [`grpc`] and
//! [`envoy`] are what others already send and read. Spans are rounded down,
//! so that a hop never gives time. Every parser is bounded before it looks.
//!
//! The same vectors, `spec/deadline/vectors.json`, hold these and the Java side.

pub mod envoy;
pub mod field;
pub mod grpc;
mod raw;

/// Why a text is no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It does not follow the format.
    Garbled,
    /// A span below zero.
    Negative,
}

/// A plain number of at most `digits` digits.
fn number(text: &str, digits: usize) -> Result<u64, ParseError> {
    let unsigned = text.strip_prefix('-');
    let bare = unsigned.unwrap_or(text);
    if bare.is_empty() || bare.len() > digits || !bare.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::Garbled);
    }
    let value = bare.parse().map_err(|_| ParseError::Garbled)?;
    if unsigned.is_some() && value > 0 { Err(ParseError::Negative) } else { Ok(value) }
}
