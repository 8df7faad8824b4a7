//! Types for units: instants, spans, bytes, rates, cores.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;
use std::time::Duration;

mod rate;

pub use rate::ParseRateError;

/// Instant in nanoseconds since an epoch that the clock's owner chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Latest instant; stands for never.
    pub const MAX: Self = Self(u64::MAX);

    /// Instant `ns` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Span since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// Duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    #[must_use]
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// `n` microseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// `s` seconds, rounded to the nanosecond; negative and NaN give zero.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Microseconds, with fraction.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Seconds, with fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Difference, or zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Span {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// The same duration in the standard library's type.
impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.as_nanos())
    }
}

/// Three significant digits in the unit that fits: `41.2 µs`; whole
/// nanoseconds below 1 µs, and whole seconds from 100 s on.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The limits are those at which rounding would add a digit.
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..999_500 => (self.0 as f64 / 1e3, "µs"),
            999_500..999_500_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let digits = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// Error for a text that is not a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSpanError(String);

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "span {:?} is not a number with a unit (ns, us, ms, s), such as 50us", self.0)
    }
}

impl std::error::Error for ParseSpanError {}

/// `250ns`, `50us`, `50µs`, `1.5ms`, `2s`.
impl FromStr for Span {
    type Err = ParseSpanError;
    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        let bad = || ParseSpanError(text.to_owned());
        let split = text.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(split);
        let scale = match unit.trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(bad()),
        };
        let number: f64 = number.parse().map_err(|_| bad())?;
        Ok(Self((number * scale).round() as u64))
    }
}

/// Number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Error for a text that is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBytesError(String);

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "size {:?} is not a number with a unit (B, KB, MB, KiB, MiB), such as 360KB", self.0)
    }
}

impl std::error::Error for ParseBytesError {}

/// `1500B`, `360KB`, `1.5MB`, `64KiB`, `2MiB`.
impl FromStr for Bytes {
    type Err = ParseBytesError;
    fn from_str(text: &str) -> Result<Self, ParseBytesError> {
        let bad = || ParseBytesError(text.to_owned());
        let split = text.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(split);
        let scale = match unit.trim() {
            "B" => 1.0,
            "KB" => 1e3,
            "MB" => 1e6,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            _ => return Err(bad()),
        };
        let number: f64 = number.parse().map_err(|_| bad())?;
        Ok(Self((number * scale).round() as u64))
    }
}

/// Data rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// `n` bits per second.
    ///
    /// # Panics
    /// If `n` is zero.
    #[must_use]
    pub const fn from_bits_per_sec(n: u64) -> Self {
        assert!(n > 0, "rate 0 is not above 0");
        Self(n)
    }

    /// `n` gigabits (10⁹ bits) per second.
    #[must_use]
    pub const fn from_gbps(n: u64) -> Self {
        Self::from_bits_per_sec(n * 1_000_000_000)
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Transmission time of `bytes` at this rate, rounded up to the nanosecond.
    #[must_use]
    pub const fn time_for(self, bytes: Bytes) -> Span {
        let ns = (bytes.0 as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        Span(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 })
    }
}

/// Number of a core, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    //~ queueing: time spans, byte counts and rates print with their unit in three digits and parse back
    #[test]
    fn spans_read_as_they_are_written() {
        for (text, ns) in [("250ns", 250), ("50us", 50_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000)] {
            assert_eq!(text.parse(), Ok(Span::from_nanos(ns)));
        }
        for text in ["", "5", "us", "5 weeks", "-1us", "1.2.3s"] {
            assert!(text.parse::<Span>().is_err(), "{text:?} is no span");
        }
    }

    #[test]
    fn sizes_parse() {
        for (text, bytes) in [("1500B", 1_500), ("360KB", 360_000), ("1.5MB", 1_500_000), ("64KiB", 65_536)] {
            assert_eq!(text.parse(), Ok(Bytes::new(bytes)));
        }
        for text in ["", "240", "KB", "3 GB", "-1B", "1.2.3B"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?} is no size");
        }
    }

    //~ queueing: time spans, byte counts and rates print with their unit in three digits and parse back
    #[test]
    fn spans_show_three_digits() {
        let shown = |ns| Span::from_nanos(ns).to_string();
        assert_eq!(shown(999), "999 ns");
        assert_eq!(shown(41_200), "41.2 µs");
        assert_eq!(shown(580_000_000), "580 ms");
        assert_eq!([shown(9_994), shown(9_995), shown(9_999)], ["9.99 µs", "10.0 µs", "10.0 µs"]);
        assert_eq!([shown(99_949), shown(99_950), shown(99_999)], ["99.9 µs", "100 µs", "100 µs"]);
        assert_eq!([shown(999_499), shown(999_500), shown(999_999)], ["999 µs", "1.00 ms", "1.00 ms"]);
        assert_eq!([shown(999_499_999), shown(999_999_999)], ["999 ms", "1.00 s"]);
        assert_eq!([shown(99_999_999_999), shown(86_400_000_000_000)], ["100 s", "86400 s"]);
    }

    #[test]
    fn a_printed_span_parses_within_half_a_digit() {
        for shift in 0..63 {
            for ns in [1_u64 << shift, (1_u64 << shift) - 1, 999_500_u64 << (shift / 2)] {
                let span = Span::from_nanos(ns);
                let read: Span = span.to_string().parse().expect("a span");
                let off_ns = read.as_nanos().abs_diff(ns);
                assert!(off_ns as f64 <= 0.0051 * ns as f64, "{ns} ns print as {span}");
            }
        }
    }

    //~ queueing: time spans, byte counts and rates print with their unit in three digits and parse back
    #[test]
    fn a_full_frame_takes_1230_ns_at_10_gbps() {
        assert_eq!(Rate::from_gbps(10).time_for(Bytes::new(1538)), Span::from_nanos(1231));
    }
}
