//! Bound of a claim: the values that keep it.

use std::fmt;

/// Text `bound` with `margin` unless it is 0.
#[must_use]
pub fn margin_in_words(bound: &str, margin: f64) -> String {
    if margin == 0.0 { bound.to_owned() } else { format!("{bound} ± {margin}") }
}

const WITHIN_SEEDS: &str = "among seeds";

/// The bound a claim must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most this value.
    AtMost(f64),
    /// At least this value.
    AtLeast(f64),
    /// Between these, both included.
    Within(f64, f64),
    /// No bound on the value: the paper's own figure must lie between the smallest and the largest
    /// value of single seeds.
    PaperWithinSeeds,
}

impl Bound {
    /// Parses `<= 0.015`, `>= 2`, `0.25..0.42` or `among seeds`.
    ///
    /// # Errors
    /// One line that quotes the text and lists the four forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("bound {text:?} is not one of \"<= X\", \">= X\", \"X..Y\", \"{WITHIN_SEEDS}\"");
        if text.trim() == WITHIN_SEEDS {
            return Ok(Self::PaperWithinSeeds);
        }
        let number = |t: &str| t.trim().parse::<f64>().map_err(|_| bad());
        if let Some(rest) = text.trim().strip_prefix("<=") {
            return Ok(Self::AtMost(number(rest)?));
        }
        if let Some(rest) = text.trim().strip_prefix(">=") {
            return Ok(Self::AtLeast(number(rest)?));
        }
        let (low, high) = text.split_once("..").ok_or_else(bad)?;
        let (low, high) = (number(low)?, number(high)?);
        if low <= high { Ok(Self::Within(low, high)) } else { Err(bad()) }
    }

    /// True if `value` keeps the bound. NaN keeps no bound, and no value keeps
    /// [`PaperWithinSeeds`](Self::PaperWithinSeeds).
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(x) => value <= x,
            Self::AtLeast(x) => value >= x,
            Self::Within(low, high) => low <= value && value <= high,
            Self::PaperWithinSeeds => false,
        }
    }

    /// True if a value in `low..=high` keeps the bound; false for NaN.
    #[must_use]
    pub fn meets(self, low: f64, high: f64) -> bool {
        match self {
            Self::AtMost(x) => low <= x,
            Self::AtLeast(x) => high >= x,
            Self::Within(least, most) => least <= high && low <= most,
            Self::PaperWithinSeeds => false,
        }
    }

    /// The bound moved outwards by `margin`, at least 0, in the unit of the value.
    #[must_use]
    pub fn relaxed(self, margin: f64) -> Self {
        match self {
            Self::AtMost(x) => Self::AtMost(x + margin),
            Self::AtLeast(x) => Self::AtLeast(x - margin),
            Self::Within(low, high) => Self::Within(low - margin, high + margin),
            Self::PaperWithinSeeds => self,
        }
    }

    /// The bound in words, with `margin` unless it is 0.
    #[must_use]
    pub fn with_margin(self, margin: f64) -> String {
        margin_in_words(&self.to_string(), margin)
    }

    /// Distance of `value` from the nearest end of the bound, in the unit of the value; 0 for a bound
    /// without ends.
    #[must_use]
    pub fn distance(self, value: f64) -> f64 {
        match self {
            Self::AtMost(x) | Self::AtLeast(x) => (value - x).abs(),
            Self::Within(low, high) => (value - low).abs().min((value - high).abs()),
            Self::PaperWithinSeeds => 0.0,
        }
    }

    /// Distance of `value` outside the bound, in the unit of the value: negative inside it, infinite
    /// for NaN.
    #[must_use]
    pub fn excess(self, value: f64) -> f64 {
        match self {
            _ if value.is_nan() => f64::INFINITY,
            Self::AtMost(x) => value - x,
            Self::AtLeast(x) => x - value,
            Self::Within(low, high) => (low - value).max(value - high),
            Self::PaperWithinSeeds => 0.0,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(x) => write!(f, "<= {x}"),
            Self::AtLeast(x) => write!(f, ">= {x}"),
            Self::Within(low, high) => write!(f, "{low}..{high}"),
            Self::PaperWithinSeeds => f.write_str(WITHIN_SEEDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_exist_is_outside_every_bound() {
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(1.0), Bound::Within(0.0, 1.0)] {
            assert!(!bound.holds(f64::NAN) && !bound.meets(f64::NAN, f64::NAN));
            assert!(bound.excess(f64::NAN) > bound.excess(1e300));
        }
    }

    #[test]
    fn distance_is_from_the_nearest_end() {
        assert_eq!(Bound::AtMost(1.0).distance(3.0), 2.0);
        assert_eq!(Bound::Within(1.0, 2.0).distance(1.25), 0.25);
        assert_eq!(Bound::Within(1.0, 2.0).distance(4.0), 2.0);
        assert_eq!(Bound::Within(1.0, 2.0).relaxed(0.5), Bound::Within(0.5, 2.5));
    }

    #[test]
    fn bounds_read_as_they_are_written() {
        for text in ["<= 0.015", ">= 2", "0.25..0.42", "among seeds"] {
            assert_eq!(Bound::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "0.5", "< 1", "2..1", "<= x"] {
            assert!(Bound::parse(text).is_err(), "{text:?} is no bound");
        }
    }
}
