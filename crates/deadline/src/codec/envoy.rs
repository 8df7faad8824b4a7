//! `x-envoy-expected-rq-timeout-ms`: what Envoy tells the service behind it.
//!
//! Milliseconds that Envoy will wait; it is not counted down on later hops
//! unless somebody does, which is what writing it anew here is for.
//! Source: Envoy, HTTP router filter, request headers.

use queueing::Span;

use super::{ParseError, number};

/// The header's name.
pub const HEADER: &str = "x-envoy-expected-rq-timeout-ms";

/// The span that `text`, whole milliseconds, names.
///
/// # Errors
/// When it is not one to twelve digits, or negative.
pub fn parse(text: &str) -> Result<Span, ParseError> {
    number(text, DIGITS_MAX).map(Span::from_millis)
}

/// `left` in whole milliseconds, rounded down; at least 1, since Envoy takes
/// 0 for "no timeout".
#[must_use]
pub fn write(left: Span) -> String {
    (left.as_nanos() / 1_000_000).max(1).to_string()
}

const DIGITS_MAX: usize = 12;
