//! Settings that are written as text and read by their own parser.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads what is written as text (`"2us"`, `"adps"`).
pub(crate) fn text<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// As [`text`], for what may be left out.
pub(crate) fn text_or_none<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    text(from).map(Some)
}
