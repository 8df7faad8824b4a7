//! Bound of a claim: the values that keep it.

use std::fmt;

const WITHIN_SEEDS: &str = "among seeds";

/// The bound a claim must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
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
        let bad = || format!("bound {text:?} is none of \"<= X\", \">= X\", \"X..Y\", \"{WITHIN_SEEDS}\"");
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

    /// Distance of `value` from the bound: negative inside it, larger is worse.
    fn badness(self, value: f64) -> f64 {
        match self {
            Self::AtMost(x) => value - x,
            Self::AtLeast(x) => x - value,
            Self::Within(low, high) => (low - value).max(value - high),
            Self::PaperWithinSeeds => 0.0,
        }
    }

    /// The worst of several values; NaN is worse than any number.
    #[must_use]
    pub fn worst(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let rank = |v: f64| if v.is_nan() { f64::INFINITY } else { self.badness(v) };
        values.into_iter().max_by(|a, b| rank(*a).total_cmp(&rank(*b)))
    }

    /// The best of several values.
    #[must_use]
    pub fn best(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let rank = |v: f64| if v.is_nan() { f64::INFINITY } else { self.badness(v) };
        values.into_iter().min_by(|a, b| rank(*a).total_cmp(&rank(*b)))
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
    fn the_worst_point_counts() {
        let values = [0.01, 0.03, 0.02];
        assert_eq!(Bound::AtMost(0.015).worst(values), Some(0.03));
        assert_eq!(Bound::AtLeast(0.015).worst(values), Some(0.01));
        assert_eq!(Bound::Within(0.015, 0.025).worst(values), Some(0.01));
        assert!(Bound::AtMost(0.015).worst([0.01, f64::NAN]).is_some_and(f64::is_nan));
        assert_eq!(Bound::AtLeast(0.015).best(values.into_iter().chain([f64::NAN])), Some(0.03));
        assert!(!Bound::AtMost(1.0).holds(f64::NAN), "a figure that does not exist proves nothing");
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
