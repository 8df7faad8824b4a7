//! `x-envoy-expected-rq-timeout-ms`: timeout that Envoy sends to an upstream service.
//!
//! Milliseconds until Envoy gives up. Envoy does not count it down on later hops;
//! [`write()`] sets it anew.
//! Source: Envoy, HTTP router filter, request headers.

use queueing::Span;

use super::{ParseError, number};

/// Header name.
pub const HEADER: &str = "x-envoy-expected-rq-timeout-ms";

/// Parses whole milliseconds.
///
/// # Errors
/// If `text` is not one to twelve digits, or is negative.
pub fn parse(text: &str) -> Result<Span, ParseError> {
    number(text, DIGITS_MAX).map(Span::from_millis)
}

/// `left` in whole milliseconds, rounded down; at least 1, since 0 means "no timeout" to
/// Envoy.
#[must_use]
pub fn write(left: Span) -> String {
    (left.as_nanos() / 1_000_000).max(1).to_string()
}

const DIGITS_MAX: usize = 12;
