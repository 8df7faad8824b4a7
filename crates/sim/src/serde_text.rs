//! Deserialization helpers for settings written as text.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};

use crate::BadConfig;

/// Parses TOML settings and validates them with `check`.
pub(crate) fn settings<T: DeserializeOwned>(
    text: &str,
    check: impl FnOnce(&T) -> Result<(), BadConfig>,
) -> Result<T, BadConfig> {
    let settings = toml::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
    check(&settings)?;
    Ok(settings)
}

/// Deserializes a value from its text form (`"2us"`, `"adps"`).
pub(crate) fn text<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Same as [`text`], for optional fields.
pub(crate) fn text_or_none<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    text(from).map(Some)
}
