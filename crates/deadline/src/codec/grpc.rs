//! `grpc-timeout`: timeout header of gRPC.
//!
//! One to eight digits and a unit: remaining time only.
//! Source: gRPC over HTTP/2, "Requests", Timeout.

use queueing::Span;

use super::{ParseError, number};

/// Header name.
pub const HEADER: &str = "grpc-timeout";

/// Parses a timeout such as `150m` (milliseconds) or `2S`.
///
/// # Errors
/// If `text` is not one to eight digits and one of `H M S m u n`, or is negative.
pub fn parse(text: &str) -> Result<Span, ParseError> {
    let (digits, scale_ns) = UNITS
        .iter()
        .find_map(|&(unit, scale_ns)| Some((text.strip_suffix(unit)?, scale_ns)))
        .ok_or(ParseError::Garbled)?;
    Ok(Span::from_nanos(scale_ns) * number(digits, DIGITS_MAX)?)
}

/// `left` in the finest unit that fits, rounded down; at least `1n`, since the format
/// has no zero, at most `99999999H`.
#[must_use]
pub fn write(left: Span) -> String {
    let fits = UNITS.iter().find(|(_, scale_ns)| left.as_nanos() / scale_ns < LIMIT);
    let &(unit, scale_ns) = fits.expect("hours hold every span");
    format!("{}{unit}", (left.as_nanos() / scale_ns).max(1))
}

/// Units in nanoseconds, finest first.
const UNITS: [(char, u64); 6] = [
    ('n', 1),
    ('u', 1_000),
    ('m', 1_000_000),
    ('S', 1_000_000_000),
    ('M', 60_000_000_000),
    ('H', 3_600_000_000_000),
];
const DIGITS_MAX: usize = 8;
const LIMIT: u64 = 10_u64.pow(DIGITS_MAX as u32);
