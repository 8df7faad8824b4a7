//! Settings in files: spans and other values as text, numbers with bounds.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Deserializes a value written as text, such as "20ms".
pub fn text<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// As [`text`], for optional values.
pub fn text_or_none<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    text(from).map(Some)
}

/// Refuses a setting outside of its valid range.
///
/// # Errors
/// One line with the setting's name, its value and the valid range.
pub fn within<T: PartialOrd + Display>(name: &str, value: T, valid: RangeInclusive<T>) -> Result<(), String> {
    match valid.contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} {value} is outside {}..={}", valid.start(), valid.end())),
    }
}
